use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use crate::ContentHash;

/// What a path turned out to be instead of a regular file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A terminal, a disk, `/dev/zero`.
    Device,
    /// A file the kernel makes up while it is read (`/proc`, `/sys`).
    Kernel,
    /// A symbolic link where none was when the path was checked.
    Symlink,
    /// Something else.
    Unknown,
}

impl FileKind {
    pub(crate) fn from_kind(kind: rustix::fs::FileType) -> Self {
        use rustix::fs::FileType;
        match kind {
            FileType::Directory => Self::Directory,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Self::Device,
            FileType::Symlink => Self::Symlink,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Kernel => "a kernel interface, not a stored file",
            Self::Symlink => "a symbolic link",
            Self::Unknown => "not a regular file",
        })
    }
}

/// Why a file could not be read or changed. The text is meant for the model:
/// it says what is wrong and, where there is one, the next step.
#[derive(Debug)]
pub enum FileError {
    /// Nothing there.
    NotFound {
        /// The path as the caller named it.
        path: PathBuf,
    },
    /// A component of the path that should be a directory is none.
    ParentNotDirectory {
        /// The path as the caller named it.
        path: PathBuf,
    },
    /// There, but not a file to read or write.
    NotRegular {
        /// The path as the caller named it.
        path: PathBuf,
        /// What it is.
        kind: FileKind,
    },
    /// A link appeared on the way after the path was checked.
    Moved {
        /// The path as the caller named it.
        path: PathBuf,
    },
    /// The system said no.
    Denied {
        /// The path as the caller named it.
        path: PathBuf,
        /// What was tried, as a verb.
        doing: &'static str,
    },
    /// The file carries no write bit.
    ReadOnly {
        /// The path as the caller named it.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// More than may be loaded at once.
    TooLarge {
        /// The path as the caller named it.
        path: PathBuf,
        /// The size of the file in bytes.
        len: u64,
        /// The largest size that is taken, in bytes.
        max: u64,
    },
    /// The content is not what the change was made for.
    Changed {
        /// The path as the caller named it.
        path: PathBuf,
        /// What was expected; nothing when the file should not exist.
        expected: Option<ContentHash>,
    },
    /// An editor has unsaved text in it that stands against the change.
    Unsaved {
        /// The path as the caller named it.
        path: PathBuf,
        /// What stands against it, and what to do.
        reason: String,
    },
    /// Another writer holds the file.
    Busy {
        /// The path as the caller named it.
        path: PathBuf,
    },
    /// Anything else the system reported.
    Io {
        /// The path as the caller named it.
        path: PathBuf,
        /// What was tried, as a verb.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl FileError {
    pub(crate) fn from_errno(path: &Path, doing: &'static str, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOENT => Self::NotFound { path },
            Errno::NOTDIR => Self::ParentNotDirectory { path },
            Errno::LOOP => Self::Moved { path },
            Errno::ACCESS | Errno::PERM => Self::Denied { path, doing },
            Errno::ISDIR => Self::NotRegular { path, kind: FileKind::Directory },
            Errno::NXIO => Self::NotRegular { path, kind: FileKind::Device },
            errno => Self::Io { path, doing, source: errno.into() },
        }
    }

    pub(crate) fn from_io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(errno) => Self::from_errno(path, doing, errno),
            None => Self::Io { path: path.to_owned(), doing, source },
        }
    }

    /// Whether trying again from the start may succeed.
    pub fn is_race(&self) -> bool {
        matches!(self, Self::Changed { .. } | Self::Moved { .. } | Self::Busy { .. })
    }

    /// What went wrong, without a word about what that means for the user's
    /// files: for what happens beside a change, such as keeping the old content.
    pub fn reason(&self) -> String {
        match self {
            Self::Io { path, doing, source } => format!("could not {doing} {}: {source}", path.display()),
            other => other.to_string(),
        }
    }

    /// Whether the disk (or a quota) is full.
    pub fn is_no_space(&self) -> bool {
        let Self::Io { source, .. } = self else { return false };
        matches!(Errno::from_io_error(source), Some(Errno::NOSPC | Errno::DQUOT))
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { path } => write!(f, "{} does not exist", path.display()),
            Self::ParentNotDirectory { path } => {
                write!(f, "{}: a parent of this path is a file, not a directory", path.display())
            }
            Self::NotRegular { path, kind } => write!(f, "{} is {kind}", path.display()),
            Self::Moved { path } => write!(
                f,
                "{}: a symbolic link appeared on this path after it was checked; nothing was touched",
                path.display()
            ),
            Self::Denied { path, doing } => {
                write!(f, "the system does not permit to {doing} {}", path.display())
            }
            Self::ReadOnly { path, mode } => write!(
                f,
                "{} is read-only (mode {mode:04o}) and was left as it is; if it is meant to be changed, \
                 make it writable first (chmod u+w)",
                path.display()
            ),
            Self::TooLarge { path, len, max } => {
                write!(f, "{} is too large for this ({len} bytes; the limit is {max} bytes)", path.display())
            }
            Self::Changed { path, expected: Some(_) } => {
                write!(f, "{} was changed by someone else in the meantime", path.display())
            }
            Self::Changed { path, expected: None } => {
                write!(f, "{} was created by someone else in the meantime", path.display())
            }
            Self::Unsaved { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::Busy { path } => {
                write!(f, "{} is being written by another process; try again", path.display())
            }
            Self::Io { path, doing, source } if self.is_no_space() => write!(
                f,
                "no space left on the device: could not {doing} {} ({source}); nothing was changed",
                path.display()
            ),
            Self::Io { path, doing, source } => write!(f, "could not {doing} {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for FileError {}
