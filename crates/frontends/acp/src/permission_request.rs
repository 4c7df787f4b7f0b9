//! Permission requests and other questions, in the protocol's format.

use haft_json_lines::read_elicitation;
use haft_mcp_client::{ElicitAnswer, Elicitation};
use haft_permission::{Behavior, Decision, PermissionUpdate};
use haft_session::{QuestionAnswer, WaitingServer};
use haft_tool_runtime::{PermissionAnswer, PermissionQuestion};
use haft_types::ToolUse;
use serde_json::{Value, json};

use crate::{
    jsonrpc::AcpError,
    updates::{CallInspector, fenced, proposed_diffs},
};

const ALLOW_ONCE: &str = "allow-once";
const REJECT_ONCE: &str = "reject-once";
const ALLOW_ALWAYS: &str = "allow-always-";

/// Builds the parameters of `session/request_permission`. Blocks on disk and, for a file with unsaved
/// changes, on the editor.
pub(crate) fn permission_request(
    session: &str,
    question: &PermissionQuestion,
    looks: &CallInspector,
) -> Value {
    let call =
        ToolUse { id: question.call_id.clone(), name: question.tool.clone(), input: question.input.clone() };
    let look = looks.look(&call);
    let mut content: Vec<Value> = proposed_diffs(&call, &look, looks.files.as_deref());
    if let Some(command) = &look.command {
        content.push(text_content(&fenced(command)));
    }
    let warning = question.warning().map(|it| format!("**{}{}**\n\n", it[..1].to_uppercase(), &it[1..]));
    content.push(text_content(&format!("{}{}", warning.unwrap_or_default(), why(&question.decision))));
    let mut tool_call = json!({
        "toolCallId": question.call_id, "title": look.title, "name": question.tool, "kind": look.kind,
        "status": "pending", "content": content, "rawInput": question.input,
    });
    if !look.paths.is_empty() {
        tool_call["locations"] = json!(look.locations());
    }
    let once = json!({"optionId": ALLOW_ONCE, "name": "Allow once", "kind": "allow_once"});
    let lasting = question.decision.suggestions.iter().enumerate().map(|(at, update)| {
        let id = format!("{ALLOW_ALWAYS}{at}");
        json!({"optionId": id, "name": lasting_name(update), "kind": "allow_always"})
    });
    let no = json!({"optionId": REJECT_ONCE, "name": "Reject", "kind": "reject_once"});
    let options: Vec<Value> = std::iter::once(once).chain(lasting).chain([no]).collect();
    json!({"sessionId": session, "toolCall": tool_call, "options": options})
}

fn text_content(words: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": words}})
}

/// Formats the reasons of a decision.
fn why(decision: &Decision) -> String {
    let mut words = format!("Asks because {}", decision.reason);
    let asked = decision.parts.iter().filter(|part| part.decision != Behavior::Allow);
    for part in asked.filter(|part| part.reason != decision.reason).take(12) {
        words.push_str(&format!("\n- `{}`: {}", part.subject.replace('`', "'"), part.reason));
    }
    for note in &decision.notes {
        words.push_str(&format!("\n- {note}"));
    }
    words
}

/// Returns a label for the rule that would be saved, and where.
fn lasting_name(update: &PermissionUpdate) -> String {
    let scope = update.destination().label();
    match update {
        PermissionUpdate::AddRules(list)
        | PermissionUpdate::ReplaceRules(list)
        | PermissionUpdate::RemoveRules(list) => {
            let rules: Vec<String> = list.rules.iter().map(|rule| format!("`{}`", rule.text())).collect();
            format!("Always: {}, {scope}", rules.join(", "))
        }
        PermissionUpdate::SetMode { mode, .. } => format!("Always: mode {mode}, {scope}"),
        PermissionUpdate::AddDirectories { directories, .. }
        | PermissionUpdate::RemoveDirectories { directories, .. } => {
            let dirs: Vec<String> = directories.iter().map(|it| it.display().to_string()).collect();
            format!("Always: everything below {}, {scope}", dirs.join(", "))
        }
    }
}

/// Parses the editor's response. Anything but an offered option is a denial.
pub(crate) fn read_permission(
    answer: Result<Value, AcpError>,
    suggestions: &[PermissionUpdate],
) -> QuestionAnswer {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return QuestionAnswer::Unasked(format!("the editor could not ask: {}", error.message)),
    };
    let outcome = &answer["outcome"];
    let chosen = outcome["optionId"].as_str().filter(|_| outcome["outcome"] == "selected");
    let lasting = chosen.and_then(|id| id.strip_prefix(ALLOW_ALWAYS)?.parse::<usize>().ok());
    QuestionAnswer::Permission(match (chosen, lasting.and_then(|at| suggestions.get(at))) {
        (Some(ALLOW_ONCE), _) => PermissionAnswer::allow(),
        (_, Some(update)) => PermissionAnswer::allow_and_keep(vec![update.clone()]),
        (Some(REJECT_ONCE), _) => PermissionAnswer::deny("the user said no"),
        _ if outcome["outcome"] == "cancelled" => {
            PermissionAnswer::Deny { message: String::from("the user cancelled"), interrupt: true }
        }
        _ => PermissionAnswer::deny("the editor's answer is none of the options"),
    })
}

/// Builds the parameters of `elicitation/create`; `None` if the editor does not support the kind of
/// question.
pub(crate) fn elicitation_request(
    session: &str,
    question: &Elicitation,
    forms: bool,
    addresses: bool,
) -> Option<Value> {
    let message = format!("{}: {}", question.server, question.message);
    match (&question.url, &question.schema) {
        (Some(url), _) if addresses => {
            let id = question.id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
            Some(json!({
                "mode": "url", "sessionId": session, "message": message, "elicitationId": id, "url": url,
            }))
        }
        (None, Some(schema)) if forms => Some(json!({
            "mode": "form", "sessionId": session, "message": message, "requestedSchema": schema,
        })),
        _ => None,
    }
}

/// Parses the editor's response to an MCP server's question. An error counts as declined.
pub(crate) fn read_elicited(answer: Result<Value, AcpError>) -> QuestionAnswer {
    QuestionAnswer::Elicitation(match answer {
        Ok(answer) => read_elicitation(&answer),
        Err(_) => ElicitAnswer::Decline,
    })
}

/// Builds the permission request for starting a project's MCP server.
pub(crate) fn trust_request(session: &str, waiting: &WaitingServer) -> Value {
    let summary = waiting.server.summary();
    let tool_call = json!({
        "toolCallId": format!("server-{}", uuid::Uuid::new_v4()), "kind": "execute", "status": "pending",
        "title": format!("Start an MCP server of this project: {summary}"),
        "content": [text_content(&waiting.reason())],
    });
    let options = json!([
        {"optionId": ALLOW_ONCE, "name": "Trust it, exactly as it is, and start it", "kind": "allow_always"},
        {"optionId": REJECT_ONCE, "name": "Leave it off", "kind": "reject_once"},
    ]);
    json!({"sessionId": session, "toolCall": tool_call, "options": options})
}

/// Parses the response: whether the server may start.
pub(crate) fn read_trust(answer: &Result<Value, AcpError>) -> QuestionAnswer {
    let chosen = answer.as_ref().ok().map(|it| &it["outcome"]);
    QuestionAnswer::ServerTrust(
        chosen.is_some_and(|it| it["outcome"] == "selected" && it["optionId"] == ALLOW_ONCE),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_offered_option_counts_as_approval() {
        let update: Result<PermissionUpdate, _> = serde_json::from_value(json!({
            "type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "cargo test:*"}],
            "behavior": "allow", "destination": "localSettings"}));
        let updates: Vec<PermissionUpdate> = update.into_iter().collect();
        assert_eq!(
            updates.iter().map(lasting_name).collect::<Vec<_>>(),
            ["Always: `Bash(cargo test:*)`, local settings"]
        );
        let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
        for (answer, allowed) in [
            (Ok(selected("allow-once")), true),
            (Ok(selected("allow-always-0")), true),
            (Ok(selected("allow-always-1")), false),
            (Ok(selected("allow-always-")), false),
            (Ok(selected("reject-once")), false),
            (Ok(selected("yes")), false),
            (Ok(json!({"outcome": {"outcome": "cancelled", "optionId": "allow-once"}})), false),
            (Ok(json!({"outcome": "allow-once"})), false),
            (Ok(Value::Null), false),
            (Err(AcpError::internal("no")), false),
        ] {
            let read = read_permission(answer.clone(), &updates);
            let yes = matches!(read, QuestionAnswer::Permission(PermissionAnswer::Allow { .. }));
            assert_eq!(yes, allowed, "{answer:?}");
        }
    }
}
