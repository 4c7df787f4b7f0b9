//! `haft sessions`: lists, shows and exports the sessions of this directory.

pub(crate) mod agent_tree;

use std::{process::ExitCode, time::SystemTime};

use haft_agent::log::{self, CallFinishedLine, LogEntry, LogState, session_list};
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_error, print_line},
    style::{clean, colours, painted},
};
use haft_session::SessionLogs;
use haft_types::{MessageBlock, Role, text};
use serde_json::json;

use crate::{args::SessionsCommand, run::session_spec};

pub(crate) fn run(command: Option<SessionsCommand>, options: &GlobalArgs) -> CommandExit {
    let logs = session_spec::logs(options)?;
    match command.unwrap_or(SessionsCommand::List) {
        SessionsCommand::List => list(&logs, options),
        SessionsCommand::Show { id } => show(&logs, &id, options),
        SessionsCommand::Search { text } => search(&logs, &text, options),
        SessionsCommand::Title { id, title } => {
            let id = resolve(&logs, &id)?;
            let path = logs.path(&id);
            session_list::rename(&path, &id, title.trim())
                .map_err(|err| format!("{}: {err}", path.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        SessionsCommand::Path { id } => {
            let id = resolve(&logs, &id)?;
            print_line(&logs.path(&id).display().to_string())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn all(logs: &SessionLogs) -> Result<Vec<session_list::SessionInfo>, CliError> {
    let dir = logs.dir();
    Ok(session_list::list(&dir).map_err(|err| format!("{}: {err}", dir.display()))?)
}

/// Resolves a session id: the named session (see [`resolve`]), or the newest one, including those
/// started by Agent SDKs.
pub(crate) fn resolve_session(logs: &SessionLogs, named: Option<&str>) -> Result<String, CliError> {
    let mut everywhere = Vec::new();
    for dir in logs.dirs() {
        everywhere.extend(session_list::list(dir).map_err(|err| format!("{}: {err}", dir.display()))?);
    }
    match named {
        Some(start) => only_one(everywhere, start),
        None => {
            let newest = everywhere.into_iter().max_by_key(|it| it.modified).map(|it| it.id);
            newest.ok_or_else(|| CliError::Message(String::from("there is no session of this directory yet")))
        }
    }
}

/// The session with this id prefix or title. Fails if none or several match.
fn resolve(logs: &SessionLogs, start: &str) -> Result<String, CliError> {
    only_one(all(logs)?, start)
}

fn only_one(sessions: Vec<session_list::SessionInfo>, start: &str) -> Result<String, CliError> {
    if let Some(exact) = sessions.iter().find(|it| it.id == start) {
        return Ok(exact.id.clone());
    }
    let is_called = |it: &session_list::SessionInfo| it.title.trim().eq_ignore_ascii_case(start.trim());
    let by_id = |it: &session_list::SessionInfo| !start.is_empty() && it.id.starts_with(start);
    let called: Vec<&str> = sessions.iter().filter(|it| is_called(it)).map(|it| it.id.as_str()).collect();
    let begun = sessions.iter().filter(|it| by_id(it)).map(|it| it.id.as_str()).collect();
    match if called.is_empty() { begun } else { called }.as_slice() {
        [id] => Ok((*id).to_owned()),
        [] => {
            let why = format!("no session of this directory begins with {start} or is called that");
            Err(CliError::Message(why))
        }
        many => {
            let short: Vec<String> = many.iter().map(|id| id.chars().take(8).collect()).collect();
            Err(CliError::Message(format!("{start} could be {}; write more of it", short.join(", "))))
        }
    }
}

fn list(logs: &SessionLogs, options: &GlobalArgs) -> CommandExit {
    let found = all(logs)?;
    if found.is_empty() {
        print_error("there is no session of this directory yet");
    }
    for it in found {
        let line = if options.json {
            let modified = it.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            json!({"id": it.id, "title": it.title, "bytes": it.size, "modified": modified.as_secs(), "path": it.path.to_string_lossy()})
                .to_string()
        } else {
            let id: String = it.id.chars().take(8).collect();
            let about = format!("{:>9}  {:>8}", ago(it.modified), bytes(it.size));
            format!(
                "{}  {}  {}",
                painted(&id, "36", colours()),
                painted(&about, "2", colours()),
                clean(&it.title)
            )
        };
        print_line(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(logs: &SessionLogs, id: &str, options: &GlobalArgs) -> CommandExit {
    let path = logs.path(&resolve(logs, id)?);
    let mut ended = Ok(());
    let read = log::read(&path, |entry| {
        if ended.is_ok() {
            ended = show_entry(&entry, options);
        }
    });
    let report = read.map_err(|err| format!("{}: {err}", path.display()))?;
    ended?;
    agent_tree::show(&path, options)?;
    if 0 < report.unreadable {
        print_error(&format!("{} lines of the log cannot be read and were left out", report.unreadable));
    }
    Ok(ExitCode::SUCCESS)
}

fn show_entry(entry: &LogEntry, options: &GlobalArgs) -> Result<(), CliError> {
    if options.json {
        let line = serde_json::to_string(entry).map_err(|err| CliError::Message(err.to_string()))?;
        return print_line(&line);
    }
    let line = match entry {
        LogEntry::User(line) | LogEntry::Assistant(line) => line,
        LogEntry::Haft(LogState::Call(call)) => return shown_call(call).map_or(Ok(()), |it| print_line(&it)),
        _ => return Ok(()),
    };
    let role = line.message.message.role;
    if colours() {
        return show_drawn(&line.message.message);
    }
    for block in &line.message.message.content {
        let shown = match block {
            MessageBlock::Text { text } if role == Role::User => {
                format!("\n{} {}", painted("›", "36;1", colours()), painted(&clean(text), "1", colours()))
            }
            MessageBlock::Text { text } => format!("\n{}", clean(text)),
            MessageBlock::ToolUse(call) => {
                let input = text::one_line(&call.input.to_string(), 120);
                format!(
                    "  {} {}",
                    painted(&call.name, "1", colours()),
                    painted(&clean(&input), "2", colours())
                )
            }
            MessageBlock::ToolResult { content, is_error, .. } => {
                let (mark, paint) = if *is_error { ("✗", "31") } else { ("✓", "32") };
                let first = text::one_line(&content.to_text(), 120);
                format!("  {} {}", painted(mark, paint, colours()), painted(&clean(&first), "2", colours()))
            }
            _ => continue,
        };
        print_line(&shown)?;
    }
    Ok(())
}

/// Prints a message with the styles of the interactive terminal.
fn show_drawn(message: &haft_types::Message) -> Result<(), CliError> {
    let printer = haft_console::style::printer();
    for block in &message.content {
        let shown = match block {
            MessageBlock::Text { text } if message.role == Role::User => {
                format!("\n{}", printer.prompt(text))
            }
            MessageBlock::Text { text } => format!("\n{}", printer.markdown(text)),
            MessageBlock::ToolUse(call) => {
                let input = text::one_line(&call.input.to_string(), 120);
                printer.notice(&format!("{} {input}", call.name))
            }
            MessageBlock::ToolResult { content, is_error, .. } => {
                let (name, failed) = (text::one_line(&content.to_text(), 120), *is_error);
                let (id, headline) = (String::new(), String::new());
                let rendered =
                    haft_tool::Rendered { headline: String::new(), lines: Vec::new(), ..Default::default() };
                let call =
                    haft_tui::FinishedCall { id, agent: None, name, headline, failed, rendered, whole: None };
                printer.call(&call, 0)
            }
            _ => continue,
        };
        haft_console::stdout::print_bytes(shown.as_bytes())?;
    }
    Ok(())
}

/// What is notable about a call: prompts, denials, and phases that took a second or longer. `None` if
/// nothing is.
fn shown_call(call: &CallFinishedLine) -> Option<String> {
    const LONG: u64 = 1_000_000;
    let seconds = |micros: u64| format!("{:.1} s", std::time::Duration::from_micros(micros).as_secs_f64());
    let times = [
        ("waited", call.micros.queue),
        ("hooks", call.micros.hooks),
        ("permission", call.micros.permission),
        ("ran", call.micros.run),
        ("afterwards", call.micros.after),
    ];
    let mut parts: Vec<String> = Vec::new();
    let decision = call.decision.as_ref();
    parts.extend(call.denied_by.as_ref().map(|by| format!("denied by {by}")));
    parts.extend(decision.and_then(|it| it.rule.as_ref()).map(|rule| format!("rule {rule}")));
    parts.extend(decision.and_then(|it| it.asked).map(|asked| asked.words()));
    parts.extend(
        times.iter().filter(|it| LONG <= it.1).map(|(what, micros)| format!("{what} {}", seconds(*micros))),
    );
    (!parts.is_empty()).then(|| painted(&clean(&format!("    {}", parts.join(", "))), "2", colours()))
}

fn search(logs: &SessionLogs, wanted: &str, options: &GlobalArgs) -> CommandExit {
    /// Maximum number of matches printed per session.
    const MOST: usize = 5;
    let mut nothing = true;
    for it in all(logs)? {
        let found = session_list::search(&it.path, wanted, MOST)
            .map_err(|err| format!("{}: {err}", it.path.display()))?;
        if found.is_empty() {
            continue;
        }
        nothing = false;
        if !options.json {
            let id: String = it.id.chars().take(8).collect();
            print_line(&format!(
                "{}  {}",
                painted(&id, "36", colours()),
                painted(&clean(&it.title), "1", colours())
            ))?;
        }
        for place in found {
            let who = if place.role == Role::User { "user" } else { "assistant" };
            print_line(&if options.json {
                json!({"id": it.id, "role": who, "excerpt": place.excerpt}).to_string()
            } else {
                format!("    {}", clean(&place.excerpt))
            })?;
        }
    }
    if nothing {
        print_error(&format!("no session of this directory holds {wanted:?}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn ago(then: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..60 => String::from("just now"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

fn bytes(size: u64) -> String {
    match size {
        0..1_000 => format!("{size} B"),
        1_000..1_000_000 => format!("{} kB", size / 1_000),
        _ => format!("{} MB", size / 1_000_000),
    }
}
