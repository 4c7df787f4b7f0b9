//! The host side: provides call pipelines of sessions without a model.

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

/// Opens sessions for clients.
pub trait SessionFactory: Send + Sync {
    /// Resolves the directory a client requests; the error says why it cannot be used.
    fn directory(&self, wanted: &str) -> Result<PathBuf, String>;

    /// Opens a session that sends its permission questions to `ask`. The error is for the client's user.
    fn lend(&self, wanted: RunRequest, ask: Arc<dyn Approver>) -> BoxFuture<'_, Result<HostSession, String>>;
}

/// A requested session.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Session id on the host; the same for the same session of the client.
    pub id: SessionId,
    /// Working directory.
    pub dir: PathBuf,
}

/// A session whose pipeline a client uses.
pub struct HostSession {
    /// Runs the calls.
    pub pipeline: Arc<Pipeline>,
    /// The tools clients may use.
    pub pool: SharedPool,
    /// Session state visible to calls.
    pub state: CallSessionState,
    /// Where calls run.
    pub place: HostLocation,
    /// Operations other than calls.
    pub hands: Arc<dyn HostOperations>,
}

/// Operations of a session other than calls.
pub trait HostOperations: Send + Sync {
    /// Waits for new notices for any agent.
    fn news(&self) -> BoxFuture<'_, ()>;

    /// Returns the agents with waiting notices.
    fn agents_with_news(&self) -> Vec<AgentId>;

    /// Runs a command.
    fn order(&self, order: HostCommand) -> BoxFuture<'_, Result<Value, String>>;

    /// Closes the session and stops what it has running.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Limits of a host.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// How long a session waits for its client to reconnect before everything it has running is stopped.
    pub linger: Duration,
    /// Keep-alive interval.
    pub ping: Duration,
    /// Maximum concurrent sessions.
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
