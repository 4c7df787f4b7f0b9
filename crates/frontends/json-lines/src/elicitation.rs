//! Parses answers to questions of MCP servers.

use haft_mcp_client::ElicitAnswer;
use serde_json::Value;

/// Parses an embedder's answer. An error or invalid answer counts as declined.
pub fn read_elicitation(answer: &Value) -> ElicitAnswer {
    match (answer["action"].as_str(), &answer["content"]) {
        (Some("accept"), Value::Object(content)) => ElicitAnswer::Accept(content.clone()),
        (Some("accept"), Value::Null) => ElicitAnswer::Accept(serde_json::Map::new()),
        (Some("cancel"), _) => ElicitAnswer::Cancel,
        _ => ElicitAnswer::Decline,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_explicit_accept_counts_as_accepted() {
        for (answer, want) in [
            (
                json!({"action": "accept", "content": {"a": 1}}),
                json!({"a": 1}).as_object().cloned().map(ElicitAnswer::Accept).unwrap(),
            ),
            (json!({"action": "accept"}), ElicitAnswer::Accept(serde_json::Map::new())),
            (json!({"action": "accept", "content": "yes"}), ElicitAnswer::Decline),
            (json!({"action": "cancel"}), ElicitAnswer::Cancel),
            (json!({"action": "decline", "content": {"a": 1}}), ElicitAnswer::Decline),
            (json!({}), ElicitAnswer::Decline),
            (json!("accept"), ElicitAnswer::Decline),
        ] {
            assert_eq!(read_elicitation(&answer), want, "{answer}");
        }
    }
}
