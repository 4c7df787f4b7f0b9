//! Remote stores of logs, which also decide who may write a log.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use serde::{Deserialize, Serialize};

/// Resolves when lines are stored; the error is a sentence about why they are not.
pub type RemoteLogFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A remote store that receives the lines of a log as they are written.
///
/// The store knows one owner of a log at a time and rejects lines of any other. A call with side effects
/// runs only after the line about it is stored, so two processes that both believe to own the log cannot
/// both act.
///
/// **Contract:** lines are stored in order and without gaps. Once [`RemoteLog::settled`] has
/// failed, it always fails.
pub trait RemoteLog: fmt::Debug + Send + Sync {
    /// The owner that writes.
    fn owner(&self) -> RemoteLogOwner;

    /// Queues complete lines of a log, named relative to the session; the empty name is the session's
    /// own log. Does not block.
    fn take(&self, log: &str, lines: &[u8]);

    /// Queues the whole content of a small file beside the log. Does not block.
    fn put(&self, file: &str, content: &[u8]);

    /// Resolves when everything queued so far is stored.
    fn settled(&self) -> RemoteLogFuture;

    /// Known effects of a call that was interrupted elsewhere, as text for the model without a final
    /// full stop.
    fn seen(&self, _call: &haft_types::CallId) -> Option<String> {
        None
    }
}

/// Owner of a log in its store.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct RemoteLogOwner {
    /// Fencing epoch, which increases with every owner.
    pub epoch: u64,
    /// Name of the worker.
    pub worker: String,
}

/// The store's interface for one log of a session.
#[derive(Clone, Debug)]
pub struct RemoteLogHandle {
    fence: Arc<dyn RemoteLog>,
    log: Arc<str>,
}

impl RemoteLogHandle {
    /// The log with this name; the empty name is the session's own log.
    pub fn new(fence: Arc<dyn RemoteLog>, log: impl Into<Arc<str>>) -> Self {
        Self { fence, log: log.into() }
    }

    /// The owner that writes.
    pub fn owner(&self) -> RemoteLogOwner {
        self.fence.owner()
    }

    pub(crate) fn take(&self, lines: &[u8]) {
        self.fence.take(&self.log, lines);
    }

    pub(crate) fn settled(&self) -> RemoteLogFuture {
        self.fence.settled()
    }
}
