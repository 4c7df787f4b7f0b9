//! Tools and resources of MCP servers, as the host uses them itself.

use haft_mcp_client::{Manager, Scope, tool_prefix};
use haft_sdk::{fail, succeed};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::driver::Driver;

impl Driver {
    /// Takes as long as the server takes; the answer comes then.
    pub(super) fn use_server(&self, request_id: String, request: Value) {
        let (manager, host) = (self.manager.clone(), self.host.clone());
        tokio::spawn(async move {
            let done = match request["subtype"] == "mcp_call" {
                true => call(&manager, &request).await,
                false => read(&manager, &request).await,
            };
            host.tell(match done {
                Ok(answer) => succeed(&request_id, answer),
                Err(problem) => fail(&request_id, &problem),
            });
        });
    }
}

/// Servers of the host itself are not ours to ask.
fn refuse_own(manager: &Manager, server: &str) -> Result<(), String> {
    let status = manager.status().into_iter().find(|it| it.name == server);
    match status {
        None => Err(format!("Server not found: {server}")),
        Some(it) if it.scope == Scope::Sdk => {
            Err(format!("{server} is a server of the host, which can use it without asking"))
        }
        Some(_) => Ok(()),
    }
}

async fn call(manager: &Manager, request: &Value) -> Result<Value, String> {
    // Whoever asks for a check must not get a call without one.
    for wish in ["check_permissions", "input_files", "output_files", "expires_at", "timeout_ms"] {
        if !matches!(request[wish], Value::Null | Value::Bool(false)) {
            return Err(format!("The tool did not run: mcp_call with {wish} is not supported"));
        }
    }
    let name = request["tool"].as_str().unwrap_or_default();
    let servers = manager.names().into_iter();
    let found = servers.filter_map(|server| {
        let tool = name.strip_prefix(&tool_prefix(&server))?.to_owned();
        Some((server, tool))
    });
    // The longest name wins: one server's may begin with another's.
    let Some((server, tool)) = found.max_by_key(|(server, _)| server.len()) else {
        return Err(format!("No MCP server has a tool {name}"));
    };
    refuse_own(manager, &server)?;
    let arguments = match &request["arguments"] {
        Value::Null => Map::new(),
        Value::Object(arguments) => arguments.clone(),
        _ => return Err(String::from("`arguments` is not an object")),
    };
    let stop = CancellationToken::new();
    manager.call_for_user(&server, &tool, arguments, &stop).await.map_err(|err| err.to_string())
}

async fn read(manager: &Manager, request: &Value) -> Result<Value, String> {
    let server = request["serverName"].as_str().unwrap_or_default();
    let uri = request["uri"].as_str().unwrap_or_default();
    if !uri.starts_with("ui://") {
        return Err(format!("mcp_read_resource reads ui:// resources, not {uri}"));
    }
    refuse_own(manager, server)?;
    let stop = CancellationToken::new();
    let (_, found) = manager.read_resource(server, uri, &stop).await.map_err(|err| err.to_string())?;
    Ok(json!({"contents": found["contents"]}))
}
