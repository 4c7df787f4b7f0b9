//! Converts elicitation requests of MCP servers for the host.

use haft_mcp_client::Elicitation;
use serde_json::{Value, json};

/// The `elicitation` control request.
pub(crate) fn elicitation_request(request: &Elicitation) -> Value {
    let mut question = json!({
        "subtype": "elicitation",
        "mcp_server_name": request.server,
        "message": request.message,
        "mode": if request.url.is_some() { "url" } else { "form" },
    });
    let optional = [
        ("url", request.url.as_ref().map(|it| json!(it))),
        ("elicitation_id", request.id.as_ref().map(|it| json!(it))),
        ("requested_schema", request.schema.clone()),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            question[name] = value;
        }
    }
    question
}
