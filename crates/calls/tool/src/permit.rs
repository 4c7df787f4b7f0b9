use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// One party's verdict on a call. Verdicts combine by [`Verdict::max`]: variants are ordered by
/// severity, so the strictest wins.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Verdict {
    /// No opinion.
    Passthrough,
    /// May run.
    Allow,
    /// Ask the user, for this reason, unless the mode bypasses prompts.
    Ask(String),
    /// Ask the user, for this reason, in every mode: no mode or rule can approve it.
    Insist(String),
    /// Must not run, for this reason.
    Deny(String),
}

/// Why a call was allowed; recorded in the audit log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AllowReason {
    /// The permission mode allows this kind of call.
    Mode,
    /// The tool itself declared the call harmless.
    Tool,
    /// The command only reads. Allowed for no other reason, so it must run in the read-only sandbox.
    OnlyReads(ReadNetworkUse),
    /// An allow rule matched; the rule.
    Rule(String),
    /// A hook allowed it, and no rule objected.
    Hook,
    /// The user, or a program acting for the user, approved it.
    User,
}

/// Whether read-only commands contact a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadNetworkUse {
    /// They only access this machine.
    No,
    /// They contact a server.
    Yes,
}

/// A declared path with its resolved location.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantedPath {
    /// The path as declared in the call's reach.
    pub asked: PathBuf,
    /// The resolved location that was approved.
    pub real: PathBuf,
}

/// Which files a call may read beyond the declared ones.
pub trait ReadScope: Send + Sync {
    /// Whether the content of this file may be shown.
    fn may_read(&self, path: &Path) -> bool;

    /// Why the call must not change anything; `None` if it may.
    fn forbids_changes(&self) -> Option<String> {
        None
    }

    /// Path restrictions for programs that the call runs. May read the disk.
    fn fence(&self) -> PathRestrictions {
        PathRestrictions::default()
    }
}

/// Path restrictions from deny rules, in a form that a sandbox can enforce.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PathRestrictions {
    /// Paths that must not be read, everything below included.
    pub unreadable: Vec<RestrictedPath>,
    /// Paths that must not be changed, everything below included.
    pub unchangeable: Vec<RestrictedPath>,
    /// Rules that match more paths than could be listed, one line each.
    pub missed: Vec<String>,
}

/// A restricted path.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RestrictedPath {
    /// Absolute path.
    pub path: PathBuf,
    /// The rule, as written.
    pub rule: String,
}

/// A [`ReadScope`] without restrictions.
#[derive(Clone, Copy, Debug)]
pub struct UnrestrictedRead;

impl ReadScope for UnrestrictedRead {
    fn may_read(&self, _path: &Path) -> bool {
        true
    }
}

/// Proof that the permission engine allowed one call.
///
/// [`crate::DynCall::run`] consumes it, so a code path without a permission check does not compile.
/// `clippy.toml` forbids [`Permit::issue`] outside the permission engine.
pub struct Permit {
    reason: AllowReason,
    grants: Vec<GrantedPath>,
    scope: Arc<dyn ReadScope>,
}

impl Permit {
    /// Creates a permit. Only for the permission engine.
    pub fn issue(reason: AllowReason, grants: Vec<GrantedPath>, scope: Arc<dyn ReadScope>) -> Self {
        Self { reason, grants, scope }
    }

    /// Why the call may run.
    pub fn reason(&self) -> &AllowReason {
        &self.reason
    }

    /// The approved location of a declared path; `None` if the path was not declared.
    pub fn granted(&self, asked: &Path) -> Option<&Path> {
        self.grants.iter().find(|grant| grant.asked == asked).map(|grant| grant.real.as_path())
    }

    /// See [`ReadScope::may_read`].
    pub fn may_read(&self, path: &Path) -> bool {
        self.scope.may_read(path)
    }

    /// Whether the call was approved to read this path or something below it.
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
