use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// One party's opinion on one call. Opinions combine by [`Verdict::max`]: the
/// order of the variants is the order of severity, so the strictest wins.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Verdict {
    /// No opinion.
    Passthrough,
    /// May run.
    Allow,
    /// Ask the user, with this reason, unless the mode bypasses questions.
    Ask(String),
    /// Ask the user in every mode: no mode and no rule answers for them.
    Insist(String),
    /// Must not run, for this reason.
    Deny(String),
}

/// Why a call was let through. Ends up in the audit log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AllowReason {
    /// The permission mode lets this class of call through.
    Mode,
    /// The tool itself says that this call is harmless.
    Tool,
    /// It runs commands that only read, and nothing else speaks for them: what
    /// holds that belief has to hold it while they run.
    OnlyReads(ReadNetworkUse),
    /// A rule matched.
    Rule(String),
    /// A hook said yes, and no rule objected.
    Hook,
    /// The user, or the program in the user's place, said yes.
    User,
}

/// Whether commands that only read talk to a server for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadNetworkUse {
    /// They look at this machine alone.
    No,
    /// They ask a server.
    Yes,
}

/// A path a call declared, together with where the kernel ends up for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantedPath {
    /// As declared in the call's reach.
    pub asked: PathBuf,
    /// The location that was judged.
    pub real: PathBuf,
}

/// Which files a call may read beyond those it declared one by one.
pub trait ReadScope: Send + Sync {
    /// Whether this file's content may be shown.
    fn may_read(&self, path: &Path) -> bool;

    /// Why this call may change nothing at all, if it may not.
    fn forbids_changes(&self) -> Option<String> {
        None
    }

    /// What the rules keep this call from, for whoever runs programs on its
    /// behalf. May look at the disk.
    fn fence(&self) -> PathRestrictions {
        PathRestrictions::default()
    }
}

/// What the rules keep a call from, as paths that a kernel could keep its
/// programs from, too.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PathRestrictions {
    /// Paths that must not be read, everything below included.
    pub unreadable: Vec<RestrictedPath>,
    /// Paths that must not be changed, everything below included.
    pub unchangeable: Vec<RestrictedPath>,
    /// Which rules name more than could be looked up, a line each.
    pub missed: Vec<String>,
}

/// A path that is out of reach.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RestrictedPath {
    /// Absolute.
    pub path: PathBuf,
    /// The rule that says so, as written.
    pub rule: String,
}

/// No rule restricts reading.
#[derive(Clone, Copy, Debug)]
pub struct UnrestrictedRead;

impl ReadScope for UnrestrictedRead {
    fn may_read(&self, _path: &Path) -> bool {
        true
    }
}

/// Proof that the permission engine let one call through.
///
/// [`crate::DynCall::run`] consumes it, so a code path that forgets the
/// permission check does not compile. `clippy.toml` bans [`Permit::issue`]
/// everywhere but in the permission engine.
pub struct Permit {
    reason: AllowReason,
    grants: Vec<GrantedPath>,
    scope: Arc<dyn ReadScope>,
}

impl Permit {
    /// For the permission engine only.
    pub fn issue(reason: AllowReason, grants: Vec<GrantedPath>, scope: Arc<dyn ReadScope>) -> Self {
        Self { reason, grants, scope }
    }

    /// Why the call may run.
    pub fn reason(&self) -> &AllowReason {
        &self.reason
    }

    /// The judged location of a declared path.
    pub fn granted(&self, asked: &Path) -> Option<&Path> {
        self.grants.iter().find(|grant| grant.asked == asked).map(|grant| grant.real.as_path())
    }

    /// See [`ReadScope::may_read`].
    pub fn may_read(&self, path: &Path) -> bool {
        self.scope.may_read(path)
    }

    /// Whether the call was judged to read this path, or something below it, and
    /// let.
    pub fn is_shown(&self, path: &Path) -> bool {
        self.grants.iter().any(|grant| grant.real.starts_with(path))
    }

    /// See [`ReadScope::forbids_changes`].
    pub fn forbids_changes(&self) -> Option<String> {
        self.scope.forbids_changes()
    }

    /// See [`ReadScope::fence`].
    pub fn fence(&self) -> PathRestrictions {
        self.scope.fence()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("reason", &self.reason)
            .field("grants", &self.grants)
            .finish_non_exhaustive()
    }
}
