use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{ElicitationOverride, HookEvent};

/// Answer of a handler in its public JSON form. All fields are optional; `{}` means no opinion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutput {
    /// Set to end the turn.
    pub stop: Option<StopRequest>,
    /// Message for the user.
    pub system_message: Option<String>,
    /// Escape sequence for the user's terminal. The caller must validate it before writing it.
    pub terminal_sequence: Option<String>,
    /// General verdict.
    pub decision: Option<GeneralDecision>,
    /// Reason for [`HookOutput::decision`].
    pub reason: Option<String>,
    /// Event-specific fields.
    pub specific: SpecificOutput,
    /// Set if the handler continues in the background.
    pub background: Option<BackgroundRequest>,
}

/// `continue: false`: ends the turn.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StopRequest {
    /// Reason, for the user.
    pub reason: Option<String>,
}

/// `async: true`: continues in the background.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BackgroundRequest {
    /// Remaining time; by default the handler's timeout.
    pub timeout: Option<Duration>,
}

/// The field `decision`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum GeneralDecision {
    /// No objection.
    Approve,
    /// Blocks.
    Block,
}

/// `permissionDecision` of a `PreToolUse` hook, from the mildest to the strictest.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
pub enum PermissionDecision {
    /// Allow without a prompt, unless a rule objects.
    Allow,
    /// Ask the user.
    Ask,
    /// Leave the decision to the embedding program.
    Defer,
    /// Deny the call.
    Deny,
}

/// The field `hookSpecificOutput`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SpecificOutput {
    /// Event that the answer is for; must match.
    pub hook_event_name: Option<String>,
    /// `PreToolUse`: permission decision.
    pub permission_decision: Option<PermissionDecision>,
    /// `PreToolUse`: reason of the decision.
    pub permission_decision_reason: Option<String>,
    /// `PreToolUse`: complete input to use instead.
    pub updated_input: Option<Map<String, Value>>,
    /// Text added to the model's context.
    pub additional_context: Option<String>,
    /// `PermissionRequest`: answer in place of the user.
    pub decision: Option<HookPermissionAnswer>,
    /// `PostToolUse`: content for the model instead of the result.
    pub updated_tool_output: Option<Value>,
    /// `PostToolUse` of an MCP tool: content for the model instead of the result.
    #[serde(rename = "updatedMCPToolOutput")]
    pub updated_mcp_tool_output: Option<Value>,
    /// `PostToolUse`: text for the command classifier.
    pub classifier_context: Option<String>,
    /// `SessionStart`: first prompt.
    pub initial_user_message: Option<String>,
    /// `SessionStart`, `UserPromptSubmit`: title of the session.
    pub session_title: Option<String>,
    /// `SessionStart`: files to watch for `FileChanged`.
    pub watch_paths: Option<Vec<String>>,
    /// `SessionStart`: reload the skills.
    pub reload_skills: Option<bool>,
    /// `UserPromptSubmit`: send the context instead of the prompt.
    pub suppress_original_prompt: Option<bool>,
    /// `PermissionDenied`: let the model try again.
    pub retry: Option<bool>,
    /// `Elicitation`, `ElicitationResult`: `action` and `content` in place of the user's answer.
    #[serde(skip)]
    pub elicited: Option<ElicitationOverride>,
    /// Other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Answer of a `PermissionRequest` hook.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HookPermissionAnswer {
    /// Allow or deny.
    pub behavior: PermissionBehavior,
    /// Complete input to use instead.
    #[serde(default)]
    pub updated_input: Option<Map<String, Value>>,
    /// Rule updates to apply, in their public form.
    #[serde(default)]
    pub updated_permissions: Option<Vec<Value>>,
    /// Message for the model if denied.
    #[serde(default)]
    pub message: Option<String>,
    /// Whether a denial also ends the turn.
    #[serde(default)]
    pub interrupt: Option<bool>,
}

/// Allow or deny.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the public words, which explain themselves")]
pub enum PermissionBehavior {
    Allow,
    Deny,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct OutputWire {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    terminal_sequence: Option<String>,
    decision: Option<GeneralDecision>,
    reason: Option<String>,
    hook_specific_output: Option<SpecificOutput>,
    r#async: Option<bool>,
    async_timeout: Option<f64>,
}

/// A malformed answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputError {
    /// What is wrong with it.
    pub problem: String,
    /// The restrictions it contains nevertheless: a malformed answer can restrict, never allow.
    pub strict_part: HookOutput,
}

impl HookOutput {
    /// Parses an answer to `event`. Unknown fields are ignored; a known field of the wrong type
    /// invalidates the whole answer.
    pub fn parse(answer: &Value, event: HookEvent) -> Result<Self, Box<OutputError>> {
        let bad =
            |problem: String| Box::new(OutputError { problem, strict_part: strict_part(answer, event) });
        let wire: OutputWire = match answer {
            Value::Object(_) => serde_json::from_value(answer.clone()).map_err(|e| bad(e.to_string()))?,
            _ => return Err(bad("the answer is not a JSON object".to_owned())),
        };
        let mut specific = wire.hook_specific_output.unwrap_or_default();
        if let Some(name) = specific.hook_event_name.as_deref().filter(|name| *name != event.as_str()) {
            return Err(bad(format!("the answer is for {name}, but the event is {event}")));
        }
        specific.elicited = ElicitationOverride::take(&mut specific.other, event).map_err(bad)?;
        let timeout = wire.async_timeout.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
        Ok(Self {
            stop: (wire.r#continue == Some(false)).then_some(StopRequest { reason: wire.stop_reason }),
            system_message: wire.system_message,
            terminal_sequence: wire.terminal_sequence,
            decision: wire.decision,
            reason: wire.reason,
            specific,
            background: (wire.r#async == Some(true)).then_some(BackgroundRequest { timeout }),
        })
    }

    /// Whether the answer contains any decision.
    pub fn decides(&self) -> bool {
        self.stop.is_some()
            || self.decision.is_some()
            || self.specific.permission_decision.is_some()
            || self.specific.decision.is_some()
            || self.specific.elicited.is_some()
    }

    /// Only the restrictions of this answer.
    pub(crate) fn into_strict_part(self) -> Self {
        let specific = self.specific;
        let restricts = specific.permission_decision.filter(|it| PermissionDecision::Ask <= *it);
        Self {
            stop: self.stop,
            system_message: self.system_message,
            terminal_sequence: None,
            decision: self.decision.filter(|it| *it == GeneralDecision::Block),
            reason: self.reason,
            specific: SpecificOutput {
                permission_decision: restricts,
                permission_decision_reason: specific.permission_decision_reason,
                decision: specific.decision.filter(|it| it.behavior == PermissionBehavior::Deny),
                elicited: specific.elicited.and_then(ElicitationOverride::into_strict_part),
                ..SpecificOutput::default()
            },
            background: None,
        }
    }
}

/// The restrictions in a malformed answer.
fn strict_part(answer: &Value, event: HookEvent) -> HookOutput {
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let permission = text("/hookSpecificOutput/permissionDecision");
    let denies = text("/hookSpecificOutput/decision/behavior").as_deref() == Some("deny");
    let mut action =
        Map::from_iter(text("/hookSpecificOutput/action").map(|it| ("action".to_owned(), it.into())));
    let elicited = ElicitationOverride::take(&mut action, event).ok().flatten();
    HookOutput {
        stop: (answer.pointer("/continue") == Some(&Value::Bool(false)))
            .then(|| StopRequest { reason: text("/stopReason") }),
        decision: (text("/decision").as_deref() == Some("block")).then_some(GeneralDecision::Block),
        reason: text("/reason"),
        specific: SpecificOutput {
            permission_decision: match permission.as_deref() {
                Some("deny") => Some(PermissionDecision::Deny),
                Some("defer") => Some(PermissionDecision::Defer),
                Some("ask") => Some(PermissionDecision::Ask),
                _ => None,
            },
            permission_decision_reason: text("/hookSpecificOutput/permissionDecisionReason"),
            decision: denies.then(|| HookPermissionAnswer {
                behavior: PermissionBehavior::Deny,
                updated_input: None,
                updated_permissions: None,
                message: text("/hookSpecificOutput/decision/message"),
                interrupt: None,
            }),
            elicited: elicited.and_then(ElicitationOverride::into_strict_part),
            ..SpecificOutput::default()
        },
        ..HookOutput::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn complete_answer_is_parsed_and_unknown_fields_are_ignored() {
        let answer = json!({
            "continue": false, "stopReason": "enough", "systemMessage": "note", "suppressOutput": true, "x": 1,
            "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask",
                "permissionDecisionReason": "why", "updatedInput": {"a": 1}, "additionalContext": "c", "y": 2},
        });
        let output = HookOutput::parse(&answer, HookEvent::PreToolUse).unwrap();
        assert_eq!(output.stop, Some(StopRequest { reason: Some("enough".into()) }));
        assert_eq!(output.system_message.as_deref(), Some("note"));
        assert_eq!(output.specific.permission_decision, Some(PermissionDecision::Ask));
        assert_eq!(output.specific.updated_input, json!({"a": 1}).as_object().cloned());
        assert_eq!(output.specific.other, *json!({"y": 2}).as_object().unwrap());
        assert_eq!(HookOutput::parse(&json!({}), HookEvent::Stop), Ok(HookOutput::default()));
    }

    #[test]
    fn malformed_answer_keeps_denials_and_drops_permissions() {
        let said = |decision: &str| json!({"systemMessage": 5, "hookSpecificOutput": {"permissionDecision": decision}});
        for (answer, want) in [
            (said("deny"), Some(PermissionDecision::Deny)),
            (said("ask"), Some(PermissionDecision::Ask)),
            (said("allow"), None),
            (said("perhaps"), None),
            (
                json!({"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "deny"}}),
                Some(PermissionDecision::Deny),
            ),
            (json!({"hookSpecificOutput": {"updatedInput": "text", "permissionDecision": "allow"}}), None),
            (json!(["deny"]), None),
        ] {
            let bad = HookOutput::parse(&answer, HookEvent::PreToolUse).unwrap_err();
            assert_eq!(bad.strict_part.specific.permission_decision, want, "{answer}");
        }
        let bad = HookOutput::parse(&json!({"decision": "block", "reason": 1}), HookEvent::Stop).unwrap_err();
        assert_eq!(bad.strict_part.decision, Some(GeneralDecision::Block));
    }
}
