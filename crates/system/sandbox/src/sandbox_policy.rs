use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a sandboxed command may do. Paths come from the user, never from a model.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SandboxPolicy {
    /// Writable paths, everything below included.
    pub write: Vec<PathBuf>,
    /// Why other paths are read-only: completes "blocked by sandbox: write /x (…)".
    pub write_rule: String,
    /// Directories whose content programs outside the sandbox trust, such as downloaded package sources.
    /// Writes go to an overlay that only this session's commands see. Read-only on machines without
    /// overlays.
    pub layers: Vec<PathBuf>,
    /// Read-only paths inside `write`.
    pub protect: Vec<Protected>,
    /// Unreadable paths, everything below included.
    pub hide: Vec<Hidden>,
    /// Network access.
    pub network: Network,
    /// Access to the machine's Unix sockets.
    pub sockets: UnixSockets,
    /// Directory for temporary files and caches; inside `write`.
    pub scratch: Option<PathBuf>,
}

/// A path that a command must not change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Protected {
    /// Absolute path.
    pub path: PathBuf,
    /// What exists there, or would.
    pub kind: PathKind,
    /// What to do if it does not exist.
    pub absent: IfMissing,
}

/// Type of a path.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum PathKind {
    File,
    Directory,
}

/// How to protect a path that does not exist.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IfMissing {
    /// Prevent its creation with an empty placeholder.
    Prevent,
    /// Move it to quarantine if it is created.
    TakeBack,
}

/// A path that a command must not read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hidden {
    /// Absolute path.
    pub path: PathBuf,
    /// The rule that hides it, as written.
    pub rule: String,
}

/// Network access of a command.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Network {
    /// Unrestricted.
    #[default]
    Open,
    /// None, except for servers of other sandboxed commands on the loopback address.
    Off,
    /// These domains, through a proxy; none if the list is empty.
    Domains(Domains),
}

/// Domains that may be reached.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Domains {
    /// Allowed names; `*.example.com` matches all subdomains.
    pub allow: Vec<String>,
    /// Denied names; takes precedence over `allow`.
    pub deny: Vec<String>,
}

/// Which Unix sockets a command may use. Through a socket it could ask another process to do what it may
/// not.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum UnixSockets {
    /// Only socket pairs.
    #[default]
    Own,
    /// These sockets and those in these directories; other sockets that exist when the command starts
    /// are covered.
    Listed(Vec<PathBuf>),
    /// All.
    All,
}

impl SandboxPolicy {
    /// A policy for plan mode: only the scratch directory is writable.
    pub fn read_only(scratch: &Path, rule: impl Into<String>) -> Self {
        Self {
            write: vec![scratch.to_owned()],
            write_rule: rule.into(),
            scratch: Some(scratch.to_owned()),
            ..Self::default()
        }
    }

    /// The rule that forbids writing `path`; `None` if it is allowed.
    pub fn forbids_write(&self, path: &Path) -> Option<String> {
        let protected = self.protect.iter().find(|it| path.starts_with(&it.path));
        if let Some(protected) = protected {
            return Some(format!("protected path {}", protected.path.display()));
        }
        let inside = self.write.iter().any(|root| path.starts_with(root));
        (!inside && !is_device(path)).then(|| self.write_rule.clone())
    }

    /// The rule that forbids reading `path`; `None` if it is allowed.
    pub fn forbids_read(&self, path: &Path) -> Option<String> {
        let hidden = self.hide.iter().find(|it| path.starts_with(&it.path))?;
        Some(hidden.rule.clone())
    }
}

/// Devices that store nothing.
pub(crate) const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

fn is_device(path: &Path) -> bool {
    DEVICES
        .iter()
        .chain(&["/dev/shm", "/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"])
        .any(|it| path.starts_with(it))
}
