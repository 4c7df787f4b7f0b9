use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{
    McpClientError, ProtocolRevision, ServerInfo,
    session::{ClientIdentity, ServerSession},
};
use crate::{
    jsonrpc::{CallError, Incoming, Peer, RequestOptions, RpcError},
    transport::{Connector, TransportError},
};

/// The newest supported revision.
pub(crate) const MODERN: &str = "2026-07-28";

/// Revisions with an `initialize` handshake, newest first.
pub(crate) const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Returns all supported protocol revisions, newest first.
pub fn protocol_versions() -> Vec<&'static str> {
    std::iter::once(MODERN).chain(LEGACY.iter().copied()).collect()
}

/// Timeout for setting the log level.
const LEVEL_LIMIT: Duration = Duration::from_secs(10);

/// Why a session could not be established.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{reason}")]
    Failed { reason: String, fault: McpClientError },
    #[error("the server asks for authorization")]
    Unauthorized { challenge: String },
}

impl ConnectError {
    pub(crate) fn fault(&self) -> McpClientError {
        match self {
            Self::Failed { fault, .. } => *fault,
            Self::Unauthorized { .. } => McpClientError::Login,
        }
    }
}

impl From<TransportError> for ConnectError {
    fn from(err: TransportError) -> Self {
        match err {
            TransportError::Failed(reason) => Self::Failed { reason, fault: McpClientError::NotThere },
            TransportError::Unauthorized { challenge } => Self::Unauthorized { challenge },
        }
    }
}

impl From<CallError> for ConnectError {
    fn from(err: CallError) -> Self {
        match err {
            CallError::Unauthorized { challenge } | CallError::Forbidden { challenge } => {
                Self::Unauthorized { challenge }
            }
            other => {
                Self::Failed { reason: other.to_string(), fault: McpClientError::from_call_error(&other) }
            }
        }
    }
}

/// Negotiates the protocol generation with a server.
///
/// The modern request is sent first. A server that rejects or ignores it gets the legacy `initialize` on
/// the same connection; for one that disconnects, a new connection is opened that starts with it. The
/// caller stores the result and passes it as [`era`](Self::era) next time.
pub(crate) struct Handshake<'a> {
    pub(crate) connector: &'a dyn Connector,
    pub(crate) incoming: Arc<dyn Incoming>,
    pub(crate) identity: ClientIdentity,
    /// The generation the server used last time.
    pub(crate) era: Option<ProtocolRevision>,
    /// Timeout of the whole handshake.
    pub(crate) limit: Duration,
}

/// Outcome of the modern request.
enum HandshakeProbe {
    /// Ready, with the generation named in the info.
    Ready(ServerInfo),
    /// The server does not support the modern protocol; no session exists yet.
    Legacy,
    /// The server supports it but failed on the first message.
    Again,
    /// The connection ended.
    Gone,
    Failed(ConnectError),
}

impl Handshake<'_> {
    pub(crate) async fn connect(self) -> Result<ServerSession, ConnectError> {
        let limit = self.limit;
        let mut current = None;
        match tokio::time::timeout(limit, self.negotiate(&mut current)).await {
            Ok(session) => session,
            Err(_) => {
                let log =
                    current.as_ref().and_then(Peer::transport).map(|it| it.log_tail()).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                let is_local =
                    current.as_ref().and_then(Peer::transport).is_some_and(|it| it.pid().is_some());
                let said = match (is_local, last.is_empty()) {
                    (false, _) => String::new(),
                    (true, true) => String::from("; it wrote nothing to its log"),
                    (true, false) => {
                        format!("; it last wrote: {}", last.into_iter().rev().collect::<Vec<_>>().join(" | "))
                    }
                };
                if let Some(transport) = current.as_ref().and_then(Peer::transport) {
                    tokio::spawn(transport.close());
                }
                let reason = format!("no handshake within {} s{said}", limit.as_secs_f64());
                Err(ConnectError::Failed { reason, fault: McpClientError::Silent })
            }
        }
    }

    /// Negotiates. `current` is set to the peer in use, so that the caller can close it.
    async fn negotiate(&self, current: &mut Option<Peer>) -> Result<ServerSession, ConnectError> {
        let peer = self.open(current, self.connector).await?;
        if self.era.or(self.connector.era()) == Some(ProtocolRevision::Legacy) {
            match initialize(&peer, &self.identity, &RequestOptions::unlimited()).await {
                Ok(info) => return Ok(self.session(peer, info)),
                // The server may have been upgraded to the modern protocol since.
                Err(CallError::Rpc(_) | CallError::Http { .. }) => (),
                Err(err) => return Err(err.into()),
            }
        }
        let mut probe = self.probe(&peer).await;
        if matches!(probe, HandshakeProbe::Again) {
            probe = self.probe(&peer).await;
        }
        let info = match probe {
            HandshakeProbe::Ready(info) => return Ok(self.session(peer, info)),
            HandshakeProbe::Failed(err) => return Err(err),
            HandshakeProbe::Legacy | HandshakeProbe::Again => {
                initialize(&peer, &self.identity, &RequestOptions::unlimited()).await
            }
            HandshakeProbe::Gone => {
                let peer = self.open(current, self.connector).await?;
                let info = initialize(&peer, &self.identity, &RequestOptions::unlimited()).await?;
                return Ok(self.session(peer, info));
            }
        };
        match (info, self.connector.older()) {
            (Ok(info), _) => Ok(self.session(peer, info)),
            // The server does not accept POST at this URL: try the older transport.
            (Err(err @ CallError::Http { status: 400 | 404..=406 | 415, .. }), Some(older)) => {
                let peer = self.open(current, older).await.map_err(|older| ConnectError::Failed {
                    reason: format!("{err}; and as a server of the oldest kind: {older}"),
                    fault: McpClientError::from_call_error(&err),
                })?;
                let info = initialize(&peer, &self.identity, &RequestOptions::unlimited()).await?;
                Ok(self.session(peer, info))
            }
            (Err(err), _) => Err(err.into()),
        }
    }

    async fn open(
        &self,
        current: &mut Option<Peer>,
        connector: &dyn Connector,
    ) -> Result<Peer, ConnectError> {
        if let Some(transport) = current.take().as_ref().and_then(Peer::transport) {
            transport.close().await;
        }
        let peer = Peer::new(Arc::clone(&self.incoming));
        let transport = connector.open(peer.inbox()).await?;
        peer.attach(transport);
        *current = Some(peer.clone());
        Ok(peer)
    }

    fn session(&self, peer: Peer, info: ServerInfo) -> ServerSession {
        ServerSession::new(peer, Arc::clone(&self.incoming), self.identity.clone(), info)
    }

    /// Sends the modern request, and after [`patience`](crate::Connector::patience) the legacy one too.
    async fn probe(&self, peer: &Peer) -> HandshakeProbe {
        let meta = Value::Object(self.identity.meta());
        let params = Map::from_iter([(String::from("_meta"), meta)]);
        // The caller enforces one timeout for the whole handshake.
        let options = RequestOptions::unlimited();
        let discover = peer.request("server/discover", params, &options);
        tokio::pin!(discover);
        if let Ok(answer) = tokio::time::timeout(self.connector.patience(), &mut discover).await {
            return judge(peer, answer);
        }
        let initialize = initialize(peer, &self.identity, &options);
        tokio::pin!(initialize);
        tokio::select! {
            answer = &mut discover => match judge(peer, answer) {
                HandshakeProbe::Legacy | HandshakeProbe::Again => settle(initialize.await),
                other => other,
            },
            answer = &mut initialize => match answer {
                Ok(info) => HandshakeProbe::Ready(info),
                // The server does not know `initialize` but may still answer the other request.
                Err(CallError::Rpc(_)) => match judge(peer, discover.await) {
                    HandshakeProbe::Legacy | HandshakeProbe::Again => settle(answer),
                    other => other,
                },
                Err(_) => settle(answer),
            },
        }
    }
}

fn settle(answer: Result<ServerInfo, CallError>) -> HandshakeProbe {
    match answer {
        Ok(info) => HandshakeProbe::Ready(info),
        Err(CallError::Closed(_) | CallError::NotSent(_)) => HandshakeProbe::Gone,
        Err(err) => HandshakeProbe::Failed(err.into()),
    }
}

/// Interprets the answer to `server/discover`.
fn judge(peer: &Peer, answer: Result<Value, CallError>) -> HandshakeProbe {
    match answer {
        Ok(result) => {
            let versions = result["supportedVersions"].as_array();
            if versions.is_some_and(|it| it.iter().any(|version| version == MODERN)) {
                negotiated(peer, MODERN);
                HandshakeProbe::Ready(ServerInfo::from_result(ProtocolRevision::Modern, MODERN, &result))
            } else {
                HandshakeProbe::Legacy
            }
        }
        Err(CallError::Rpc(error)) if offers(&error, MODERN) => HandshakeProbe::Again,
        Err(CallError::Rpc(_) | CallError::Unreadable(_)) => HandshakeProbe::Legacy,
        Err(CallError::Closed(_) | CallError::NotSent(_)) => HandshakeProbe::Gone,
        // Not a protocol error: a proxy, a wrong path, or a legacy server.
        Err(CallError::Http { status, .. }) if (400..500).contains(&status) && status != 429 => {
            HandshakeProbe::Legacy
        }
        Err(CallError::SessionExpired) => HandshakeProbe::Legacy,
        Err(err) => HandshakeProbe::Failed(err.into()),
    }
}

/// Starts a legacy session.
pub(super) async fn initialize(
    peer: &Peer,
    identity: &ClientIdentity,
    options: &RequestOptions,
) -> Result<ServerInfo, CallError> {
    let mut wanted = LEGACY[0];
    for _ in 0..2 {
        let params = json!({
            "protocolVersion": wanted,
            "capabilities": identity.capabilities,
            "clientInfo": identity.info,
        });
        let Value::Object(params) = params else { break };
        let result = match peer.request("initialize", params, options).await {
            // Some old servers reject an unknown version instead of offering theirs.
            Err(CallError::Rpc(error)) => match other_version(&error).filter(|it| *it != wanted) {
                Some(version) => {
                    wanted = version;
                    continue;
                }
                None => return Err(CallError::Rpc(error)),
            },
            other => other?,
        };
        let version = result["protocolVersion"].as_str().unwrap_or(wanted);
        negotiated(peer, version);
        peer.notify("notifications/initialized", Map::new());
        let info = ServerInfo::from_result(ProtocolRevision::Legacy, version, &result);
        if let Some(level) = identity.log_level.as_ref().filter(|_| info.capabilities.logging) {
            set_level(peer.clone(), level.clone());
        }
        return Ok(info);
    }
    Err(CallError::Closed(String::from("no common protocol version")))
}

/// Sets the log level in the background, so that it does not delay the connection.
fn set_level(peer: Peer, level: String) {
    tokio::spawn(async move {
        let params = Map::from_iter([(String::from("level"), json!(level))]);
        let _ = peer.request("logging/setLevel", params, &RequestOptions::within(LEVEL_LIMIT)).await;
    });
}

fn other_version(error: &RpcError) -> Option<&'static str> {
    LEGACY.iter().find(|version| offers(error, version)).copied()
}

/// Whether an error lists this version as supported.
fn offers(error: &RpcError, version: &str) -> bool {
    let data = error.data.as_ref();
    let offered =
        data.and_then(|it| it["supported"].as_array().or_else(|| it["supportedVersions"].as_array()));
    offered.is_some_and(|it| it.iter().any(|it| it == version))
}

fn negotiated(peer: &Peer, version: &str) {
    if let Some(transport) = peer.transport() {
        transport.negotiated(version);
    }
}
