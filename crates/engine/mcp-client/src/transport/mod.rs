//! The ways to a server. All of them carry the same values.

mod http;
mod http_site;
mod in_process;
mod process;
mod sse;
mod sse_decoder;
mod stdio;
mod websocket;

use std::{sync::Arc, time::Duration};

use haft_tool::BoxFuture;
use serde_json::{Value, json};

use crate::client::ProtocolRevision;

pub use crate::jsonrpc::PeerInbox;
pub(crate) use http::HttpConnector;
pub use in_process::{ChannelEnds, ChannelServer, EmbeddedServer, McpConnection};
pub(crate) use sse::SseConnector;
pub(crate) use stdio::StdioConnector;
pub use stdio::{InheritEnv, ProgramFallback, StdioCommand};
pub(crate) use websocket::WebSocketConnector;

/// Opens connections to one server.
pub trait Connector: Send + Sync + 'static {
    /// Opens one. What the server sends goes to `inbox`, until the transport
    /// is closed or says that it ended.
    fn open(&self, inbox: PeerInbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>>;

    /// Which protocol the server speaks, where that is known beforehand.
    fn era(&self) -> Option<ProtocolRevision> {
        None
    }

    /// How long a server may be silent about the modern question before the
    /// old one is asked as well: old servers do not always answer what they do
    /// not know.
    fn patience(&self) -> Duration {
        Duration::from_millis(2500)
    }

    /// Another way to the same server, for servers too old for this one.
    fn older(&self) -> Option<&dyn Connector> {
        None
    }
}

/// An open connection, seen from our side.
pub trait Transport: Send + Sync + 'static {
    /// Hands one message over. Never waits: what cannot be sent at once is
    /// queued, and an error means the server will never see it.
    fn send(&self, message: OutgoingMessage) -> Result<(), String>;

    /// Withdraws a request: the server is told, and nothing else happens to it.
    fn cancel(&self, id: u64) {
        let _ = self.send(OutgoingMessage::message(json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "the caller no longer waits for it"},
        })));
    }

    /// The version both sides agreed on.
    fn negotiated(&self, _version: &str) {}

    /// Ends the connection and everything that was started for it.
    fn close(&self) -> BoxFuture<'static, ()>;

    /// Process of the server, where there is one.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// The last lines the server wrote for people.
    fn log_tail(&self) -> String {
        String::new()
    }
}

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    /// The message.
    pub message: Value,
    /// Headers made of arguments, for transports that have headers.
    pub headers: Vec<(String, String)>,
}

impl OutgoingMessage {
    /// A message without headers of its own.
    pub fn message(message: Value) -> Self {
        Self { message, headers: Vec::new() }
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TransportError {
    /// The program could not be started, the host not be reached, the
    /// configuration is wrong.
    #[error("{0}")]
    Failed(String),
    /// Somebody has to log in first; the challenge says how.
    #[error("the server asks for authorization")]
    Unauthorized {
        /// The `WWW-Authenticate` header.
        challenge: String,
    },
}
