//! The lines between a command and us: a pipe, or a terminal of its own.

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

/// How long somebody who types waits for a command that does not read.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How large the terminal says it is.
const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

/// What a command reads from and prints to, and our end of it.
pub(crate) enum JobIo {
    /// It only prints.
    Pipe { ours: OwnedFd, theirs: OwnedFd },
    /// It has a terminal, found under this name.
    Terminal { ours: OwnedFd, name: CString },
}

impl JobIo {
    pub(crate) fn open(terminal: TerminalMode) -> io::Result<Self> {
        let wires = match terminal {
            TerminalMode::None => {
                let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
                // More per wake-up; not everybody may.
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

    /// Which of our descriptors the command gets under which number.
    pub(crate) fn descriptors<'a>(&'a self, null: &'a File) -> Vec<(BorrowedFd<'a>, RawFd)> {
        match self {
            Self::Pipe { theirs, .. } => vec![(null.as_fd(), 0), (theirs.as_fd(), 1), (theirs.as_fd(), 2)],
            Self::Terminal { .. } => Vec::new(),
        }
    }

    /// The terminal the command opens.
    pub(crate) fn terminal(&self) -> Option<&CStr> {
        match self {
            Self::Pipe { .. } => None,
            Self::Terminal { name, .. } => Some(name),
        }
    }

    /// A copy of our end, made before the command starts: from then on nothing may fail. What can
    /// be typed on is known to the job from here on.
    pub(crate) fn output(&self, shared: &SharedJob) -> io::Result<OwnedFd> {
        let (Self::Pipe { ours, .. } | Self::Terminal { ours, .. }) = self;
        if matches!(self, Self::Terminal { .. }) {
            *shared.keyboard() = Some(ours.try_clone()?);
        }
        ours.try_clone()
    }
}

/// Whether what is typed is shown.
pub(crate) fn echoes(keyboard: &OwnedFd) -> bool {
    rustix::termios::tcgetattr(keyboard).is_ok_and(|it| it.local_modes.contains(LocalModes::ECHO))
}

/// Types everything, or says why not.
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
