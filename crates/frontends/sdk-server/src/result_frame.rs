//! The result frame, which ends a turn.

use haft_agent::{EndReason, LimitReached, TurnEnd};
use haft_model::Catalog;
use haft_types::{AgentId, SessionId, Usage, exit_codes};
use serde_json::{Value, json};

use haft_session::{AgentUsage, ApiFailure, PromptAuthor, TurnInfo, UsageTotals};

use crate::frames::uuid;

/// Usage by model, in the format of result frames.
pub(crate) fn by_model(bill: &UsageTotals) -> Value {
    let catalog = Catalog::built_in();
    let line = |(model, used): (&String, &Usage)| {
        let info = catalog.get(model);
        let (window, max_output) = bill.windows.get(model).copied().unwrap_or((info.window, info.max_output));
        let usd = info.price.map_or(0.0, |price| price.of(used, haft_model::Speed::Normal));
        let line = json!({
            "inputTokens": used.input_tokens, "outputTokens": used.output_tokens,
            "cacheReadInputTokens": used.cache_read_input_tokens,
            "cacheCreationInputTokens": used.cache_creation_input_tokens,
            "webSearchRequests": used.web_search_requests,
            "costUSD": usd, "contextWindow": window, "maxOutputTokens": max_output,
            "canonicalModel": model,
        });
        (model.clone(), line)
    };
    Value::Object(bill.models.iter().map(line).collect())
}

/// The exit code of a run and its result word, for scripts. `denied` says that calls were denied and
/// that this counts as a failure.
pub fn run_outcome(reason: &EndReason, denied: bool) -> (u8, &'static str) {
    match reason {
        EndReason::Completed if !denied => (exit_codes::SUCCESS, "success"),
        EndReason::Completed => (exit_codes::DENIED, "denied"),
        EndReason::Exhausted(LimitReached::Turns(_)) => (exit_codes::OUT_OF_TURNS, "incomplete"),
        EndReason::Exhausted(_) => (exit_codes::OUT_OF_BUDGET, "incomplete"),
        EndReason::Failed(_) => (exit_codes::PROVIDER_FAILED, "failed"),
        EndReason::Interrupted => (exit_codes::INTERRUPTED, "interrupted"),
        EndReason::Stopped(_)
        | EndReason::NoProgress(_)
        | EndReason::Incomplete(_)
        | EndReason::OutputTruncated
        | EndReason::NoStructuredOutput(_)
        | EndReason::Refused => (exit_codes::FAILURE, "incomplete"),
    }
}

/// The result frame of a turn.
pub fn turn_frame(session_id: &SessionId, end: &TurnEnd, bill: &UsageTotals, facts: &TurnInfo) -> Value {
    let mut ending = ResultReason::new(end, facts);
    let mut frame = base(session_id, bill);
    let denials = end
        .denials
        .iter()
        .filter(|it| facts.deferred.as_ref().is_none_or(|deferred| deferred.id != it.tool_use_id));
    let fields = json!({
        "subtype": ending.subtype, "is_error": ending.is_error,
        "duration_ms": millis(end.duration), "duration_api_ms": millis(end.api_duration),
        "num_turns": end.messages, "usage": usage(&end.usage),
        "permission_denials": denials.map(|it| json!({
            "tool_name": it.tool_name, "tool_use_id": it.tool_use_id, "tool_input": it.tool_input,
        })).collect::<Vec<_>>(),
        "terminal_reason": ending.terminal,
        "stop_reason": end.stop_reason.as_ref().and_then(|it| serde_json::to_value(it).ok()),
        "queued_turn_count": facts.queued, "result_index": facts.index,
    });
    merge(&mut frame, fields);
    if ending.terminal.is_empty() {
        frame["num_turns"] = json!(0);
        frame.as_object_mut().map(|it| it.remove("terminal_reason"));
    }
    match ending.result.take() {
        Some(text) => frame["result"] = json!(text),
        None => frame["errors"] = json!(ending.errors),
    }
    if let EndReason::Failed(error) = &end.reason {
        merge(&mut frame, json!({"stop_reason": "stop_sequence"}));
        frame["api_error_status"] = json!(ApiFailure::from_error(error).status);
    } else if ending.result_is_success() {
        frame["api_error_status"] = Value::Null;
    }
    if let Some(deferred) = &facts.deferred {
        frame["stop_reason"] = json!("tool_deferred");
        frame["num_turns"] = json!(end.messages.saturating_sub(1).max(1));
        frame["deferred_tool_use"] =
            json!({"id": deferred.id, "name": deferred.name, "input": deferred.input});
    }
    if !end.busts.is_empty() {
        frame["cache_busts"] = json!(end.busts);
    }
    if let Some(output) = &end.structured_output {
        frame["structured_output"] = output.clone();
    }
    match facts.speaker {
        PromptAuthor::Task => {
            let origin = || json!({"kind": "task-notification"});
            frame["origin"] = facts.origin.clone().unwrap_or_else(origin);
        }
        PromptAuthor::Human => frame["origin"] = json!({"kind": "human"}),
        PromptAuthor::Person => (),
    }
    if let Some(ttft) = facts.ttft_ms {
        frame["ttft_ms"] = json!(ttft);
    }
    name_prompts(&mut frame, &facts.prompts);
    frame
}

/// The result frame of a prompt without an answer.
pub(crate) fn appended_frame(session_id: &SessionId, bill: &UsageTotals, facts: &TurnInfo) -> Value {
    let mut frame = local_result(session_id, "", "", bill, facts);
    frame.as_object_mut().map(|it| it.remove("local_command"));
    frame
}

/// The result frame of a built-in command, which involved no model.
pub fn local_result(
    session_id: &SessionId,
    command: &str,
    text: &str,
    bill: &UsageTotals,
    facts: &TurnInfo,
) -> Value {
    let mut frame = base(session_id, bill);
    let fields = json!({
        "subtype": "success", "is_error": false, "duration_ms": 0, "duration_api_ms": 0, "num_turns": 0,
        "usage": usage(&Usage::default()), "permission_denials": [], "stop_reason": null,
        "result": text, "local_command": command,
        "queued_turn_count": facts.queued, "result_index": facts.index,
    });
    merge(&mut frame, fields);
    name_prompts(&mut frame, &facts.prompts);
    frame
}

/// The only frame of a session that cannot be opened.
pub fn failed_start(session_id: &str, error: &str) -> Value {
    let mut frame = base(&SessionId::from(session_id), &UsageTotals::default());
    let fields = json!({
        "subtype": "error_during_execution", "is_error": true, "duration_ms": 0, "duration_api_ms": 0,
        "num_turns": 0, "usage": usage(&Usage::default()), "permission_denials": [], "stop_reason": null,
        "errors": [error], "result_index": 0,
    });
    merge(&mut frame, fields);
    frame
}

fn base(session_id: &SessionId, bill: &UsageTotals) -> Value {
    let mut frame = json!({
        "type": "result", "session_id": session_id, "uuid": uuid(), "total_cost_usd": bill.usd,
        "modelUsage": by_model(bill),
    });
    if bill.agents.values().any(|it| it.kind.is_some()) {
        frame["agentUsage"] = by_agent(bill);
    }
    frame
}

/// Usage by agent; the sum equals that of `modelUsage`.
fn by_agent(bill: &UsageTotals) -> Value {
    let line = |(id, it): (&AgentId, &AgentUsage)| {
        let used = it.usage();
        let mut line = json!({
            "inputTokens": used.input_tokens, "outputTokens": used.output_tokens,
            "cacheReadInputTokens": used.cache_read_input_tokens,
            "cacheCreationInputTokens": used.cache_creation_input_tokens,
            "costUSD": it.usd, "requests": it.answers, "models": it.models.keys().collect::<Vec<_>>(),
        });
        if let Some(kind) = &it.kind {
            line["agentType"] = json!(kind);
        }
        if 0 < it.estimated {
            line["usageUnknown"] = json!(true);
        }
        (id.to_string(), line)
    };
    Value::Object(bill.agents.iter().map(line).collect())
}

fn name_prompts(frame: &mut Value, prompts: &[String]) {
    if let Some(last) = prompts.last() {
        frame["user_message_uuid"] = json!(last);
        frame["user_message_uuids"] = json!(prompts);
    }
}

fn merge(frame: &mut Value, fields: Value) {
    if let (Some(frame), Value::Object(fields)) = (frame.as_object_mut(), fields) {
        frame.extend(fields);
    }
}

/// How a turn ended, in terms of the SDKs.
struct ResultReason {
    subtype: &'static str,
    is_error: bool,
    /// Empty if no request was made.
    terminal: &'static str,
    /// The result text of a success.
    result: Option<String>,
    errors: Vec<String>,
}

impl ResultReason {
    fn new(end: &TurnEnd, facts: &TurnInfo) -> Self {
        if facts.deferred.is_some() {
            return Self::success("tool_deferred", String::new());
        }
        match &end.reason {
            EndReason::Completed => Self::success("completed", said(end)),
            EndReason::Stopped(reason) if end.turns == 0 => {
                let prompt = &facts.prompt_text;
                let text = format!("UserPromptSubmit operation blocked by hook:\n{reason}");
                Self::success("", format!("{text}\n\nOriginal prompt: {prompt}"))
            }
            EndReason::Stopped(_) => Self::success("hook_stopped", String::new()),
            EndReason::Refused => Self::success("refusal", end.text.clone()),
            EndReason::Failed(error) => {
                Self { is_error: true, ..Self::success("api_error", ApiFailure::from_error(error).text) }
            }
            EndReason::Exhausted(bound) => exhausted(*bound),
            EndReason::Interrupted => {
                let terminal = if facts.in_tools { "aborted_tools" } else { "aborted_streaming" };
                Self::failed("error_during_execution", terminal, String::from("Interrupted"))
            }
            EndReason::NoProgress(why) => Self::failed("error_during_execution", "no_progress", why.clone()),
            EndReason::Incomplete(why) => Self::failed("error_during_execution", "incomplete", why.clone()),
            EndReason::OutputTruncated => {
                let why = "The answers were cut by the output limit three times in a row";
                Self::failed("error_during_execution", "output_truncated", why.to_owned())
            }
            EndReason::NoStructuredOutput(tried) => {
                let mut why =
                    format!("No output that follows the schema after {} attempts", tried.len().max(1));
                if let Some(last) = tried.last() {
                    why.push_str(&format!("; the last problem: {last}"));
                }
                let terminal = "structured_output_retry_exhausted";
                Self::failed("error_max_structured_output_retries", terminal, why)
            }
        }
    }

    fn success(terminal: &'static str, result: String) -> Self {
        let (subtype, result) = ("success", Some(result));
        Self { subtype, is_error: false, terminal, result, errors: Vec::new() }
    }

    fn failed(subtype: &'static str, terminal: &'static str, error: String) -> Self {
        Self { subtype, is_error: true, terminal, result: None, errors: vec![error] }
    }

    fn result_is_success(&self) -> bool {
        self.subtype == "success" && !self.terminal.is_empty() && self.terminal != "tool_deferred"
    }
}

fn exhausted(bound: LimitReached) -> ResultReason {
    match bound {
        LimitReached::Turns(most) => ResultReason::failed(
            "error_max_turns",
            "max_turns",
            format!("Reached maximum number of turns ({most})"),
        ),
        LimitReached::Budget(most) => ResultReason::failed(
            "error_max_budget_usd",
            "budget_exhausted",
            format!("Reached maximum budget (${most})"),
        ),
        LimitReached::Tokens(most) => ResultReason::failed(
            "error_during_execution",
            "budget_exhausted",
            format!("Reached the limit of {most} tokens"),
        ),
        LimitReached::Time(most) => ResultReason::failed(
            "error_during_execution",
            "budget_exhausted",
            format!("Reached the limit of {most:?}"),
        ),
    }
}

fn said(end: &TurnEnd) -> String {
    end.structured_output.as_ref().map_or_else(|| end.text.clone(), Value::to_string)
}

pub(crate) fn usage(usage: &Usage) -> Value {
    serde_json::to_value(usage).unwrap_or(Value::Null)
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_that_the_server_told_is_reported() {
        let model = String::from("qwen2.5-coder:7b");
        let mut bill = UsageTotals::default();
        bill.models.insert(model.clone(), Usage::default());
        assert_eq!(by_model(&bill)[&model]["contextWindow"], 131_072);
        bill.windows.insert(model.clone(), (32_768, 8_192));
        let line = &by_model(&bill)[&model];
        assert_eq!((&line["contextWindow"], &line["maxOutputTokens"]), (&json!(32_768), &json!(8_192)));
    }
}
