use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::BoxFuture;
use haft_types::AgentId;

/// Somebody who looks at files after they were edited.
pub trait EditObserver: Send + Sync {
    /// What is to be said with the result of an edit of these files, and what
    /// earlier edits of this agent were not told yet. Must be quick.
    fn after<'a>(
        self: Arc<Self>,
        paths: &'a [PathBuf],
        cwd: &'a Path,
        agent: &'a AgentId,
    ) -> BoxFuture<'a, Option<String>>;
}

/// Nobody looks.
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
