//! The tty: taken over, and restored in all cases. The only platform-specific file.

use std::{
    fs::OpenOptions,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
    sync::{
        Mutex, Once, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::OFlags,
    termios::{ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, Termios},
};

use super::{THREAD, stderr_capture};
use crate::app_state::ScreenSize;

/// Enables bracketed paste, focus events and unambiguous keys; saves the title.
const ON: &[u8] = b"\x1b[22;0t\x1b[?2004h\x1b[?1004h\x1b[>1u\x1b[>4;1m";
/// Disables all modes that may be enabled, and shows the cursor.
const OFF: &[u8] = b"\x1b[?2026l\x1b[?7h\x1b[>4m\x1b[<u\x1b[?1004l\x1b[?2004l\x1b[?25h\x1b[m\x1b[23;0t";
/// Erases what is below the cursor and starts a new row for the message of a crash.
const BROKEN: &[u8] = b"\r\n\x1b[J";
/// Leaves the alternate screen; sent only if it was entered.
const OFF_ALTERNATE: &[u8] = b"\x1b[<u\x1b[?1007l\x1b[?1049l";

/// The tty's original state, while it is taken over.
struct RawTty {
    fd: OwnedFd,
    before: Termios,
    alternate: bool,
}

static TAKEN: Mutex<Option<RawTty>> = Mutex::new(None);
/// Whether the program is crashing: nothing is painted any more.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether standard input and output are terminals.
pub fn is_there() -> bool {
    rustix::termios::isatty(io::stdin()) && rustix::termios::isatty(io::stdout())
}

/// The tty.
pub(super) struct Tty {
    fd: OwnedFd,
}

impl Tty {
    /// Opens the controlling terminal as a new file description, so that non-blocking mode affects no
    /// other process.
    pub(super) fn open() -> io::Result<Self> {
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or(0);
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty")?;
        let tty = Self { fd: file.into() };
        tty.take()?;
        Ok(tty)
    }

    /// Takes over the tty. Typed-ahead input is kept.
    pub(super) fn take(&self) -> io::Result<()> {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match taken.take() {
            Some(taken) => taken.before,
            None => repaired(rustix::termios::tcgetattr(&self.fd)?),
        };
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(&self.fd, OptionalActions::Now, &raw)?;
        *taken = Some(RawTty { fd: self.fd.try_clone()?, before, alternate: false });
        drop(taken);
        self.write_all(b"\r\x1b[K");
        self.write_all(ON);
        stderr_capture::redirect();
        Ok(())
    }

    /// Releases the tty temporarily.
    pub(super) fn give_back(&self) {
        restore();
    }

    pub(super) fn set_alternate(&self, alternate: bool) {
        if let Some(taken) = &mut *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) {
            taken.alternate = alternate;
        }
    }

    /// Returns the number of bytes typed before the tty was taken over; there Enter is a line feed.
    pub(super) fn type_ahead(&self) -> usize {
        rustix::io::ioctl_fionread(&self.fd).ok().and_then(|it| usize::try_from(it).ok()).unwrap_or(0)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn size(&self) -> ScreenSize {
        let size = rustix::termios::tcgetwinsize(&self.fd).ok();
        let or = |value: Option<u16>, usual: usize| match value {
            None | Some(0) => usual,
            Some(value) => usize::from(value),
        };
        ScreenSize { columns: or(size.map(|it| it.ws_col), 80), rows: or(size.map(|it| it.ws_row), 24) }
    }

    /// Reads available input without blocking; 0 if there is none. End of input is an error.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match rustix::io::read(&self.fd, buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            Err(err) => Err(err.into()),
        }
    }

    /// Writes as much as the terminal accepts without blocking.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if IS_BROKEN.load(Ordering::Relaxed) {
            return Ok(bytes.len());
        }
        match rustix::io::write(&self.fd, bytes) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            Err(err) => Err(err.into()),
        }
    }

    /// Writes everything, blocking up to a timeout.
    pub(super) fn write_all(&self, bytes: &[u8]) {
        if !IS_BROKEN.load(Ordering::Relaxed) {
            write_patiently(self.fd.as_fd(), bytes);
        }
    }
}

/// Returns the modes with those of raw mode reset; others unchanged.
fn repaired(mut modes: Termios) -> Termios {
    if modes.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO) {
        return modes;
    }
    let local = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHOE | LocalModes::ECHOK;
    modes.local_modes |= local | LocalModes::ISIG | LocalModes::IEXTEN;
    modes.input_modes |= InputModes::ICRNL | InputModes::IXON | InputModes::BRKINT;
    modes.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    modes.control_modes |= ControlModes::CREAD;
    modes
}

/// Repairs a terminal after a program was killed: disables modes, leaves the alternate screen, shows the
/// cursor, restores line mode and echo.
pub fn repair() -> io::Result<()> {
    let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty")?;
    let fd: OwnedFd = file.into();
    let modes = repaired(rustix::termios::tcgetattr(&fd)?);
    rustix::termios::tcsetattr(&fd, OptionalActions::Now, &modes)?;
    // Several programs may have pushed keyboard modes.
    for bytes in [OFF_ALTERNATE, b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[=0u", OFF] {
        write_patiently(fd.as_fd(), bytes);
    }
    Ok(())
}

fn write_patiently(fd: BorrowedFd<'_>, mut bytes: &[u8]) {
    let mut patience = 20;
    while !bytes.is_empty() && 0 < patience {
        match rustix::io::write(fd, bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::AGAIN) => {
                patience -= 1;
                let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], Some(&wait)).ok();
            }
            Err(rustix::io::Errno::INTR) => (),
            Err(_) => return,
        }
    }
}

/// Restores the tty. No-op if it is not taken over.
pub(super) fn restore() {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(taken) = taken {
        taken.restore();
    }
    stderr_capture::put_back();
}

/// Like [`restore`], for signal handlers. Does nothing if another thread is just taking over or
/// restoring the tty.
pub(super) fn restore_in_handler() {
    let taken = match TAKEN.try_lock() {
        Ok(mut taken) => taken.take(),
        Err(TryLockError::Poisoned(taken)) => taken.into_inner().take(),
        Err(TryLockError::WouldBlock) => None,
    };
    if let Some(taken) = taken {
        IS_BROKEN.store(true, Ordering::Relaxed);
        taken.restore_broken();
    }
}

impl RawTty {
    fn restore(&self) {
        if self.alternate {
            write_patiently(self.fd.as_fd(), OFF_ALTERNATE);
        }
        write_patiently(self.fd.as_fd(), OFF);
        rustix::termios::tcsetattr(&self.fd, OptionalActions::Now, &self.before).ok();
    }

    /// Restores the tty in the middle of a frame.
    fn restore_broken(&self) {
        self.restore();
        write_patiently(self.fd.as_fd(), BROKEN);
    }
}

/// Installs a panic hook that restores the tty before the message of a fatal panic. Panics in tools are
/// caught and are not fatal.
pub(super) fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let current = std::thread::current();
            if matches!(current.name(), Some(THREAD | "main")) {
                restore_in_handler();
                restore();
            }
            before(info);
        }));
    });
}
