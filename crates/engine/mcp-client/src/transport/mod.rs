//! Transports to servers. All of them carry JSON values.

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
    /// Opens a connection. Messages of the server go to `inbox` until the transport is closed or reports
    /// its end.
    fn open(&self, inbox: PeerInbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>>;

    /// Returns the protocol generation, if known beforehand.
    fn era(&self) -> Option<ProtocolRevision> {
        None
    }

    /// How long to wait for an answer to the modern handshake before the legacy one is sent too: legacy
    /// servers do not always answer unknown requests.
    fn patience(&self) -> Duration {
        Duration::from_millis(2500)
    }

    /// Returns another transport to the same server, for servers that do not support this one.
    fn older(&self) -> Option<&dyn Connector> {
        None
    }
}

/// An open connection.
pub trait Transport: Send + Sync + 'static {
    /// Sends a message. Does not block: messages that cannot be sent at once are queued. An error means
    /// that the server will not get it.
    fn send(&self, message: OutgoingMessage) -> Result<(), String>;

    /// Notifies the server that a request is cancelled.
    fn cancel(&self, id: u64) {
        let _ = self.send(OutgoingMessage::message(json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "the caller no longer waits for it"},
        })));
    }

    /// Called with the negotiated protocol version.
    fn negotiated(&self, _version: &str) {}

    /// Closes the connection and ends everything that was started for it.
    fn close(&self) -> BoxFuture<'static, ()>;

    /// Returns the server's process id, if there is one.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Returns the last lines of the server's error output.
    fn log_tail(&self) -> String {
        String::new()
    }
}

#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    pub message: Value,
    /// Headers derived from arguments, for HTTP transports.
    pub headers: Vec<(String, String)>,
}

impl OutgoingMessage {
    /// Creates a message without headers.
    pub fn message(message: Value) -> Self {
        Self { message, headers: Vec::new() }
    }
}

/// Why a connection could not be opened.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TransportError {
    /// The program could not be started, the host could not be reached, or the configuration is invalid.
    #[error("{0}")]
    Failed(String),
    /// A login is required.
    #[error("the server asks for authorization")]
    Unauthorized {
        /// The `WWW-Authenticate` header.
        challenge: String,
    },
}
