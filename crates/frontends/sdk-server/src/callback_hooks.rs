//! Hooks implemented by callbacks of the host.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use haft_hooks::{
    Callback, CallbackAnswer, ErrorEffect, ErrorPolicy, HookCall, HookCallback, HookDefinition, HookEvent,
    HookHandler, HookMatcher, HookSource,
};
use serde_json::{Value, json};

use crate::{MAX_LINE, SdkClient, SdkClientError, bounded_line, client::fits, frames::mcp_output};

/// The effect of a callback that fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum OnFailure {
    /// The hook has no effect.
    Ignore,
    /// The event is blocked.
    Block,
}

struct CallbackHook {
    host: SdkClient,
    id: String,
    on_failure: OnFailure,
}

/// Converts `initialize.hooks` to hook definitions. Unknown events are ignored.
pub fn hook_definitions(hooks: &Value, host: &SdkClient) -> Vec<HookDefinition> {
    let source = Arc::new(HookSource::Named(String::from("the Agent SDK")));
    let mut definitions = Vec::new();
    for (event, groups) in hooks.as_object().into_iter().flatten() {
        let Ok(event) = event.parse::<HookEvent>() else { continue };
        for group in groups.as_array().into_iter().flatten() {
            let matcher = group["matcher"].as_str().map_or_else(HookMatcher::all, HookMatcher::parse);
            let on_failure = match group["onFailure"].as_str() {
                Some("block") => OnFailure::Block,
                _ => OnFailure::Ignore,
            };
            for id in group["hookCallbackIds"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let code = CallbackHook { host: host.clone(), id: id.to_owned(), on_failure };
                let handler = HookHandler::Callback(Callback { name: id.to_owned(), code: Arc::new(code) });
                let mut definition =
                    HookDefinition::matching(event, matcher.clone(), handler, Arc::clone(&source));
                if let Some(timeout) = group["timeout"].as_f64().and_then(seconds) {
                    definition.timeout = timeout;
                }
                if on_failure == OnFailure::Block {
                    definition.on_error = ErrorPolicy::Explicit(ErrorEffect::Closed);
                }
                definitions.push(definition);
            }
        }
    }
    definitions
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|it| !it.is_zero())
}

impl HookCallback for CallbackHook {
    fn call(&self, call: HookCall) -> BoxFuture<'_, Result<CallbackAnswer, String>> {
        Box::pin(async move {
            let error = match self.host.ask(self.request(&call)).await {
                Ok(answer @ Value::Object(_)) => return Ok(heard(answer, &call).into()),
                // The hook has no effect.
                Ok(Value::Null) => return Ok(json!({}).into()),
                Ok(_) => SdkClientError::Refused(String::from("the answer is not an object")),
                Err(error) => error,
            };
            // A host that is gone cannot have approved anything.
            if error == SdkClientError::Closed || self.on_failure == OnFailure::Block {
                return Err(error.to_string());
            }
            let event = call.event();
            self.host.tell(json!({
                "type": "system", "subtype": "informational", "level": "warning",
                "tag": "hook_callback_failed", "uuid": crate::frames::uuid(),
                "content": format!("{event}: the callback {} of the host failed: {error}", self.id),
            }));
            Ok(json!({}).into())
        })
    }
}

impl CallbackHook {
    fn request(&self, call: &HookCall) -> Value {
        let tool_use_id = match &call.json["tool_use_id"] {
            Value::Null => json!(uuid::Uuid::new_v4().to_string()),
            id => id.clone(),
        };
        let mut request = json!({
            "subtype": "hook_callback", "callback_id": self.id, "input": *call.json, "tool_use_id": tool_use_id,
        });
        let response = &request["input"]["tool_response"];
        let is_mcp = call.json["tool_name"].as_str().is_some_and(|it| it.starts_with("mcp__"));
        if is_mcp && response["content"].is_array() {
            request["input"]["tool_response"] = mcp_output(response, response["content"].clone());
        }
        if fits(&request) {
            return request;
        }
        // Long inputs and outputs are truncated. They are cut as if twice as long, to leave space for
        // the rest of the frame.
        let doubled = json!({"request": request, "room": "x".repeat(MAX_LINE / 2)});
        let line = bounded_line(&doubled);
        serde_json::from_str::<Value>(&line).map(|mut it| it["request"].take()).unwrap_or(request)
    }
}

/// Prefixes messages for users with the event and the tool, such as `PreToolUse:Bash says:`.
fn heard(mut answer: Value, call: &HookCall) -> Value {
    if let Some(message) = answer["systemMessage"].as_str() {
        let about = call.json["tool_name"].as_str().map(|tool| format!(":{tool}")).unwrap_or_default();
        answer["systemMessage"] = json!(format!("{}{about} says: {message}", call.event()));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_become_definitions() {
        let (host, _frames) = crate::client::with_receiver();
        let hooks = json!({
            "PreToolUse": [
                {"matcher": "Bash", "hookCallbackIds": ["hook_0", "hook_1"], "timeout": 2.5},
                {"matcher": null, "hookCallbackIds": ["hook_2"], "onFailure": "block"},
            ],
            "NewerThanUs": [{"hookCallbackIds": ["hook_3"]}],
            "Stop": [{"hookCallbackIds": []}, 7],
        });
        let found = hook_definitions(&hooks, &host);
        let shown: Vec<_> = found.iter().map(|it| (it.matcher.text(), it.timeout, it.on_error)).collect();
        let closed = ErrorPolicy::Explicit(ErrorEffect::Closed);
        assert_eq!(
            shown,
            [
                ("Bash", Duration::from_millis(2500), ErrorPolicy::Default),
                ("Bash", Duration::from_millis(2500), ErrorPolicy::Default),
                (HookMatcher::all().text(), Duration::from_secs(60), closed),
            ]
        );
        assert!(hook_definitions(&Value::Null, &host).is_empty());
    }
}
