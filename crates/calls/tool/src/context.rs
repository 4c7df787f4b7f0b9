use std::{marker::PhantomData, ops::Deref, path::Path, sync::Arc};

use haft_types::{AgentId, CallId};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{ErrorKind, Permit, ToolError};

/// Data of one call.
///
/// A tool that needs a service (file cache, agent spawner, user prompts) takes it in its constructor, so
/// this struct stays small and no tool can reach the session.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The `tool_use` id.
    pub call_id: CallId,
    /// The agent that made the call.
    pub agent_id: AgentId,
    /// Working directory; a snapshot that does not change while the call runs.
    pub cwd: Arc<Path>,
    /// Home directory, for `~`.
    pub home: Option<Arc<Path>>,
    /// Cancelled when the turn is interrupted.
    pub cancel: CancellationToken,
    /// Receives progress events.
    pub progress: ProgressSink,
}

impl CallContext {
    /// A context without progress reporting and cancellation.
    pub fn detached(call_id: impl Into<CallId>, cwd: impl Into<Arc<Path>>) -> Self {
        Self {
            call_id: call_id.into(),
            agent_id: AgentId::Main,
            cwd: cwd.into(),
            home: None,
            cancel: CancellationToken::new(),
            progress: ProgressSink::closed(),
        }
    }
}

/// A type-erased progress event.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressEvent {
    /// The `tool_use` id.
    pub call_id: CallId,
    /// Payload, serialised from [`crate::Tool::Progress`].
    pub data: Value,
}

/// Capacity of the progress queue; further events are dropped, so that a slow receiver costs no memory.
const WAITING_EVENTS: usize = 256;

/// Sends progress events. Never blocks and never fails.
#[derive(Clone, Debug)]
pub struct ProgressSink(Option<mpsc::Sender<ProgressEvent>>);

impl ProgressSink {
    /// A sink that drops all events.
    pub fn closed() -> Self {
        Self(None)
    }

    /// A sink with its receiver.
    pub fn channel() -> (Self, mpsc::Receiver<ProgressEvent>) {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        (Self(Some(sender)), receiver)
    }

    /// Whether events may be received; lets a tool skip work done only for display.
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    fn send(&self, event: impl FnOnce() -> ProgressEvent) {
        if let Some(sender) = &self.0
            && let Ok(slot) = sender.try_reserve()
        {
            slot.send(event());
        }
    }
}

/// [`CallContext`] with a typed progress sender and the permit of the permission engine.
#[derive(Debug)]
pub struct ToolContext<P> {
    call: CallContext,
    permit: Arc<Permit>,
    progress: PhantomData<fn(P)>,
}

impl<P> Clone for ToolContext<P> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), permit: Arc::clone(&self.permit), progress: PhantomData }
    }
}

impl<P> ToolContext<P> {
    /// Wraps the context of one call. A tool runs only with a permit.
    pub fn new(call: CallContext, permit: Permit) -> Self {
        Self { call, permit: Arc::new(permit), progress: PhantomData }
    }

    /// The resolved location of a path that the call declared in its reach, as approved by the
    /// permission engine. Open exactly this path without following symlinks, so that the opened object
    /// is the checked one. Fails for a path that was not declared.
    pub fn granted(&self, path: &Path) -> Result<&Path, ToolError> {
        self.permit.granted(path).ok_or_else(|| {
            let message = format!("{} is outside of what this call was allowed to touch", path.display());
            ToolError::new(ErrorKind::Internal, message)
        })
    }

    /// Whether the rules allow this call to read a file it discovered. Search tools omit files for which
    /// this is false.
    pub fn may_read(&self, path: &Path) -> bool {
        self.permit.may_read(path)
    }

    /// The permit of the permission engine.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }
}

impl<P: Serialize> ToolContext<P> {
    /// Reports progress. Never blocks and never fails.
    pub fn progress(&self, event: &P) {
        self.call.progress.send(|| ProgressEvent {
            call_id: self.call.call_id.clone(),
            data: serde_json::to_value(event).unwrap_or(Value::Null),
        });
    }
}

impl<P> Deref for ToolContext<P> {
    type Target = CallContext;

    fn deref(&self) -> &CallContext {
        &self.call
    }
}
