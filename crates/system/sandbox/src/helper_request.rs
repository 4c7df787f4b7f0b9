//! The request to the helper process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// First argument that makes a program act as the helper.
pub(crate) const HELPER: &str = "__sandbox";

/// What to set up before the helper executes the command.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Order {
    /// How to build the sandbox.
    pub(crate) walls: HelperMechanism,
    /// Writable paths.
    pub(crate) write: Vec<PathBuf>,
    /// Directories to overlay.
    pub(crate) layers: Vec<OverlayLayer>,
    /// Read-only paths; all exist.
    pub(crate) protect: Vec<PathBuf>,
    /// Unreadable paths; all exist.
    pub(crate) hide: Vec<PathBuf>,
    /// Network access.
    pub(crate) network: HelperNetwork,
    pub(crate) sockets: HelperSockets,
    /// Existing sockets to cover with an empty file, if reachable.
    pub(crate) cover: Vec<PathBuf>,
    /// An empty directory of the session, used as mount point.
    pub(crate) hollow: PathBuf,
    /// Descriptor for error reports.
    pub(crate) status: i32,
}

/// A directory that is not modified: writes go to an overlay.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct OverlayLayer {
    /// The directory.
    pub(crate) path: PathBuf,
    /// Upper and work directory of the overlay; without them the directory is read-only.
    pub(crate) store: Option<(PathBuf, PathBuf)>,
}

/// Which Unix sockets can be created.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum HelperSockets {
    /// Only `socketpair`.
    Pairs,
    All,
}

/// How the sandbox is built.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum HelperMechanism {
    /// Own namespaces and mounts, Landlock, and a seccomp filter.
    Namespaces,
    /// Inside bubblewrap's namespaces: Landlock and seccomp only.
    Inside,
    /// Landlock and seccomp only.
    Landlock,
}

/// Network access of the command.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum HelperNetwork {
    /// Not restricted.
    Open,
    /// Joins the namespaces of these descriptors.
    Join { user: i32, net: i32 },
    /// Already inside a closed network namespace.
    Closed,
    /// Connections are refused by Landlock and seccomp.
    Refuse,
}
