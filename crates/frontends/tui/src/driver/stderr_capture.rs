//! Captures standard error while the terminal is taken over, so that output of libraries and child
//! processes does not corrupt the screen.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Mutex, PoisonError},
};

use rustix::pipe::PipeFlags;

/// The original standard error, while it is redirected.
struct CapturedStderr {
    before: OwnedFd,
    read: OwnedFd,
    /// Captured output that is not painted yet; printed if the program crashes before that.
    undrawn: String,
}

static REDIRECTED: Mutex<Option<CapturedStderr>> = Mutex::new(None);

/// Redirects standard error, if it is the terminal.
pub(super) fn redirect() {
    let mut redirected = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner);
    if redirected.is_some() || !rustix::termios::isatty(io::stderr()) {
        return;
    }
    let made = || -> io::Result<CapturedStderr> {
        let before = rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3)?;
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        rustix::stdio::dup2_stderr(&write)?;
        Ok(CapturedStderr { before, read, undrawn: String::new() })
    };
    *redirected = made().ok();
}

/// Restores standard error and prints what was not shown.
pub(super) fn put_back() {
    let redirected = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(it) = redirected {
        rustix::stdio::dup2_stderr(&it.before).ok();
        rustix::io::write(&it.before, it.undrawn.as_bytes()).ok();
        let rest = read_all(&it.read);
        if !rest.trim().is_empty() {
            rustix::io::write(&it.before, rest.as_bytes()).ok();
        }
    }
}

/// Like [`put_back`], for signal handlers: does not allocate, and waits only while another thread reads
/// a few bytes.
pub(super) fn put_back_in_handler() {
    let mut tries = 0..500;
    let redirected = loop {
        match REDIRECTED.try_lock() {
            Ok(it) => break it,
            Err(_) if tries.next().is_none() => return,
            Err(_) => std::thread::yield_now(),
        }
    };
    // Not taken out: freeing memory is not async-signal-safe.
    let Some(it) = redirected.as_ref() else { return };
    rustix::stdio::dup2_stderr(&it.before).ok();
    rustix::io::write(&it.before, it.undrawn.as_bytes()).ok();
    let mut buffer = [0; 512];
    while let Ok(count @ 1..) = rustix::io::read(&it.read, &mut buffer) {
        if rustix::io::write(&it.before, &buffer[..count]).is_err() {
            return;
        }
    }
}

/// Returns output captured since the last call. It is printed when the terminal is released, unless
/// [`drawn`] is called.
pub(super) fn take() -> String {
    let mut redirected = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(it) = redirected.as_mut() else { return String::new() };
    let text = read_all(&it.read);
    it.undrawn.push_str(&text);
    text
}

/// Marks the taken output as painted.
pub(super) fn drawn() {
    if let Some(it) = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        it.undrawn = String::new();
    }
}

/// Returns a descriptor to wait for output.
pub(super) fn reader() -> Option<OwnedFd> {
    let redirected = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner);
    redirected.as_ref().and_then(|it| it.read.try_clone().ok())
}

fn read_all(fd: &OwnedFd) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = rustix::io::read(fd, &mut buffer) {
        all.extend_from_slice(&buffer[..count]);
        if 64 << 10 < all.len() {
            break;
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}
