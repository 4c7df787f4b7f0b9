//! Permission questions, answered by the host.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_permission::{Decision, Source};
use haft_runtime::{Answer, Ask, Question};
use haft_tool::BoxFuture;
use haft_types::CallId;
use serde_json::{Value, json};

use crate::{Host, HostError, host::fits};

/// Asks the host with `can_use_tool`.
#[derive(Clone, Debug)]
pub struct AskHost {
    host: Host,
    wants_end: Arc<AtomicBool>,
    asked: Arc<Mutex<HashSet<CallId>>>,
}

impl AskHost {
    /// Asks this host.
    pub fn new(host: Host) -> Self {
        Self { host, wants_end: Arc::default(), asked: Arc::default() }
    }

    /// Whether the host was asked about a call; the question is forgotten then.
    pub fn take_asked(&self, call: &CallId) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(call)
    }

    /// Whether a denial since the last time asked for the end of the turn.
    pub fn take_interrupt(&self) -> bool {
        self.wants_end.swap(false, Ordering::AcqRel)
    }
}

impl Ask for AskHost {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let request = request(&question);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(question.call_id.clone());
        Box::pin(async move {
            if !fits(&request) {
                return failed(&HostError::TooLong);
            }
            let answer = match self.host.ask(request).await {
                Ok(answer) => read_answer(answer),
                Err(error) => failed(&error),
            };
            if let Answer::Deny { interrupt: true, .. } = answer {
                self.wants_end.store(true, Ordering::Release);
            }
            answer
        })
    }

    /// The host's own words.
    fn refusal(&self, _tool: &str, reason: &str) -> String {
        reason.to_owned()
    }
}

/// Nobody answers for this session: what would be asked is denied, in the words
/// programs know, with the rule that would have allowed it.
#[derive(Clone, Copy, Debug)]
pub struct NobodyToAsk;

impl Ask for NobodyToAsk {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let reason = question.decision.clone().unattended().reason;
        let message = format!(
            "Claude requested permissions to use {}, but you haven't granted it yet: {reason}",
            question.tool
        );
        Box::pin(async { Answer::no(message) })
    }

    fn refusal(&self, _tool: &str, reason: &str) -> String {
        reason.to_owned()
    }
}

fn request(question: &Question<'_>) -> Value {
    let decision = question.decision;
    let mut request = json!({
        "subtype": "can_use_tool", "tool_name": question.tool, "input": question.input,
        "tool_use_id": question.call_id, "permission_suggestions": decision.suggestions,
        "display_name": question.tool, "description": question.description,
        "decision_reason": reason(decision), "decision_reason_type": reason_type(&decision.source),
    });
    if decision.source == Source::WorkingDir
        && let Some(part) = decision.parts.first()
        // It says what would happen, then to which path.
        && let Some(at) = part.subject.find('/')
    {
        request["blocked_path"] = json!(part.subject[at..]);
    }
    if let Some(child) = question.agent_id.child() {
        request["agent_id"] = json!(child);
    }
    request
}

/// Why it is asked; a hook's own words.
fn reason(decision: &Decision) -> &str {
    let of_hook = decision.reason.split_once(": ").filter(|_| decision.source == Source::Hook);
    of_hook.map_or(decision.reason.as_str(), |(_, words)| words)
}

fn reason_type(source: &Source) -> &'static str {
    match source {
        Source::Rule(_) => "rule",
        Source::Mode => "mode",
        Source::Hook => "hook",
        Source::SafetyCheck => "safetyCheck",
        Source::WorkingDir => "workingDir",
        Source::Classifier => "classifier",
        Source::Other => "other",
    }
}

fn failed(error: &HostError) -> Answer {
    Answer::no(match error {
        HostError::Closed => format!("Tool permission {error}"),
        HostError::Refused(_) | HostError::TooLong => {
            format!("Tool permission request failed: Error: {error}")
        }
    })
}

/// What a host's answer to a permission question says. One that cannot be
/// understood in every part is no yes.
pub fn read_answer(mut answer: Value) -> Answer {
    let invalid = |what: &str| {
        Answer::no(format!("The canUseTool callback returned an invalid permission result: {what}"))
    };
    match answer["behavior"].as_str() {
        Some("allow") => {
            let updated_input = match answer["updatedInput"].take() {
                Value::Null => None,
                // Hosts that change nothing may say so with nothing in it.
                Value::Object(input) if input.is_empty() => None,
                input @ Value::Object(_) => Some(input),
                _ => return invalid("updatedInput is not an object"),
            };
            let updates = match answer["updatedPermissions"].take() {
                Value::Null => Vec::new(),
                updates => match serde_json::from_value(updates) {
                    Ok(updates) => updates,
                    Err(err) => return invalid(&format!("updatedPermissions: {err}")),
                },
            };
            Answer::Allow { updated_input, updates }
        }
        Some("deny") => denial(
            answer["message"].as_str().unwrap_or("the user said no"),
            answer["interrupt"].as_bool().unwrap_or(false),
        ),
        _ => invalid("`behavior` is neither allow nor deny"),
    }
}

fn denial(message: &str, interrupt: bool) -> Answer {
    let message = match interrupt {
        true => format!("The user doesn't want to proceed with this tool use: {message}"),
        false => message.to_owned(),
    };
    Answer::Deny { message, interrupt }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let check = |answer: Value, allowed: bool| {
            let read = read_answer(answer.clone());
            assert_eq!(matches!(read, Answer::Allow { .. }), allowed, "{answer} {read:?}");
        };
        check(json!({"behavior": "allow"}), true);
        check(json!({"behavior": "allow", "updatedInput": null, "updatedPermissions": []}), true);
        check(json!({"behavior": "allow", "updatedInput": {"a": 1}, "toolUseID": "t", "new": 1}), true);
        check(
            json!({"behavior": "allow", "updatedPermissions": [
                {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": null}],
                 "behavior": "allow", "destination": "session"},
                {"type": "setMode", "mode": "acceptEdits", "destination": "session"}]}),
            true,
        );
        for no in [
            json!(null),
            json!({}),
            json!("allow"),
            json!([]),
            json!({"behavior": "Allow"}),
            json!({"behavior": true}),
            json!({"behavior": "allow", "updatedInput": "x"}),
            json!({"behavior": "allow", "updatedPermissions": [{"type": "nonsense"}]}),
            json!({"behavior": "deny"}),
        ] {
            check(no, false);
        }
    }
}
