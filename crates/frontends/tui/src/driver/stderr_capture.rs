//! Standard error while the screen is ours: what libraries and programs write
//! there must not land on it.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Mutex, PoisonError},
};

use rustix::pipe::PipeFlags;

/// The standard error of the person, while it leads to us.
struct CapturedStderr {
    before: OwnedFd,
    read: OwnedFd,
    /// What was taken and is not on the screen yet: a program that dies before it is drawn
    /// says it all the same.
    undrawn: String,
}

static REDIRECTED: Mutex<Option<CapturedStderr>> = Mutex::new(None);

/// Leads standard error to us, if it leads to the terminal.
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

/// Leads it back, and hands on what nobody has seen.
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

/// The same in a handler of a signal, which takes no memory and waits only for as long as
/// another thread needs to read a few bytes.
pub(super) fn put_back_in_handler() {
    let mut tries = 0..500;
    let redirected = loop {
        match REDIRECTED.try_lock() {
            Ok(it) => break it,
            Err(_) if tries.next().is_none() => return,
            Err(_) => std::thread::yield_now(),
        }
    };
    // It stays where it is: giving memory back is nothing for a handler.
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

/// What was written there since the last time. Until [`drawn`] is called, it is said again
/// when the screen is given back.
pub(super) fn take() -> String {
    let mut redirected = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(it) = redirected.as_mut() else { return String::new() };
    let text = read_all(&it.read);
    it.undrawn.push_str(&text);
    text
}

/// What was taken is on the screen.
pub(super) fn drawn() {
    if let Some(it) = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        it.undrawn = String::new();
    }
}

/// What can be waited for.
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
