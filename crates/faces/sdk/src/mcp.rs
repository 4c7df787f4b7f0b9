//! MCP servers of the host, in its own process or by configuration.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_mcp_client::{
    Connector, Endpoint, HostedServer, HttpEndpoint, Inbox, McpConnection, Scope, ServerConfig, StdioCommand,
    Trust,
};
use haft_tool::BoxFuture;
use serde_json::{Value, json};

use crate::{Host, HostError, host::fits};

/// The in-process servers of the host. Clones are the same servers.
#[derive(Clone)]
pub struct HostServers {
    host: Host,
    known: Arc<Mutex<BTreeMap<String, Known>>>,
}

struct Known {
    connector: Arc<dyn Connector>,
    connection: Arc<Connection>,
}

struct Connection {
    host: Host,
    server: String,
    inbox: Mutex<Option<Inbox>>,
}

impl HostServers {
    /// Servers of this host.
    pub fn new(host: Host) -> Self {
        Self { host, known: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration of one server. Its tools are in every request: the
    /// program that embeds us made them for this session.
    pub fn config(&self, name: &str) -> ServerConfig {
        let mut known = self.known();
        let known = known.entry(name.to_owned()).or_insert_with(|| {
            let connection = Arc::new(Connection {
                host: self.host.clone(),
                server: name.to_owned(),
                inbox: Mutex::default(),
            });
            let connector = HostedServer::connector(Arc::clone(&connection) as Arc<dyn McpConnection>);
            Known { connector, connection }
        });
        let mut config = ServerConfig::new(name, Endpoint::InProcess(Arc::clone(&known.connector)));
        config.scope = Scope::Sdk;
        config.trust = Trust::Approved;
        config.always_load = true;
        set_call_limit(&mut config, None);
        config
    }

    /// A server said something by itself.
    pub fn deliver(&self, server: &str, message: Value) {
        if let Some(known) = self.known().get(server)
            && let Some(inbox) = &*known.connection.inbox()
        {
            inbox.deliver(message);
        }
    }
}

impl Connection {
    fn inbox(&self) -> MutexGuard<'_, Option<Inbox>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl McpConnection for Connection {
    fn exchange(&self, message: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let (host, server) = (self.host.clone(), self.server.clone());
        let id = message.get("id").cloned();
        Box::pin(async move {
            let request = json!({"subtype": "mcp_message", "server_name": server, "message": message});
            if !fits(&request) {
                return refused(id, &HostError::TooLong.to_string());
            }
            let mut answer = match host.ask(request).await {
                Ok(answer) => answer,
                Err(HostError::Closed) => return Err(HostError::Closed.to_string()),
                Err(error) => return refused(id, &error.to_string()),
            };
            let reply = answer.get_mut("mcp_response").map(Value::take).unwrap_or_default();
            match (id, reply) {
                // Notifications are acknowledged with something nobody asked for.
                (None, _) => Ok(None),
                (Some(id), Value::Object(mut reply))
                    if reply.contains_key("result") || reply.contains_key("error") =>
                {
                    // The SDKs answer one question at a time, so it is ours.
                    reply.insert(String::from("id"), id);
                    reply.entry("jsonrpc").or_insert(json!("2.0"));
                    Ok(Some(Value::Object(reply)))
                }
                (id, _) => refused(id, "the host's answer is not a JSON-RPC response"),
            }
        })
    }

    fn opened(&self, inbox: Inbox) {
        *self.inbox() = Some(inbox);
    }

    fn closed(&self) {
        *self.inbox() = None;
    }
}

/// The call failed, the connection did not.
fn refused(id: Option<Value>, reason: &str) -> Result<Option<Value>, String> {
    Ok(id.map(|id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": reason}})))
}

/// The servers of a `{"mcpServers": {name: config}}`, or of its inner object,
/// and what is wrong with the rest. Keys nobody knows are ignored.
pub fn server_configs(text: &Value, servers: &HostServers) -> (Vec<ServerConfig>, BTreeMap<String, String>) {
    let map = text.get("mcpServers").unwrap_or(text);
    let (mut configs, mut problems) = (Vec::new(), BTreeMap::new());
    for (name, config) in map.as_object().into_iter().flatten() {
        match server_config(name, config, servers) {
            Ok(config) => configs.push(config),
            Err(problem) => drop(problems.insert(name.clone(), problem)),
        }
    }
    (configs, problems)
}

fn server_config(name: &str, config: &Value, servers: &HostServers) -> Result<ServerConfig, String> {
    let kind = config["type"].as_str().unwrap_or(if config["url"].is_string() { "http" } else { "stdio" });
    let endpoint = match kind {
        "sdk" => return Ok(servers.config(name)),
        "stdio" => Endpoint::Stdio(StdioCommand {
            program: string(config, "command")?,
            args: config["args"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            env: strings(&config["env"]),
            ..StdioCommand::default()
        }),
        "http" | "streamable-http" => Endpoint::Http(address(config)?),
        "sse" => Endpoint::Sse(address(config)?),
        "ws" => Endpoint::WebSocket(address(config)?),
        other => return Err(format!("`{other}` is no kind of server; use stdio, http, sse, ws or sdk")),
    };
    let mut made = ServerConfig::new(name, endpoint);
    made.trust = Trust::Approved;
    made.always_load = config["alwaysLoad"].as_bool().unwrap_or(false);
    set_call_limit(&mut made, config["timeout"].as_u64());
    Ok(made)
}

/// Milliseconds for a call: the server's own, or the environment's.
fn set_call_limit(config: &mut ServerConfig, own: Option<u64>) {
    let of_all = || std::env::var("MCP_TOOL_TIMEOUT").ok()?.trim().parse().ok();
    if let Some(millis) = own.or_else(of_all).filter(|it| 0 < *it) {
        config.timeouts.total = Duration::from_millis(millis);
    }
}

fn address(config: &Value) -> Result<HttpEndpoint, String> {
    Ok(HttpEndpoint {
        url: string(config, "url")?,
        headers: strings(&config["headers"]),
        headers_helper: config["headersHelper"].as_str().map(str::to_owned),
        ..HttpEndpoint::default()
    })
}

fn string(config: &Value, key: &str) -> Result<String, String> {
    let text = config[key].as_str().filter(|it| !it.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("`{key}` is missing"))
}

fn strings(map: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    map.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
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
            let (host, mut frames) = Host::new();
            let servers = HostServers::new(host.clone());
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

    #[test]
    fn configurations_are_read() {
        let (host, _frames) = Host::new();
        let servers = HostServers::new(host);
        let text = json!({"mcpServers": {
            "a": {"type": "sdk", "name": "x"}, "b": {"command": "cat", "args": ["-"], "logLevel": "debug"},
            "c": {"type": "http", "url": "http://127.0.0.1:1/"}, "d": {"type": "carrier-pigeon"}, "e": {},
        }});
        let (configs, problems) = server_configs(&text, &servers);
        let kinds: Vec<_> = configs.iter().map(|it| (it.name.as_str(), it.endpoint.kind())).collect();
        assert_eq!(kinds, [("a", "sdk"), ("b", "stdio"), ("c", "http")]);
        assert_eq!(problems.keys().collect::<Vec<_>>(), ["d", "e"]);
    }
}
