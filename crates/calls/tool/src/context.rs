use std::{marker::PhantomData, ops::Deref, path::Path, sync::Arc};

use haft_types::{AgentId, CallId};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{ErrorKind, Permit, ToolError};

/// What belongs to one call, and nothing else.
///
/// A tool that needs a service (the file cache, a way to spawn an agent, a way
/// to ask the user) takes it in its constructor. So this struct stays small and
/// no tool can reach the session.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The `tool_use` id.
    pub call_id: CallId,
    /// Which agent of the tree called.
    pub agent_id: AgentId,
    /// Snapshot: does not change while the call runs.
    pub cwd: Arc<Path>,
    /// What `~` means.
    pub home: Option<Arc<Path>>,
    /// Fires when the turn is interrupted.
    pub cancel: CancellationToken,
    /// Where progress goes.
    pub progress: ProgressSink,
}

impl CallContext {
    /// The context of a call nobody watches or interrupts.
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

/// A progress event with the type erased.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressEvent {
    /// The `tool_use` id.
    pub call_id: CallId,
    /// Payload, serialised from [`crate::Tool::Progress`].
    pub data: Value,
}

/// How many events may wait for a slow watcher before the next one is dropped.
/// Progress is a courtesy: it must never become memory.
const WAITING_EVENTS: usize = 256;

/// Where progress goes. Sending never blocks and never fails.
#[derive(Clone, Debug)]
pub struct ProgressSink(Option<mpsc::Sender<ProgressEvent>>);

impl ProgressSink {
    /// Nobody watches.
    pub fn closed() -> Self {
        Self(None)
    }

    /// A sink and its watching end.
    pub fn channel() -> (Self, mpsc::Receiver<ProgressEvent>) {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        (Self(Some(sender)), receiver)
    }

    /// Whether anyone may be watching: lets a tool skip work done only for show.
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

/// [`CallContext`], plus a progress sender of the tool's own type, plus what
/// the permission engine granted.
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
    /// Wraps the context of one call. A tool only ever runs with a permit.
    pub fn new(call: CallContext, permit: Permit) -> Self {
        Self { call, permit: Arc::new(permit), progress: PhantomData }
    }

    /// Where the kernel ends up for a path the call declared in its reach: the
    /// location the permission engine judged. Opening exactly this, without
    /// following links, is what makes the object opened the object checked.
    pub fn granted(&self, path: &Path) -> Result<&Path, ToolError> {
        self.permit.granted(path).ok_or_else(|| {
            let message = format!("{} is outside of what this call was allowed to touch", path.display());
            ToolError::new(ErrorKind::Internal, message)
        })
    }

    /// Whether the rules let this call read a file it found on its way. Search
    /// tools leave out what this refuses.
    pub fn may_read(&self, path: &Path) -> bool {
        self.permit.may_read(path)
    }

    /// What the permission engine said.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }
}

impl<P: Serialize> ToolContext<P> {
    /// Reports progress. Never blocks and never fails: a call does not care
    /// whether anyone is watching.
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
