//! Merges the answers of several hooks. The result depends on the answers and the configuration order,
//! never on timing.

use haft_types::tags;
use serde_json::{Map, Value};

use crate::{
    BlockCause, ErrorEffect, EventExtras, GeneralDecision, HookDecision, HookId, HookOutput,
    HookPermissionAnswer, HookReport, HookRewrite, HooksOutcome, PermissionBehavior, PermissionDecision,
};

/// One hook's part of the outcome.
pub(crate) struct Contribution {
    pub(crate) report: HookReport,
    pub(crate) verdict: Option<MergedVerdict>,
    pub(crate) output: HookOutput,
    pub(crate) on_error: ErrorEffect,
}

/// One hook's decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct MergedVerdict {
    pub(crate) kind: PermissionDecision,
    pub(crate) reason: String,
    pub(crate) cause: BlockCause,
}

/// Merges contributions in configuration order. `asked_about` is the original input that hooks may have
/// rewritten.
pub(crate) fn merge(contributions: Vec<Contribution>, asked_about: Option<&Value>) -> HooksOutcome {
    let mut outcome = HooksOutcome { decision: decide(&contributions), ..HooksOutcome::default() };
    let mut rewrites = Vec::new();
    for Contribution { report, output, on_error, .. } in contributions {
        let HookOutput { stop, system_message, terminal_sequence, mut specific, .. } = output;
        if let Some(stop) = stop {
            let reason = stop.reason.unwrap_or_default();
            join(&mut outcome.stop.get_or_insert_default().reason, &reason);
        }
        outcome.system_messages.extend(system_message);
        let context = specific.additional_context.take();
        // It becomes a message of its own, so tags are escaped.
        outcome.additional_context.extend(context.map(|text| tags::neutral(&text).into_owned()));
        if let Some(input) = specific.updated_input.take() {
            rewrites.push((report.id.clone(), input, on_error));
        }
        outcome.extras.terminal_sequences.extend(terminal_sequence);
        merge_extras(&mut outcome.extras, specific);
        outcome.reports.push(report);
    }
    if !matches!(outcome.decision, HookDecision::Block { .. }) {
        outcome.updated_input = rewrite(asked_about, rewrites);
    }
    outcome
}

fn join(all: &mut String, more: &str) {
    if more.is_empty() {
        return;
    }
    if !all.is_empty() {
        all.push('\n');
    }
    all.push_str(more);
}

/// The strictest decision, with the reasons of all hooks that made it.
fn decide(contributions: &[Contribution]) -> HookDecision {
    let verdicts = || contributions.iter().filter_map(|it| it.verdict.as_ref());
    let Some(kind) = verdicts().map(|it| it.kind).max() else { return HookDecision::NoOpinion };
    let mut reason = String::new();
    verdicts().filter(|it| it.kind == kind).for_each(|it| join(&mut reason, &it.reason));
    match kind {
        PermissionDecision::Allow => HookDecision::Allow { reason },
        PermissionDecision::Ask => HookDecision::Ask { reason },
        PermissionDecision::Defer => HookDecision::Defer { reason },
        PermissionDecision::Deny => {
            let said_no = verdicts().any(|it| it.kind == kind && it.cause == BlockCause::SaidNo);
            let cause = if said_no { BlockCause::SaidNo } else { BlockCause::CouldNotRun };
            HookDecision::Block { reason, cause }
        }
    }
}

/// Merges rewritten inputs. All hooks saw the same input and returned a complete one; only the fields
/// each changed count. So a hook that adds a timeout does not undo another that made the command
/// harmless. For a field changed by several hooks, the last in configuration order wins.
fn rewrite(
    asked_about: Option<&Value>,
    rewrites: Vec<(HookId, Map<String, Value>, ErrorEffect)>,
) -> Option<HookRewrite> {
    let original = asked_about.and_then(Value::as_object).cloned().unwrap_or_default();
    let mut input = original.clone();
    let mut by = Vec::new();
    let mut closed = false;
    for (id, answer, on_error) in rewrites {
        if answer == original {
            continue;
        }
        let added = answer.iter().filter(|(name, value)| original.get(*name) != Some(value));
        let removed: Vec<&String> = original.keys().filter(|name| !answer.contains_key(*name)).collect();
        input.extend(added.map(|(name, value)| (name.clone(), value.clone())));
        for name in removed {
            input.shift_remove(name);
        }
        closed |= on_error == ErrorEffect::Closed;
        by.push(id);
    }
    let on_error = if closed { ErrorEffect::Closed } else { ErrorEffect::Open };
    (!by.is_empty()).then(|| HookRewrite { input: Value::Object(input), by, on_error })
}

fn merge_extras(into: &mut EventExtras, from: crate::SpecificOutput) {
    fn last<T>(into: &mut Option<T>, from: Option<T>) {
        if from.is_some() {
            *into = from;
        }
    }
    last(&mut into.updated_tool_output, from.updated_tool_output);
    last(&mut into.updated_mcp_tool_output, from.updated_mcp_tool_output);
    last(&mut into.initial_user_message, from.initial_user_message);
    last(&mut into.session_title, from.session_title);
    into.classifier_context.extend(from.classifier_context);
    into.watch_paths.extend(from.watch_paths.unwrap_or_default());
    into.reload_skills |= from.reload_skills == Some(true);
    into.suppress_original_prompt |= from.suppress_original_prompt == Some(true);
    into.retry |= from.retry == Some(true);
    into.elicited = match (into.elicited.take(), from.elicited) {
        (Some(before), Some(after)) => Some(before.and(after)),
        (before, after) => after.or(before),
    };
    into.other.extend(from.other);
    if let Some(answer) = from.decision {
        into.permission = Some(match into.permission.take() {
            None => answer,
            Some(before) => merge_permission(before, answer),
        });
    }
}

/// Deny beats allow. For equal decisions, messages and updates are joined and the later input wins.
fn merge_permission(before: HookPermissionAnswer, after: HookPermissionAnswer) -> HookPermissionAnswer {
    match (before.behavior, after.behavior) {
        (PermissionBehavior::Deny, PermissionBehavior::Allow) => before,
        (PermissionBehavior::Allow, PermissionBehavior::Deny) => after,
        (behavior, _) => {
            let mut message = before.message.unwrap_or_default();
            join(&mut message, &after.message.unwrap_or_default());
            let mut updates = before.updated_permissions.unwrap_or_default();
            updates.extend(after.updated_permissions.unwrap_or_default());
            HookPermissionAnswer {
                behavior,
                updated_input: after.updated_input.or(before.updated_input),
                updated_permissions: (!updates.is_empty()).then_some(updates),
                message: (!message.is_empty()).then_some(message),
                interrupt: Some(before.interrupt == Some(true) || after.interrupt == Some(true)),
            }
        }
    }
}

/// The decision in a hook's answer, if any.
pub(crate) fn verdict_of(output: &HookOutput, refusal: Option<&str>) -> Option<MergedVerdict> {
    let specific = &output.specific;
    let general = output.decision.map(|it| match it {
        GeneralDecision::Approve => PermissionDecision::Allow,
        GeneralDecision::Block => PermissionDecision::Deny,
    });
    let refused = refusal.map(|_| PermissionDecision::Deny);
    let kind = [refused, specific.permission_decision, general].into_iter().flatten().max()?;
    let reason = match refusal {
        Some(reason) => reason,
        None if specific.permission_decision == Some(kind) => {
            let reason = specific.permission_decision_reason.as_deref();
            reason.or(output.reason.as_deref()).unwrap_or_default()
        }
        None => output.reason.as_deref().unwrap_or_default(),
    };
    Some(MergedVerdict { kind, reason: reason.to_owned(), cause: BlockCause::SaidNo })
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
