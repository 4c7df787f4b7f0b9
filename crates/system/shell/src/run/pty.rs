//! Input and output of a command: a pipe, or a pseudo-terminal.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use haft_process::timespec;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize},
};

use crate::run::job::{SharedJob, TerminalMode};

/// Timeout for typing into a terminal that is not read.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Size reported by the terminal.
const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

/// Input and output of a command, and our ends.
pub(crate) enum JobIo {
    /// Output through a pipe, no input.
    Pipe { ours: OwnedFd, theirs: OwnedFd },
    /// A pseudo-terminal with this device name.
    Terminal { ours: OwnedFd, name: CString },
}

impl JobIo {
    pub(crate) fn open(terminal: TerminalMode) -> io::Result<Self> {
        let wires = match terminal {
            TerminalMode::None => {
                let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
                // A larger buffer; may exceed the user's limit.
                rustix::pipe::fcntl_setpipe_size(&theirs, 1 << 20).ok();
                Self::Pipe { ours, theirs }
            }
            TerminalMode::Own => {
                let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
                grantpt(&ours)?;
                unlockpt(&ours)?;
                rustix::termios::tcsetwinsize(&ours, SIZE)?;
                let name = ptsname(&ours, Vec::new())?;
                Self::Terminal { ours, name }
            }
        };
        let (Self::Pipe { ours, .. } | Self::Terminal { ours, .. }) = &wires;
        rustix::io::ioctl_fionbio(ours, true)?;
        Ok(wires)
    }

    /// Our descriptors and their numbers in the command.
    pub(crate) fn descriptors<'a>(&'a self, null: &'a File) -> Vec<(BorrowedFd<'a>, RawFd)> {
        match self {
            Self::Pipe { theirs, .. } => vec![(null.as_fd(), 0), (theirs.as_fd(), 1), (theirs.as_fd(), 2)],
            Self::Terminal { .. } => Vec::new(),
        }
    }

    /// The terminal device that the command opens.
    pub(crate) fn terminal(&self) -> Option<&CStr> {
        match self {
            Self::Pipe { .. } => None,
            Self::Terminal { name, .. } => Some(name),
        }
    }

    /// Duplicates our end before the command starts, because nothing may fail after that. Also gives the
    /// job the terminal for input.
    pub(crate) fn output(&self, shared: &SharedJob) -> io::Result<OwnedFd> {
        let (Self::Pipe { ours, .. } | Self::Terminal { ours, .. }) = self;
        if matches!(self, Self::Terminal { .. }) {
            *shared.keyboard() = Some(ours.try_clone()?);
        }
        ours.try_clone()
    }
}

/// Whether the terminal echoes input.
pub(crate) fn echoes(keyboard: &OwnedFd) -> bool {
    rustix::termios::tcgetattr(keyboard).is_ok_and(|it| it.local_modes.contains(LocalModes::ECHO))
}

/// Types all bytes; blocks up to `TIMEOUT`.
pub(crate) fn type_all(keyboard: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !bytes.is_empty() {
        match rustix::io::write(keyboard, bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let mut fds = [PollFd::new(keyboard, PollFlags::OUT)];
                if left.is_zero() || poll(&mut fds, Some(&timespec(left)))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(err) => return Err(err.into()),
        }
    }
    Ok(())
}
