//! The interface through which tools that run commands make those commands undoable.

use std::{path::Path, sync::Arc};

use haft_bash_analysis::SharedAnalysis;
use haft_tool::{BoxFuture, CallId, ToolError};

/// Makes the changes of commands undoable.
pub trait CommandSnapshots: Send + Sync {
    /// Called before the command runs; takes the snapshot. Returns what undo will cover. The command
    /// must not start before the future resolves; an error stops the command.
    fn before<'a>(&'a self, about: PendingCommand<'a>) -> BoxFuture<'a, Result<UndoCoverage, ToolError>>;

    /// Called once the command has ended, successfully or not, to record its changes. Not called while a
    /// command goes on in the background. No-op for a call without a snapshot.
    fn after<'a>(&'a self, call: &'a CallId) -> BoxFuture<'a, ()>;
}

/// A command that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct PendingCommand<'a> {
    /// The tool call that runs the command.
    pub call: &'a CallId,
    /// Name of the tool that runs the command.
    pub tool: &'static str,
    /// The command line; [`OPAQUE`] for code in another language.
    pub command: &'a str,
    /// Working directory of the command.
    pub cwd: &'a Path,
    /// Analysis of the command line for `cwd`, if there is one already; otherwise it is computed.
    pub reading: Option<&'a Arc<SharedAnalysis>>,
    /// Whether the command only reads. Then no snapshot is taken.
    pub reads_only: bool,
}

/// Stands for code whose effects cannot be analysed: a command line that may change anything.
pub const OPAQUE: &str = "eval \"$code\"";

/// What undo will cover.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UndoCoverage {
    /// Everything inside the workspace, or the command changes nothing.
    Full,
    /// Not everything; the text says what is missing. Shown to the model.
    Partial(String),
}

/// Takes no snapshots: commands cannot be undone, and no note says so.
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
