//! Converts permission questions for the host.

use std::sync::Arc;

use haft_permission::{Decision, DecisionSource};
use haft_tool::BoxFuture;
use haft_tool_runtime::{Approver, PermissionAnswer, PermissionQuestion};
use haft_types::AgentId;
use serde_json::{Value, json};

/// Approver of sessions without one: denies calls that would ask, with a text that names the rule that
/// would allow them.
#[derive(Clone, Copy, Debug)]
pub struct NoSdkApprover;

impl Approver for NoSdkApprover {
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        let reason = question.decision.clone().unattended().reason;
        let message = format!(
            "Claude requested permissions to use {}, but you haven't granted it yet: {reason}",
            question.tool
        );
        Box::pin(async { PermissionAnswer::unavailable(message) })
    }

    fn is_available(&self) -> bool {
        false
    }

    fn denial_text(&self, _tool: &str, reason: &str) -> String {
        reason.to_owned()
    }
}

/// The `can_use_tool` control request.
pub(crate) fn permission_request(question: &PermissionQuestion) -> Value {
    let decision = &question.decision;
    let description = match question.warning() {
        Some(warning) => format!("{} ({warning})", question.description),
        None => question.description.clone(),
    };
    let mut request = json!({
        "subtype": "can_use_tool", "tool_name": question.tool, "input": question.input,
        "tool_use_id": question.call_id, "permission_suggestions": decision.suggestions,
        "display_name": question.tool, "description": description,
        "decision_reason": reason(decision), "decision_reason_type": reason_type(&decision.source),
    });
    if question.interaction.is_required() {
        request["requires_user_interaction"] = json!(true);
    }
    if decision.source == DecisionSource::WorkingDir
        && let Some(part) = decision.parts.first()
        // The text describes the effect and then the path.
        && let Some(at) = part.subject.find('/')
    {
        request["blocked_path"] = json!(part.subject[at..]);
    }
    if let AgentId::Child(_) = question.agent_id {
        request["agent_id"] = json!(question.agent_id);
    }
    request
}

/// The reason for the question; for hooks their own text.
fn reason(decision: &Decision) -> &str {
    let of_hook = decision.reason.split_once(": ").filter(|_| decision.source == DecisionSource::Hook);
    of_hook.map_or(decision.reason.as_str(), |(_, words)| words)
}

fn reason_type(source: &DecisionSource) -> &'static str {
    match source {
        DecisionSource::Rule(_) => "rule",
        DecisionSource::Mode => "mode",
        DecisionSource::Hook => "hook",
        DecisionSource::SafetyCheck => "safetyCheck",
        DecisionSource::WorkingDir => "workingDir",
        DecisionSource::Classifier => "classifier",
        DecisionSource::Other => "other",
    }
}
