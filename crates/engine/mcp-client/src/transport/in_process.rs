//! Servers in this process, or over a channel of the embedder.

use std::sync::Arc;

use futures_util::FutureExt;
use haft_tool::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Connector, OutgoingMessage, PeerInbox, Transport, TransportError};
use crate::{client::ProtocolRevision, jsonrpc::CallError};

/// A server to which the embedder forwards messages: the in-process servers of the Agent SDKs, reached
/// with `mcp_message` control requests.
pub trait McpConnection: Send + Sync + 'static {
    /// Forwards one JSON-RPC message and returns the server's immediate answer: the response to a
    /// request, `None` for a notification.
    fn exchange(&self, message: Value) -> BoxFuture<'static, Result<Option<Value>, String>>;

    /// Provides the receiver of messages that the server sends on its own.
    fn opened(&self, _inbox: PeerInbox) {}

    /// Called when no more messages will be sent.
    fn closed(&self) {}
}

/// Connects to an [`McpConnection`].
pub struct EmbeddedServer(Arc<dyn McpConnection>);

impl EmbeddedServer {
    /// Creates a connector for [`crate::ServerEndpoint::InProcess`].
    pub fn connector(connection: Arc<dyn McpConnection>) -> Arc<dyn Connector> {
        Arc::new(Self(connection))
    }
}

impl Connector for EmbeddedServer {
    fn open(&self, inbox: PeerInbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            self.0.opened(inbox.clone());
            let end = CancellationToken::new();
            Ok(Arc::new(EmbeddedTransport { connection: Arc::clone(&self.0), inbox, end })
                as Arc<dyn Transport>)
        })
    }

    /// The SDKs' servers are legacy; probing would cost a round trip.
    fn era(&self) -> Option<ProtocolRevision> {
        Some(ProtocolRevision::Legacy)
    }
}

struct EmbeddedTransport {
    connection: Arc<dyn McpConnection>,
    inbox: PeerInbox,
    end: CancellationToken,
}

impl Transport for EmbeddedTransport {
    fn send(&self, message: OutgoingMessage) -> Result<(), String> {
        let id = message.message["id"].as_u64().filter(|_| message.message.get("method").is_some());
        let mut exchange = self.connection.exchange(message.message);
        // A server that answers immediately needs no task.
        if let Some(answer) = (&mut exchange).now_or_never() {
            answered(&self.inbox, id, answer);
            return Ok(());
        }
        let (inbox, end) = (self.inbox.clone(), self.end.clone());
        tokio::spawn(async move {
            tokio::select! {
                answer = exchange => answered(&inbox, id, answer),
                () = end.cancelled() => (),
            }
        });
        Ok(())
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.end.cancel();
        self.connection.closed();
        self.inbox.closed("the connection was closed");
        Box::pin(async {})
    }
}

fn answered(inbox: &PeerInbox, id: Option<u64>, answer: Result<Option<Value>, String>) {
    match (answer, id) {
        (Ok(Some(answer)), _) => inbox.deliver(answer),
        (Err(reason), Some(id)) => inbox.fail(id, CallError::Closed(reason)),
        // The answer may still arrive through the inbox.
        _ => (),
    }
}

/// A server connected through two channels: any server in this process that speaks JSON-RPC, without
/// pipes or sockets.
pub struct ChannelServer(Box<dyn Fn() -> ChannelEnds + Send + Sync>);

/// The client's ends of the two channels.
pub struct ChannelEnds {
    pub to_server: mpsc::UnboundedSender<Value>,
    pub from_server: mpsc::UnboundedReceiver<Value>,
}

impl ChannelServer {
    /// Creates a connector for [`crate::ServerEndpoint::InProcess`]; `start` is called for every
    /// connection and starts the server.
    pub fn connector(start: impl Fn() -> ChannelEnds + Send + Sync + 'static) -> Arc<dyn Connector> {
        Arc::new(Self(Box::new(start)))
    }
}

impl Connector for ChannelServer {
    fn open(&self, inbox: PeerInbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        let ChannelEnds { to_server, mut from_server } = (self.0)();
        tokio::spawn(async move {
            while let Some(message) = from_server.recv().await {
                inbox.deliver(message);
            }
            inbox.closed("the server ended");
        });
        Box::pin(async move {
            Ok(Arc::new(ChannelTransport(std::sync::Mutex::new(Some(to_server)))) as Arc<dyn Transport>)
        })
    }
}

struct ChannelTransport(std::sync::Mutex<Option<mpsc::UnboundedSender<Value>>>);

impl Transport for ChannelTransport {
    fn send(&self, message: OutgoingMessage) -> Result<(), String> {
        let sender = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let sent = sender.as_ref().is_some_and(|it| it.send(message.message).is_ok());
        if sent { Ok(()) } else { Err(String::from("the server ended")) }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        // Dropping the sender is the server's end of input.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        Box::pin(async {})
    }
}
