//! What tools that run commands ask for, so that what commands change can be undone.

use std::{path::Path, sync::Arc};

use haft_bash_analysis::SharedAnalysis;
use haft_tool::{BoxFuture, CallId, ToolError};

/// Makes what a command changes undoable.
pub trait CommandSnapshots: Send + Sync {
    /// Before the command runs.
    fn before<'a>(&'a self, about: PendingCommand<'a>) -> BoxFuture<'a, Result<UndoCoverage, ToolError>>;

    /// After it has ended, whatever came of it; not while it goes on in the
    /// background.
    fn after<'a>(&'a self, call: &'a CallId) -> BoxFuture<'a, ()>;
}

/// A command that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct PendingCommand<'a> {
    /// The call it belongs to.
    pub call: &'a CallId,
    /// The tool that runs it.
    pub tool: &'static str,
    /// The command line; [`OPAQUE`] for code in another language.
    pub command: &'a str,
    /// Where it will run.
    pub cwd: &'a Path,
    /// What is known about the line, where it was analysed for this directory.
    pub reading: Option<&'a Arc<SharedAnalysis>>,
    /// Whether it can do nothing but read.
    pub reads_only: bool,
}

/// A command line that may change anything.
pub const OPAQUE: &str = "eval \"$code\"";

/// What can be undone of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UndoCoverage {
    /// Everything inside the workspace, or there is nothing to undo.
    Full,
    /// Not what this says.
    Partial(String),
}

/// Nothing is undoable, and nobody says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSnapshots;

impl CommandSnapshots for NoSnapshots {
    fn before<'a>(&'a self, _about: PendingCommand<'a>) -> BoxFuture<'a, Result<UndoCoverage, ToolError>> {
        Box::pin(async { Ok(UndoCoverage::Full) })
    }

    fn after<'a>(&'a self, _call: &'a CallId) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}
