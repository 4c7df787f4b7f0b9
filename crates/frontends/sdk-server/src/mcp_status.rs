//! Status of MCP servers for hosts.

use haft_mcp_client::{McpManager, ServerStatus};
use serde_json::{Value, json};

/// Names and states, for the `init` frame.
pub(crate) fn mcp_servers(servers: &[ServerStatus]) -> Vec<Value> {
    let shown = servers
        .iter()
        .map(|it| json!({"name": it.name, "status": it.state.wire_name(), "source": it.scope.name()}));
    shown.collect()
}

/// The complete status, for `mcp_status`.
pub(crate) fn mcp_status(manager: &McpManager) -> Value {
    let shown = manager.status().into_iter().map(|it| {
        let mut server = json!({
            "name": it.name, "status": it.state.wire_name(), "transport": it.transport,
            "scope": it.scope.name(), "source": it.scope.name(),
        });
        if let Some(info) = &it.info {
            server["serverInfo"] = json!({"name": info.name, "version": info.version});
        }
        if let Some(error) = &it.last_error {
            server["error"] = json!(error);
        }
        let tools = manager.definitions(&it.name);
        server["tools"] = tools
            .iter()
            .map(|tool| {
                let mut annotations = json!({});
                let hints = [
                    ("readOnly", tool.annotations.read_only_hint),
                    ("destructive", tool.annotations.destructive_hint),
                    ("openWorld", tool.annotations.open_world_hint),
                ];
                for (name, hint) in hints {
                    if let Some(hint) = hint {
                        annotations[name] = json!(hint);
                    }
                }
                json!({"name": tool.name, "description": tool.description, "annotations": annotations})
            })
            .collect();
        server
    });
    json!({"mcpServers": shown.collect::<Vec<_>>()})
}
