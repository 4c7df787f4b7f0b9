use std::path::{Path, PathBuf};

use haft_shell::run::End;
use haft_tool::{BoxFuture, CallId, ToolError};

/// What is known about a command line without running it.
pub trait CommandFacts: Send + Sync {
    /// Whether it can do nothing but read.
    fn is_read_only(&self, command: &str, cwd: &Path) -> bool;

    /// What a code other than zero means, where it is an answer and no failure.
    fn exit_meaning(&self, command: &str, code: i32) -> Option<&'static str>;

    /// Whether it may go on unattended when its time is up. A pause has no
    /// reason to, a half-done repository operation would get in the way of the
    /// next, and what was not understood is stopped.
    fn may_go_on(&self, command: &str) -> bool;

    /// Whether success without a word is how it usually succeeds.
    fn is_silent(&self, command: &str) -> bool;

    /// A command has ended and printed this. Called beside the runtime, for
    /// whoever keeps track of what was seen; nobody does unless told so.
    fn printed(&self, _printed: &Printed) {}
}

/// What a command that has ended has shown.
#[derive(Clone, Debug)]
pub struct Printed {
    /// The call it belongs to.
    pub call: CallId,
    /// Who called.
    pub agent: haft_types::AgentId,
    /// The command line.
    pub command: String,
    /// Where it ran.
    pub cwd: PathBuf,
    /// What of its output is shown.
    pub output: String,
}

/// The directories a session works in. They change while it lives.
pub trait Workspace: Send + Sync {
    /// The workspace first, then what was added to it. Never empty.
    fn roots(&self) -> Vec<PathBuf>;
}

impl Workspace for Vec<PathBuf> {
    fn roots(&self) -> Vec<PathBuf> {
        self.clone()
    }
}

/// Makes what a command changes undoable.
pub trait Snapshots: Send + Sync {
    /// Before the command runs.
    fn before<'a>(&'a self, about: Upcoming<'a>) -> BoxFuture<'a, Result<Coverage, ToolError>>;

    /// After it has ended, whatever came of it; not while it goes on in the
    /// background.
    fn after<'a>(&'a self, call: &'a CallId, end: &'a End) -> BoxFuture<'a, ()>;
}

/// A command that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct Upcoming<'a> {
    /// The call it belongs to.
    pub call: &'a CallId,
    /// The command line.
    pub command: &'a str,
    /// Where it will run.
    pub cwd: &'a Path,
    /// Whether it can do nothing but read.
    pub reads_only: bool,
}

/// What can be undone of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Coverage {
    /// Everything inside the workspace, or there is nothing to undo.
    Full,
    /// Not what this says.
    Partial(String),
}

/// Nothing is undoable, and nobody says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSnapshots;

impl Snapshots for NoSnapshots {
    fn before<'a>(&'a self, _about: Upcoming<'a>) -> BoxFuture<'a, Result<Coverage, ToolError>> {
        Box::pin(async { Ok(Coverage::Full) })
    }

    fn after<'a>(&'a self, _call: &'a CallId, _end: &'a End) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}
