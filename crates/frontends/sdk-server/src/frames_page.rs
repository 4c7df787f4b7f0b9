//! Documentation of the `--output-format stream-json` lines. Tests check that every frame is in this
//! table.

/// Type of a line (with its subtype for `system`), when it is sent, and its fields besides `type`,
/// `session_id` and `uuid`.
const FRAMES: &[(&str, &str, &str)] = &[
    (
        "system/init",
        "first of every turn",
        "cwd tools mcp_servers model permissionMode slash_commands agents skills plugins",
    ),
    (
        "assistant",
        "a block of an answer is complete: text, thinking or a call",
        "message parent_tool_use_id timestamp",
    ),
    (
        "user",
        "a call has its result, or something else was said to the model",
        "message parent_tool_use_id tool_use_result timestamp",
    ),
    (
        "result",
        "last of every turn",
        "subtype is_error result num_turns duration_ms usage modelUsage total_cost_usd permission_denials terminal_reason",
    ),
    (
        "stream_event",
        "a piece of an answer as it is written, with `--include-partial-messages`",
        "event parent_tool_use_id",
    ),
    (
        "tool_progress",
        "a call has been running for a while",
        "tool_use_id tool_name elapsed_time_seconds parent_tool_use_id",
    ),
    ("system/status", "what the session is busy with, or another permission mode", "status permissionMode"),
    (
        "system/permission_denied",
        "a call was denied, and neither a person nor a hook said so",
        "tool_name tool_use_id message decision_reason_type",
    ),
    ("system/informational", "something the person should know", "content level"),
    ("system/api_retry", "a request is sent again", "attempt max_retries retry_delay_ms error_status error"),
    ("system/compact_boundary", "everything before it was summed up", "compact_metadata"),
    (
        "system/hook_started",
        "a hook begins, with `--include-hook-events`; those of SessionStart always",
        "hook_id hook_name hook_event",
    ),
    (
        "system/hook_response",
        "a hook is done, for the same hooks",
        "hook_id hook_name hook_event stdout stderr exit_code outcome",
    ),
    (
        "system/task_started",
        "a command goes on in the background, or an agent begins",
        "task_id tool_use_id description task_type is_backgrounded",
    ),
    (
        "system/task_progress",
        "an agent is this far",
        "task_id tool_use_id description usage last_tool_name summary",
    ),
    ("system/task_updated", "something about a command or an agent changed", "task_id patch"),
    (
        "system/task_notification",
        "a command in the background or an agent has ended",
        "task_id tool_use_id status output_file summary",
    ),
    ("system/background_tasks_changed", "what works in the background now", "tasks"),
    ("system/session_title_changed", "the session has another name", "title"),
    (
        "system/session_state_changed",
        "idle, running, or waiting for somebody; for hosts that ask for it",
        "state",
    ),
    ("command_lifecycle", "what became of a prompt that its sender named", "command_uuid state"),
    ("conversation_reset", "the conversation begins anew, as another session", "new_conversation_id trigger"),
    ("transcript_mirror", "lines were written to the log, with `--session-mirror`", "filePath entries"),
    (
        "control_request",
        "the host is asked something: permission, a hook, a tool of its own; only with `--input-format stream-json`",
        "request_id request",
    ),
    ("control_cancel_request", "nobody waits for that answer any more", "request_id"),
    ("control_response", "an answer to a request of the host", "response"),
];

/// Whether the table contains this kind (`type`, or `system/subtype`).
pub(crate) fn is_known(kind: &str) -> bool {
    FRAMES.iter().any(|(known, ..)| *known == kind)
}

/// Generates the documentation page.
pub fn frames_page() -> String {
    let mut page = String::from(
        "# stream-json\n\nThe lines that `haft -p --output-format stream-json` prints and the Agent SDKs read: one JSON \
         object per line. Written by `cargo xtask docs`; do not edit.\n\n```json\n{\"type\": \"assistant\", \
         \"message\": {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"Done.\"}]}, \
         \"parent_tool_use_id\": null, \"session_id\": \"…\", \"uuid\": \"…\"}\n```\n\nEvery line has a `type`; lines \
         about the session have the type `system` and a `subtype` (written `system/…` here). Nearly all have a \
         `session_id` and a `uuid`. Empty fields are left out. Ignore fields and types you do not know: others may be \
         added. Exit codes and `outcome`: [exit codes](exit-codes.md).\n\n| line | when | fields |\n|---|---|---|\n",
    );
    for (kind, when, fields) in FRAMES {
        let fields: Vec<String> = fields.split(' ').map(|field| format!("`{field}`")).collect();
        page.push_str(&format!("| `{kind}` | {when} | {} |\n", fields.join(", ")));
    }
    page
}
