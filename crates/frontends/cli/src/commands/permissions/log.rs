//! `haft permissions log`: prints the permission decisions of a session.

use std::{collections::HashMap, process::ExitCode};

use haft_agent::log::{self, CallFinishedLine, LogEntry, LogState};
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_error, print_line},
    style::{clean, colours, painted},
};
use haft_types::{MessageBlock, text};
use serde_json::json;

use crate::{commands::sessions::resolve_session, run::session_spec};

pub(super) fn run(session: Option<&str>, options: &GlobalArgs) -> CommandExit {
    let logs = session_spec::logs(options)?;
    let path = logs.path(&resolve_session(&logs, session)?);
    let mut inputs: HashMap<String, String> = HashMap::new();
    let (mut ended, mut judged): (Result<(), CliError>, usize) = (Ok(()), 0);
    let read = log::read(&path, |entry| match entry {
        LogEntry::Assistant(line) => {
            for block in &line.message.message.content {
                if let MessageBlock::ToolUse(call) = block {
                    inputs.insert(call.id.to_string(), call.input.to_string());
                }
            }
        }
        LogEntry::Haft(LogState::Call(call)) if ended.is_ok() => {
            let input = inputs.remove(&call.call.to_string()).unwrap_or_default();
            judged += usize::from(call.decision.is_some());
            ended = show(&call, &input, options);
        }
        _ => (),
    });
    read.map_err(|err| format!("{}: {err}", path.display()))?;
    ended?;
    if judged == 0 && !options.json {
        print_error("no call was judged in this session; `haft sessions` lists others");
    }
    Ok(ExitCode::SUCCESS)
}

fn show(call: &CallFinishedLine, input: &str, options: &GlobalArgs) -> Result<(), CliError> {
    let Some(decision) = &call.decision else { return Ok(()) };
    let ran = call.denied_by.is_none();
    if options.json {
        let line = json!({
            "timestamp": call.timestamp, "tool": call.tool, "agent": call.agent, "input": input,
            "decision": decision, "ran": ran, "denied_by": call.denied_by,
        });
        return print_line(&line.to_string());
    }
    let (mark, paint) = if ran { ("allow", "32") } else { ("deny ", "31") };
    let why = match (&decision.rule, decision.reason.as_str()) {
        (Some(rule), _) => format!("rule {rule}"),
        (None, "") => decision.source.clone(),
        (None, reason) => reason.to_owned(),
    };
    let asked = decision.asked.map(|it| format!(", {}", it.words())).unwrap_or_default();
    let what = text::one_line(&format!("{} {input}", call.tool), 100);
    print_line(&format!(
        "{}  {}  {}\n       {}",
        painted(&clean(&call.timestamp), "2", colours()),
        painted(mark, paint, colours()),
        clean(&what),
        painted(&clean(&format!("{why}{asked}")), "2", colours())
    ))
}
