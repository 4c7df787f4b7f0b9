//! Logs that are kept elsewhere too, by somebody who knows who may write them.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use serde::{Deserialize, Serialize};

/// Comes when lines are kept; the error is a sentence about why they are not.
pub type RemoteLogFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A store that lines of a log go to while they are written here.
///
/// The store knows one owner of a log at a time and refuses lines of any other.
/// A call that may act runs only when the line about it is kept there: two
/// processes that both believe the log is theirs cannot both act.
///
/// **Contract:** lines are taken in order and kept in order, none is left out
/// and followed by another. Once [`RemoteLog::settled`] failed, it fails for ever.
pub trait RemoteLog: fmt::Debug + Send + Sync {
    /// Who writes.
    fn owner(&self) -> RemoteLogOwner;

    /// Takes whole lines of the log of this name, relative to the session; the
    /// empty name is the session's own log. Does not wait.
    fn take(&self, log: &str, lines: &[u8]);

    /// Takes the whole content of a small file beside the log. Does not wait.
    fn put(&self, file: &str, content: &[u8]);

    /// Comes when everything that was taken so far is kept.
    fn settled(&self) -> RemoteLogFuture;

    /// What is known about the effects of a call that was cut short elsewhere,
    /// in words for the model without a full stop.
    fn seen(&self, _call: &haft_types::CallId) -> Option<String> {
        None
    }
}

/// Who owns a log in its store.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct RemoteLogOwner {
    /// Grows with every owner.
    pub epoch: u64,
    /// Who that is, in words.
    pub worker: String,
}

/// The fence of one log of a session.
#[derive(Clone, Debug)]
pub struct RemoteLogHandle {
    fence: Arc<dyn RemoteLog>,
    log: Arc<str>,
}

impl RemoteLogHandle {
    /// The log of this name; the empty name is the session's own.
    pub fn new(fence: Arc<dyn RemoteLog>, log: impl Into<Arc<str>>) -> Self {
        Self { fence, log: log.into() }
    }

    /// Who writes.
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
