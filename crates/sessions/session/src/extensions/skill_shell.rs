//! Commands in the text of a skill, which are replaced by their output.

use haft_permission::HookOpinion;
use haft_tool::{CallContext, Tool as _};
use haft_tool_runtime::CallSession;
use haft_types::ToolUse;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::arguments::FilledPart;

/// The tool that runs them, with its rules, sandbox and hooks.
const SHELL: &str = haft_builtin_tools::bash::Bash::NAME;

/// Handling of commands in texts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ShellParts {
    /// They are run.
    Run,
    /// They are kept, with a note that they were not run.
    Stay,
}

/// Expands the text, running every command as a call of the agent that `calls` belongs to. Fails if a
/// command would prompt, is denied or fails: a partial text could mean something else.
pub(super) async fn whole_text(
    parts: Vec<FilledPart>,
    calls: &mut CallSession,
    shell: ShellParts,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let mut text = String::new();
    for part in parts {
        match part {
            FilledPart::Text(part) => text.push_str(&part),
            FilledPart::Command(command) if shell == ShellParts::Stay => {
                text.push_str(&format!("[not run, settings switch commands of skills off: {command}]"));
            }
            FilledPart::Command(command) => text.push_str(&printed(&command, calls, cancel).await?),
        }
    }
    Ok(text)
}

async fn printed(
    command: &str,
    calls: &mut CallSession,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let shown = haft_types::text::one_line(command, 200);
    let input = json!({"command": command, "description": "Command of a skill"});
    let pool = calls.pool.get();
    let tool = pool.get(SHELL).ok_or_else(|| format!("it runs `{shown}`, and there is no {SHELL} here"))?;
    let id = format!("skill_{}", uuid::Uuid::new_v4().simple());
    let mut cx = CallContext::detached(id.clone(), std::sync::Arc::clone(&calls.state.cwd));
    cx.home.clone_from(&calls.state.home);
    cx.agent_id = calls.agent_id.clone();
    let call = std::sync::Arc::clone(tool).parse(input.clone(), &cx).map_err(|err| err.message)?;
    let policy = calls.pipeline.gate.permissions().policy();
    if let Err(decision) = policy.judge(tool.name(), call.as_ref(), &cx, &HookOpinion::default()).permit() {
        return Err(format!(
            "it runs `{shown}`, which is not allowed without a question ({}); a rule {SHELL}({shown}) or its allowed-tools can say so",
            decision.reason
        ));
    }
    let call = ToolUse { id: id.into(), name: SHELL.to_owned(), input };
    let mut reports = calls.run_message(vec![call], cancel).await;
    let report = reports.pop().ok_or_else(|| format!("`{shown}` was not run"))?;
    let text = report.content.to_text();
    match report.error {
        None => Ok(text.trim_end().to_owned()),
        Some(_) => Err(format!("its command `{shown}` failed:\n{text}")),
    }
}
