//! The far end: lends the pipelines of sessions without a model.

mod call_journal;
mod client_connection;
mod daemon_socket;
mod host_run;
mod questions;
mod rendezvous;
mod run_registry;
mod stdio_relay;
mod websocket;

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_tool::BoxFuture;
use haft_tool_runtime::{Approver, CallSessionState, Pipeline, SharedPool};
use haft_types::{AgentId, SessionId};
use serde_json::Value;

pub use daemon_socket::{SocketPath, serve_socket};
pub use rendezvous::{serve_meeting, serve_through};
pub use run_registry::HostRunRegistry;
pub use stdio_relay::relay;
pub use websocket::{WebOptions, serve_web};

use crate::protocol::{HostCommand, HostLocation};

/// Opens sessions for callers.
pub trait SessionFactory: Send + Sync {
    /// The directory that a caller means, or why it cannot be worked in.
    fn directory(&self, wanted: &str) -> Result<PathBuf, String>;

    /// Opens a session that asks this one. The error is for the caller's person.
    fn lend(&self, wanted: RunRequest, ask: Arc<dyn Approver>) -> BoxFuture<'_, Result<HostSession, String>>;
}

/// The session a caller wants.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Its id here: the same for the same session of the caller.
    pub id: SessionId,
    /// Where it works.
    pub dir: PathBuf,
}

/// A session whose pipeline a caller uses.
pub struct HostSession {
    /// What every call passes through.
    pub pipeline: Arc<Pipeline>,
    /// The tools callers may use.
    pub pool: SharedPool,
    /// What calls see of the session.
    pub state: CallSessionState,
    /// Where calls run.
    pub place: HostLocation,
    /// What a caller may want beside calls.
    pub hands: Arc<dyn HostOperations>,
}

/// What a caller may want of a session beside calls.
pub trait HostOperations: Send + Sync {
    /// Waits until an agent has something to be told that it had not before.
    fn news(&self) -> BoxFuture<'_, ()>;

    /// Which agents have something to be told.
    fn agents_with_news(&self) -> Vec<AgentId>;

    /// Does what was ordered.
    fn order(&self, order: HostCommand) -> BoxFuture<'_, Result<Value, String>>;

    /// Ends the session, and what it has running.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What bounds the far end.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// How long a session waits for its caller to come back. Then what it has
    /// running ends.
    pub linger: Duration,
    /// How often it says that it is still here.
    pub ping: Duration,
    /// Sessions at the same time.
    pub runs: usize,
    /// How long the journal of a session is kept after its last use.
    pub journals: Duration,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            linger: Duration::from_secs(30 * 60),
            ping: Duration::from_secs(5),
            runs: 256,
            journals: Duration::from_secs(30 * 24 * 3600),
        }
    }
}
