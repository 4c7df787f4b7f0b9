use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::BoxFuture;
use haft_types::AgentId;

/// Inspects files after they were edited.
pub trait EditObserver: Send + Sync {
    /// Returns the text to add to the result of an edit of these files, including findings about earlier
    /// edits that this agent has not received. Delays the result of the edit, so it must be quick.
    fn after<'a>(
        self: Arc<Self>,
        paths: &'a [PathBuf],
        cwd: &'a Path,
        agent: &'a AgentId,
    ) -> BoxFuture<'a, Option<String>>;
}

/// Inspects nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEditObserver;

impl EditObserver for NoEditObserver {
    fn after<'a>(
        self: Arc<Self>,
        _paths: &'a [PathBuf],
        _cwd: &'a Path,
        _agent: &'a AgentId,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }
}
