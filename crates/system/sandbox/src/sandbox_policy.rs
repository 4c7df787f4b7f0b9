use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a confined command may do. Roots come from the user and never from a
/// model.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SandboxPolicy {
    /// Where it may write, everything below included.
    pub write: Vec<PathBuf>,
    /// Why it may not write elsewhere: ends the sentence "blocked by sandbox:
    /// write /x (…)".
    pub write_rule: String,
    /// Directories that programs outside trust, such as the sources a package
    /// manager has fetched. They stay as they are: what a command writes there
    /// goes into a layer that only the commands of this session see. Where the
    /// machine has no overlays, nothing may be written there.
    pub layers: Vec<PathBuf>,
    /// What it may not change although it is inside of `write`.
    pub protect: Vec<Protected>,
    /// What it may not read, everything below included.
    pub hide: Vec<Hidden>,
    /// Whom it may talk to.
    pub network: Network,
    /// Whether it may open Unix sockets of the machine.
    pub sockets: UnixSockets,
    /// Where it finds its temporary files and caches; inside of `write`.
    pub scratch: Option<PathBuf>,
}

/// A path a command may not change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Protected {
    /// Absolute.
    pub path: PathBuf,
    /// What is there, or would be.
    pub kind: PathKind,
    /// What happens when it is not there.
    pub absent: IfMissing,
}

/// What a path is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum PathKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// How a path that is not there is protected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IfMissing {
    /// It cannot be created: something empty stands in its place meanwhile.
    Prevent,
    /// If it is created, it is taken away afterwards.
    TakeBack,
}

/// A path a command may not read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hidden {
    /// Absolute.
    pub path: PathBuf,
    /// The rule that says so, as written.
    pub rule: String,
}

/// Whom a command may talk to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Network {
    /// Everybody.
    #[default]
    Open,
    /// Nobody but servers of other confined commands, on the loopback address.
    Off,
    /// These domains, through a proxy; nobody if there are none.
    Domains(Domains),
}

/// Which domains may be reached.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Domains {
    /// Names, `*.example.com` for every name below.
    pub allow: Vec<String>,
    /// The same, and stronger.
    pub deny: Vec<String>,
}

/// Whether a command may open Unix sockets: through them it could have others
/// do what it may not.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum UnixSockets {
    /// None but pairs of its own.
    #[default]
    Own,
    /// These, and those in these directories; what else is there when a command
    /// starts is out of reach.
    Listed(Vec<PathBuf>),
    /// Any.
    All,
}

impl SandboxPolicy {
    /// Nothing may be written but the scratch directory: plan mode.
    pub fn read_only(scratch: &Path, rule: impl Into<String>) -> Self {
        Self {
            write: vec![scratch.to_owned()],
            write_rule: rule.into(),
            scratch: Some(scratch.to_owned()),
            ..Self::default()
        }
    }

    /// The rule that keeps a command from writing this path; `None` if it may.
    pub fn forbids_write(&self, path: &Path) -> Option<String> {
        let protected = self.protect.iter().find(|it| path.starts_with(&it.path));
        if let Some(protected) = protected {
            return Some(format!("protected path {}", protected.path.display()));
        }
        let inside = self.write.iter().any(|root| path.starts_with(root));
        (!inside && !is_device(path)).then(|| self.write_rule.clone())
    }

    /// The rule that keeps a command from reading this path; `None` if it may.
    pub fn forbids_read(&self, path: &Path) -> Option<String> {
        let hidden = self.hide.iter().find(|it| path.starts_with(&it.path))?;
        Some(hidden.rule.clone())
    }
}

/// Devices that are no storage.
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
