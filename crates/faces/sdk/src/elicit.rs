//! Questions of MCP servers, answered by the host.

use haft_mcp_client::{Elicit, ElicitAnswer, Elicitation};
use haft_tool::BoxFuture;
use serde_json::{Value, json};

use crate::{Host, host::fits};

/// Asks the host with `elicitation`. A host that does not know the question, or
/// answers nonsense, has declined it.
#[derive(Clone, Debug)]
pub struct ElicitFromHost {
    host: Host,
}

impl ElicitFromHost {
    /// Asks this host.
    pub fn new(host: Host) -> Self {
        Self { host }
    }
}

impl Elicit for ElicitFromHost {
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer> {
        let host = self.host.clone();
        Box::pin(async move {
            let question = question(&request);
            if !fits(&question) {
                return ElicitAnswer::Decline;
            }
            host.ask(question).await.map_or(ElicitAnswer::Decline, |answer| read(&answer))
        })
    }
}

fn question(request: &Elicitation) -> Value {
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

fn read(answer: &Value) -> ElicitAnswer {
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
    use super::*;

    #[tokio::test]
    async fn only_a_clear_yes_is_a_yes() {
        for (answer, want) in [
            (
                Ok(json!({"action": "accept", "content": {"a": 1}})),
                json!({"a": 1}).as_object().cloned().map(ElicitAnswer::Accept).unwrap(),
            ),
            (Ok(json!({"action": "accept"})), ElicitAnswer::Accept(serde_json::Map::new())),
            (Ok(json!({"action": "accept", "content": "yes"})), ElicitAnswer::Decline),
            (Ok(json!({"action": "cancel"})), ElicitAnswer::Cancel),
            (Ok(json!({"action": "decline", "content": {"a": 1}})), ElicitAnswer::Decline),
            (Ok(json!({})), ElicitAnswer::Decline),
            (Ok(json!("accept")), ElicitAnswer::Decline),
            (Err(String::from("Unsupported control request subtype: elicitation")), ElicitAnswer::Decline),
        ] {
            let (host, mut frames) = Host::new();
            let request = Elicitation {
                server: String::from("srv"),
                message: String::from("Which?"),
                schema: Some(json!({"type": "object"})),
                url: None,
                id: None,
            };
            let asked = tokio::spawn(ElicitFromHost::new(host.clone()).elicit(request));
            let frame = frames.recv().await.unwrap();
            let wanted = json!({"subtype": "elicitation", "mcp_server_name": "srv", "message": "Which?",
                "mode": "form", "requested_schema": {"type": "object"}});
            assert_eq!(frame["request"], wanted);
            host.answered(frame["request_id"].as_str().unwrap(), answer.clone());
            assert_eq!(asked.await.unwrap(), want, "{answer:?}");
        }
    }
}
