//! MCP servers of the host: in its process, or by configuration.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_mcp_client::{
    Connector, EmbeddedServer, McpConnection, PeerInbox, ServerConfig, ServerEndpoint, ServerScope,
    ServerTrust,
};
use haft_tool::BoxFuture;
use serde_json::{Map, Value, json};

use crate::{SdkClient, SdkClientError, client::fits};

/// The in-process MCP servers of the host. Clones share them.
#[derive(Clone)]
pub struct ClientMcpServers {
    host: SdkClient,
    /// Default timeout of calls; `None` for the client's default.
    call_limit: Option<Duration>,
    known: Arc<Mutex<BTreeMap<String, KnownServer>>>,
    /// Timeouts of calls by server, as set by the host.
    own_limits: Arc<Mutex<BTreeMap<String, Duration>>>,
}

/// Minimum timeout; shorter values are ignored as mistakes.
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);

struct KnownServer {
    connector: Arc<dyn Connector>,
    connection: Arc<ClientMcpConnection>,
}

struct ClientMcpConnection {
    host: SdkClient,
    server: String,
    inbox: Mutex<Option<PeerInbox>>,
}

impl ClientMcpServers {
    /// Creates the servers of this host. `call_limit` is the timeout of their calls.
    pub fn new(host: SdkClient, call_limit: Option<Duration>) -> Self {
        Self { host, call_limit, known: Arc::default(), own_limits: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, KnownServer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads `timeout` (milliseconds) of these configurations. It applies to servers configured
    /// afterwards.
    pub fn limit_calls(&self, configs: &Map<String, Value>) {
        let mut limits = self.own_limits.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, config) in configs {
            let limit = config["timeout"].as_u64().map(Duration::from_millis);
            if let Some(limit) = limit.filter(|it| SHORTEST_LIMIT <= *it) {
                limits.insert(name.clone(), limit);
            }
        }
    }

    /// The configuration of a server. Its tools are declared in every request, because the embedding
    /// program wrote them for this session.
    pub fn config(&self, name: &str) -> ServerConfig {
        let mut known = self.known();
        let known = known.entry(name.to_owned()).or_insert_with(|| {
            let connection = Arc::new(ClientMcpConnection {
                host: self.host.clone(),
                server: name.to_owned(),
                inbox: Mutex::default(),
            });
            let connector = EmbeddedServer::connector(Arc::clone(&connection) as Arc<dyn McpConnection>);
            KnownServer { connector, connection }
        });
        let mut config = ServerConfig::new(name, ServerEndpoint::InProcess(Arc::clone(&known.connector)));
        config.scope = ServerScope::Sdk;
        config.trust = ServerTrust::Approved;
        config.always_load = true;
        let own_limits = self.own_limits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = own_limits.get(name).copied().or(self.call_limit) {
            config.timeouts.total = limit;
        }
        config
    }

    /// Passes a notification or request that a server sent by itself.
    pub fn deliver(&self, server: &str, message: Value) {
        if let Some(known) = self.known().get(server)
            && let Some(inbox) = &*known.connection.inbox()
        {
            inbox.deliver(message);
        }
    }
}

impl ClientMcpConnection {
    fn inbox(&self) -> MutexGuard<'_, Option<PeerInbox>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl McpConnection for ClientMcpConnection {
    fn exchange(&self, message: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let (host, server) = (self.host.clone(), self.server.clone());
        let id = message.get("id").cloned();
        Box::pin(async move {
            let request = json!({"subtype": "mcp_message", "server_name": server, "message": message});
            if !fits(&request) {
                return refused(id, &SdkClientError::TooLong.to_string());
            }
            let mut answer = match host.ask(request).await {
                Ok(answer) => answer,
                Err(SdkClientError::Closed) => return Err(SdkClientError::Closed.to_string()),
                Err(error) => return refused(id, &error.to_string()),
            };
            let reply = answer.get_mut("mcp_response").map(Value::take).unwrap_or_default();
            match (id, reply) {
                // The SDKs answer notifications with an unrequested message, which is ignored.
                (None, _) => Ok(None),
                (Some(id), Value::Object(mut reply))
                    if reply.contains_key("result") || reply.contains_key("error") =>
                {
                    // The SDKs answer one request at a time, so the answer belongs to this request.
                    reply.insert(String::from("id"), id);
                    reply.entry("jsonrpc").or_insert(json!("2.0"));
                    Ok(Some(Value::Object(reply)))
                }
                (id, _) => refused(id, "the host's answer is not a JSON-RPC response"),
            }
        })
    }

    fn opened(&self, inbox: PeerInbox) {
        *self.inbox() = Some(inbox);
    }

    fn closed(&self) {
        *self.inbox() = None;
    }
}

/// Returns an error response: the call failed, not the connection.
fn refused(id: Option<Value>, reason: &str) -> Result<Option<Value>, String> {
    Ok(id.map(|id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": reason}})))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whatever_the_host_answers_is_a_response_to_the_call() {
        for (answer, want) in [
            (Ok(json!({"mcp_response": {"jsonrpc": "2.0", "id": 99, "result": {"a": 1}}})), "result"),
            (Ok(json!({"mcp_response": {"error": {"code": -32601, "message": "no"}}})), "error"),
            (Ok(json!({"mcp_response": {}})), "error"),
            (Ok(json!({})), "error"),
            (Ok(json!("garbage")), "error"),
            (Err(String::from("boom")), "error"),
        ] {
            let (host, mut frames) = crate::client::with_receiver();
            let servers = ClientMcpServers::new(host.clone(), None);
            servers.config("calc");
            let connection = Arc::clone(&servers.known().get("calc").unwrap().connection);
            let reply = tokio::spawn(connection.exchange(json!({"jsonrpc": "2.0", "id": 5, "method": "x"})));
            let asked = frames.recv().await.unwrap();
            assert_eq!(asked["request"]["server_name"], "calc");
            host.answered(asked["request_id"].as_str().unwrap(), answer.clone());
            let reply = reply.await.unwrap().unwrap().unwrap();
            assert!(reply["id"] == 5 && reply.get(want).is_some(), "{answer:?} {reply}");
        }
    }
}
