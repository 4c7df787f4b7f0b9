//! Permission prompts at the terminal.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    sync::Arc,
};

use haft_permission::{Behavior, PermissionUpdate};
use haft_tool::{LineStyle, Rendered};
use haft_tool_runtime::{PermissionAnswer, PermissionQuestion};

use crate::style::{clean, painted};

/// Whether the process has a controlling terminal.
pub fn is_there() -> bool {
    OpenOptions::new().read(true).write(true).open("/dev/tty").is_ok()
}

/// Shows a permission prompt on the controlling terminal and reads the answer there, so that standard
/// input and output stay free for data. `asker` names the sub-agent that makes the call. Runs on a
/// blocking thread.
pub async fn ask_permission(question: Arc<PermissionQuestion>, asker: Option<String>) -> PermissionAnswer {
    let text = question_text(&question, asker.as_deref());
    let updates = question.decision.suggestions.clone();
    let may_always = !updates.is_empty();
    match tokio::task::spawn_blocking(move || ask(&text, may_always)).await {
        Ok(Ok(ConsoleReply::Yes)) => PermissionAnswer::allow(),
        Ok(Ok(ConsoleReply::Always)) => PermissionAnswer::allow_and_keep(updates),
        Ok(Ok(ConsoleReply::No)) => PermissionAnswer::deny("the user said no"),
        Ok(Err(_)) | Err(_) => PermissionAnswer::unavailable("the question could not be asked"),
    }
}

enum ConsoleReply {
    Yes,
    Always,
    No,
}

/// The text of the prompt: the call, what it would do part by part, and the rule that "always" would
/// add.
fn question_text(question: &PermissionQuestion, asker: Option<&str>) -> String {
    let (what, effects) = match question.description.strip_suffix(']').and_then(|it| it.rsplit_once(" [")) {
        Some((what, effects)) if question.tool == "Bash" => (what, effects.split("; ").collect()),
        _ => (question.description.as_str(), Vec::new()),
    };
    let decision = &question.decision;
    let mut text =
        format!("\n{} {}\n", painted(&question.tool, "36", true), painted(&clean(what), "1", true));
    if let Some(asker) = asker {
        text.push_str(&format!("  asked by the agent {}\n", clean(asker)));
    }
    for effect in effects {
        let paint = if effect.starts_with("removes") { "31" } else { "33" };
        text.push_str(&format!("  {}\n", painted(&clean(effect), paint, true)));
    }
    if let Some(words) = question.warning() {
        text.push_str(&format!("  {}\n", painted(words, "31;1", true)));
    }
    for (line, paint) in change_lines(&question.shown) {
        text.push_str(&format!("  {}\n", painted(&clean(&line), paint, true)));
    }
    let (shown, hidden) = decision.parts.split_at(decision.parts.len().min(MAX_PARTS));
    for part in shown {
        let line = format!("{} {}: {}", mark(part.decision), clean(&part.subject), clean(&part.reason));
        let paint = if part.decision == Behavior::Allow { "2" } else { "" };
        text.push_str(&format!("  {}\n", painted(&line, paint, true)));
    }
    if !hidden.is_empty() {
        text.push_str(&format!("  and {} more parts\n", hidden.len()));
    }
    if decision.parts.iter().all(|part| part.reason != decision.reason) {
        text.push_str(&format!("  {}\n", clean(&decision.reason)));
    }
    for note in &decision.notes {
        text.push_str(&format!("  {}\n", painted(&clean(note), "2", true)));
    }
    for update in &decision.suggestions {
        text.push_str(&format!("  {} {}\n", painted("always would", "2", true), clean(&lasting(update))));
    }
    text
}

/// Maximum lines shown of a change.
const MAX_LINES: usize = 40;

/// The diff of a call as lines with their SGR colours.
fn change_lines(shown: &Rendered) -> Vec<(String, &'static str)> {
    let paint = |style| match style {
        LineStyle::Added => "32",
        LineStyle::Removed | LineStyle::Error => "31",
        LineStyle::Hunk => "36",
        LineStyle::Dim => "2",
        LineStyle::Plain => "",
    };
    let mut lines: Vec<(String, &'static str)> =
        shown.lines.iter().take(MAX_LINES).map(|line| (line.text.clone(), paint(line.style))).collect();
    if let Some(more) = shown.lines.len().checked_sub(MAX_LINES).filter(|it| 0 < *it) {
        lines.push((format!("… {more} more lines"), "2"));
    }
    lines
}

/// Maximum parts shown of a command line.
const MAX_PARTS: usize = 12;

/// Describes what "always" changes, and for how long.
fn lasting(update: &PermissionUpdate) -> String {
    let until = if update.destination().persists() { "in the settings" } else { "until the session ends" };
    match update {
        PermissionUpdate::AddRules(list) => {
            let rules: Vec<String> = list.rules.iter().map(|rule| rule.text()).collect();
            format!("allow {} {until}", rules.join(", "))
        }
        PermissionUpdate::SetMode { mode, .. } => format!("switch to {mode} {until}"),
        _ => format!("change the rules {until}"),
    }
}

fn mark(behavior: Behavior) -> &'static str {
    match behavior {
        Behavior::Allow => "✓",
        Behavior::Ask => "?",
        Behavior::Deny => "✗",
    }
}

fn ask(text: &str, always: bool) -> std::io::Result<ConsoleReply> {
    let mut terminal: File = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let choices = if always { "[y]es, [n]o, [a]lways" } else { "[y]es, [n]o" };
    write!(terminal, "{text}Run it? {choices}: ")?;
    terminal.flush()?;
    let mut line = String::new();
    BufReader::new(terminal).read_line(&mut line)?;
    Ok(match line.trim().to_lowercase().as_str() {
        "y" | "yes" => ConsoleReply::Yes,
        "a" | "always" if always => ConsoleReply::Always,
        _ => ConsoleReply::No,
    })
}
