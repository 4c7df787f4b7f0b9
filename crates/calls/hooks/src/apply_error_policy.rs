//! Applies an event's rules to one hook's answer: which fields count, and what happens if the hook
//! failed.

use std::time::Duration;

use crate::{
    BlockCause, BlockEffect, ErrorEffect, GeneralDecision, HookDefinition, HookEvent, HookFailure, HookId,
    HookOutput, HookPermissionAnswer, HookPorts, HookReport, HookRunResult, PermissionBehavior,
    PermissionDecision,
    hook_state::{HookFaultKind, HookState},
    merge_answers::{Contribution, MergedVerdict, verdict_of},
    parse_answer::HandlerAnswer,
    truncate,
};

/// Consecutive failures after which a message says how to disable the hook.
const PATIENCE: u32 = 3;

/// A hook with its answer.
pub(crate) struct AnsweredHook<'a> {
    pub(crate) definition: &'a HookDefinition,
    /// Effective error policy: the strictest of identical handlers.
    pub(crate) on_error: ErrorEffect,
    /// Whether a definition declares it a gate that closes on errors.
    pub(crate) is_declared_gate: bool,
    pub(crate) answer: HandlerAnswer,
    pub(crate) duration: Duration,
}

/// Turns an answer into its contribution to the outcome.
pub(crate) fn settle(answered: AnsweredHook<'_>, ports: &HookPorts, state: &HookState) -> Contribution {
    let AnsweredHook { definition, on_error, is_declared_gate, mut answer, duration } = answered;
    let (id, event) = (&definition.id, definition.event);
    fit_texts(&mut answer, id, ports);
    keep_what_counts(&mut answer.output, event);
    let said = verdict_of(&answer.output, answer.refusal.as_deref());
    let mut verdict = said.filter(|it| counts(it, event)).map(|it| with_reason(it, definition));
    let happened = match answer.failure.take() {
        Some(failure) => {
            let in_a_row = state.failed(id, HookFaultKind::Running);
            let is_let_pass =
                !is_declared_gate && !ports.strict_commands && ended_by_itself(&failure, &answer);
            let effect = if can_close(event) && !is_let_pass { on_error } else { ErrorEffect::Open };
            if effect == ErrorEffect::Closed {
                let reason = closed_reason(definition, &failure, in_a_row, ports);
                close(event, reason, &mut verdict, &mut answer.output);
            }
            HookRunResult::Broke { failure, in_a_row, effect }
        }
        None => {
            state.worked(id, HookFaultKind::Running);
            if answer.output.specific.updated_input.is_none() {
                state.worked(id, HookFaultKind::Rewriting);
            }
            if says_no(verdict.as_ref(), &answer.output) { HookRunResult::SaidNo } else { HookRunResult::Ran }
        }
    };
    let report = HookReport {
        id: id.clone(),
        event,
        label: definition.handler.label(),
        source: definition.source.clone(),
        duration,
        happened,
        status: answer.transcript.status,
        stdout: answer.transcript.stdout,
        stderr: answer.transcript.stderr,
    };
    Contribution { report, verdict, output: answer.output, on_error }
}

fn says_no(verdict: Option<&MergedVerdict>, output: &HookOutput) -> bool {
    verdict.is_some_and(|it| it.kind == PermissionDecision::Deny)
        || output.specific.decision.as_ref().is_some_and(|it| it.behavior == PermissionBehavior::Deny)
}

/// Whether a command failed in a way that does not block unless `strict_commands` is set: it could not
/// start, crashed, or exited with a status other than 0 and 2. Other programs with the same hook format
/// block only on status 2.
fn ended_by_itself(failure: &HookFailure, answer: &HandlerAnswer) -> bool {
    let is_end = matches!(
        failure,
        HookFailure::NotStarted(_) | HookFailure::ExitStatus { .. } | HookFailure::Signal(_)
    );
    is_end && answer.transcript.status != Some(2)
}

/// Whether a failing hook can block at this event.
fn can_close(event: HookEvent) -> bool {
    event.block_effect() == BlockEffect::Prevents || event == HookEvent::PermissionRequest
}

fn counts(verdict: &MergedVerdict, event: HookEvent) -> bool {
    match event.block_effect() {
        _ if event == HookEvent::PreToolUse => true,
        BlockEffect::Prevents | BlockEffect::TellsModel => verdict.kind == PermissionDecision::Deny,
        BlockEffect::Nothing => false,
    }
}

fn with_reason(mut verdict: MergedVerdict, definition: &HookDefinition) -> MergedVerdict {
    if verdict.kind == PermissionDecision::Deny && verdict.reason.trim().is_empty() {
        let (id, label) = (&definition.id, definition.handler.label());
        verdict.reason = format!("the hook {id} ({label}) said no and gave no reason");
    }
    verdict
}

/// Drops fields that have no meaning at this event.
fn keep_what_counts(output: &mut HookOutput, event: HookEvent) {
    if event != HookEvent::PreToolUse {
        output.specific.permission_decision = None;
        output.specific.updated_input = None;
        output.decision = output.decision.filter(|it| *it == GeneralDecision::Block);
    }
    if event != HookEvent::PermissionRequest {
        output.specific.decision = None;
    }
    if event != HookEvent::PostToolUse {
        output.specific.updated_tool_output = None;
        output.specific.updated_mcp_tool_output = None;
    }
}

fn close(event: HookEvent, reason: String, verdict: &mut Option<MergedVerdict>, output: &mut HookOutput) {
    if event == HookEvent::PermissionRequest {
        let said_no = output.specific.decision.take().filter(|it| it.behavior == PermissionBehavior::Deny);
        output.specific.decision = Some(said_no.unwrap_or(HookPermissionAnswer {
            behavior: PermissionBehavior::Deny,
            updated_input: None,
            updated_permissions: None,
            message: Some(reason),
            interrupt: None,
        }));
    } else if verdict.as_ref().is_none_or(|it| it.kind < PermissionDecision::Deny) {
        *verdict =
            Some(MergedVerdict { kind: PermissionDecision::Deny, reason, cause: BlockCause::CouldNotRun });
    }
}

/// Message for the model and the user when a gate could not run.
fn closed_reason(
    definition: &HookDefinition,
    failure: &HookFailure,
    in_a_row: u32,
    ports: &HookPorts,
) -> String {
    let HookDefinition { id, handler, source, .. } = definition;
    let label = handler.label();
    let first = format!(
        "The hook {id} ({label}) could not run: {failure}. Nobody said no, but a gate that breaks stays \
         closed. The person can repair the hook, or set \"on_error\": \"open\" on it in {source}."
    );
    format!("{first}{}", advice(id, in_a_row, ports))
}

fn advice(id: &HookId, in_a_row: u32, ports: &HookPorts) -> String {
    if in_a_row < PATIENCE {
        return String::new();
    }
    let file = match &ports.user_settings {
        Some(path) => path.display().to_string(),
        None => "the user's settings.json".to_owned(),
    };
    format!(
        " It has failed {in_a_row} times in a row; to disable it, add \"{id}\" to \"disabledHooks\" in {file}."
    )
}

/// Message when the tool rejects a rewritten input.
pub(crate) fn refused_rewrite(id: &HookId, problem: &str, in_a_row: u32, ports: &HookPorts) -> String {
    let first = format!(
        "The hook {id} rewrote the input into one the tool does not accept: {problem}. Nobody said no, but \
         a gate that breaks stays closed."
    );
    format!("{first}{}", advice(id, in_a_row, ports))
}

fn fit_texts(answer: &mut HandlerAnswer, id: &HookId, ports: &HookPorts) {
    let keep = ports.keep_text.as_deref();
    let fit = |text: &mut Option<String>| {
        if let Some(full) = text.take() {
            *text = Some(truncate::fit(full, id, keep));
        }
    };
    let output = &mut answer.output;
    fit(&mut answer.refusal);
    fit(&mut output.reason);
    fit(&mut output.system_message);
    fit(&mut output.specific.additional_context);
    fit(&mut output.specific.permission_decision_reason);
    fit(&mut output.specific.initial_user_message);
    fit(&mut output.specific.classifier_context);
    if let Some(stop) = &mut output.stop {
        fit(&mut stop.reason);
    }
    if let Some(decision) = &mut output.specific.decision {
        fit(&mut decision.message);
    }
    let transcript = &mut answer.transcript;
    for text in [&mut transcript.stdout, &mut transcript.stderr] {
        *text = truncate::fit(std::mem::take(text), id, None);
    }
}
