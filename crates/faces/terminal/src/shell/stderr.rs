//! Standard error while the screen is ours: what libraries and programs write
//! there must not land on it.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Mutex, PoisonError},
};

use rustix::pipe::PipeFlags;

/// The standard error of the person, while it leads to us.
struct RedirectedErrors {
    before: OwnedFd,
    read: OwnedFd,
}

static REDIRECTED: Mutex<Option<RedirectedErrors>> = Mutex::new(None);

/// Leads standard error to us, if it leads to the terminal.
pub(super) fn redirect() {
    let mut redirected = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner);
    if redirected.is_some() || !rustix::termios::isatty(io::stderr()) {
        return;
    }
    let made = || -> io::Result<RedirectedErrors> {
        let before = rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3)?;
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        rustix::stdio::dup2_stderr(&write)?;
        Ok(RedirectedErrors { before, read })
    };
    *redirected = made().ok();
}

/// Leads it back, and hands on what nobody has read.
pub(super) fn put_back() {
    let redirected = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(it) = redirected {
        rustix::stdio::dup2_stderr(&it.before).ok();
        let rest = read_all(&it.read);
        if !rest.trim().is_empty() {
            rustix::io::write(&it.before, rest.as_bytes()).ok();
        }
    }
}

/// The same in a handler of a signal, which may neither wait nor take memory.
pub(super) fn put_back_in_handler() {
    let Ok(mut redirected) = REDIRECTED.try_lock() else { return };
    let Some(it) = redirected.take() else { return };
    rustix::stdio::dup2_stderr(&it.before).ok();
    let mut buffer = [0; 512];
    while let Ok(count @ 1..) = rustix::io::read(&it.read, &mut buffer) {
        if rustix::io::write(&it.before, &buffer[..count]).is_err() {
            return;
        }
    }
}

/// What was written there since the last time.
pub(super) fn take() -> String {
    let redirected = REDIRECTED.lock().unwrap_or_else(PoisonError::into_inner);
    redirected.as_ref().map(|it| read_all(&it.read)).unwrap_or_default()
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
