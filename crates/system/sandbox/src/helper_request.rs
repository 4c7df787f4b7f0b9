//! What the helper process is told.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The word that makes a program the helper.
pub(crate) const HELPER: &str = "__sandbox";

/// What to do before the command takes the helper's place.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Order {
    /// How the walls are built.
    pub(crate) walls: HelperMechanism,
    /// Where writing is allowed.
    pub(crate) write: Vec<PathBuf>,
    /// What may be written in a layer alone.
    pub(crate) layers: Vec<OverlayLayer>,
    /// What stays as it is; everything exists.
    pub(crate) protect: Vec<PathBuf>,
    /// What cannot be read; everything exists.
    pub(crate) hide: Vec<PathBuf>,
    /// Whom it may talk to.
    pub(crate) network: HelperNetwork,
    pub(crate) sockets: HelperSockets,
    /// Sockets that are covered up, as far as they can be reached at all.
    pub(crate) cover: Vec<PathBuf>,
    /// A directory of ours that nothing else is in.
    pub(crate) hollow: PathBuf,
    /// Where to say that it did not work.
    pub(crate) status: i32,
}

/// A directory that stays as it is while a command seems to write there.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct OverlayLayer {
    /// The directory.
    pub(crate) path: PathBuf,
    /// Where the overlay keeps what is written, and its own work; the directory is
    /// read-only without.
    pub(crate) store: Option<(PathBuf, PathBuf)>,
}

/// Whether Unix sockets can be made.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum HelperSockets {
    /// Only in pairs.
    Pairs,
    /// Any.
    All,
}

/// How the walls are built.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum HelperMechanism {
    /// Namespaces and mounts of our own, Landlock, and a system call filter.
    Namespaces,
    /// Somebody built the namespaces already; Landlock and the filter.
    Inside,
    /// Landlock and the filter alone.
    Landlock,
}

/// How the network is closed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum HelperNetwork {
    /// It is not.
    Open,
    /// By joining the namespaces behind these descriptors.
    Join { user: i32, net: i32 },
    /// By a namespace somebody built already.
    Closed,
    /// By refusing connections.
    Refuse,
}
