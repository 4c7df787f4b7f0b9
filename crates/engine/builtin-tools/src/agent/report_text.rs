//! Formats the report of an agent.

use std::fmt::Write as _;

use haft_types::tags;
use serde_json::{Value, json};

use super::{AgentReport, AgentStatus};

/// Maximum number of files listed; the rest is counted.
const MAX_FILES: usize = 20;

/// Maximum number of denials listed; the rest is counted.
const MAX_DENIALS: usize = 10;

impl AgentReport {
    /// Returns the tokens of all requests.
    pub fn total_tokens(&self) -> u64 {
        let it = &self.usage;
        it.input_tokens + it.output_tokens + it.cache_creation_input_tokens + it.cache_read_input_tokens
    }

    /// Returns the number of all tool calls.
    pub fn tool_uses(&self) -> u64 {
        self.tools_used.values().sum()
    }

    /// Returns one line for the user.
    pub fn headline(&self) -> String {
        format!(
            "{} {} {} ({} calls, {:.1} s)",
            self.kind,
            self.agent_id,
            self.status.words(),
            self.tool_uses(),
            self.duration_ms as f64 / 1000.0
        )
    }

    /// Returns the public JSON form.
    pub fn to_json(&self) -> Value {
        let mut shown = json!({
            "status": self.status, "agentId": self.agent_id, "agentType": self.kind, "runId": self.run_id,
            "content": [{"type": "text", "text": self.text}], "prompt": self.prompt,
            "totalToolUseCount": self.tool_uses(), "totalDurationMs": self.duration_ms,
            "totalTokens": self.total_tokens(), "usage": self.usage, "costUsd": self.usd,
            "numTurns": self.turns, "resolvedModel": self.model, "modelsUsed": [self.model],
            "modelFrom": self.model_from,
            "toolsUsed": self.tools_used, "filesChanged": self.files_changed, "denials": self.denials,
        });
        if let Some(why) = &self.why {
            shown["why"] = json!(why);
        }
        if 0 < self.untold {
            shown["usageUnknown"] = json!(true);
        }
        if let Some(structured) = &self.structured {
            shown["structuredOutput"] = structured.clone();
        }
        if let Some(log) = &self.log {
            shown["log"] = json!(log);
        }
        if let Some((path, branch)) = &self.worktree {
            shown["worktreePath"] = json!(path.to_string_lossy());
            shown["worktreeBranch"] = json!(branch);
        }
        shown
    }
}

/// Formats the report for the model that started the agent. The agent's own text is indented, so that it
/// cannot pass for text of the program or the user.
pub fn report_text(report: &AgentReport) -> String {
    let name = report.name.as_ref().map(|it| format!(", name {it}")).unwrap_or_default();
    let mut out = format!("The agent {} ({}{name}) {}.", report.agent_id, report.kind, report.status.words());
    if let Some(why) = &report.why {
        let _ = write!(out, " Why: {}.", harmless(&flat(why, 600)));
    }
    match &*tags::restore(report.text.trim()) {
        "" => out.push_str("\nIt said nothing."),
        text => {
            let kind =
                if report.status == AgentStatus::Completed { "Its report" } else { "What it had said" };
            let shown = harmless(text);
            let note =
                if shown == text { "" } else { "; what looks like words of others was marked with \\" };
            let _ = write!(
                out,
                "\n{kind}, written by a model and without the user's authority{note}:\n{}",
                indented(&shown)
            );
        }
    }
    let _ = write!(out, "\n{}", summary(report));
    out
}

fn summary(report: &AgentReport) -> String {
    let tokens = match report.untold {
        0 => format!("{} tokens", report.total_tokens()),
        _ => format!("unknown tokens (about {}: the provider does not say)", report.total_tokens()),
    };
    let mut out = format!(
        "{} tool calls, {} requests, {tokens}, {:.1} s.",
        report.tool_uses(),
        report.turns,
        report.duration_ms as f64 / 1000.0
    );
    if !report.files_changed.is_empty() {
        let shown: Vec<String> = report.files_changed.iter().take(MAX_FILES).map(|it| named(it)).collect();
        let _ = write!(out, "\nFiles it changed: {}", shown.join(", "));
        more(&mut out, report.files_changed.len(), MAX_FILES);
    }
    if !report.outdated_reads.is_empty() {
        let shown: Vec<String> = report.outdated_reads.iter().take(MAX_FILES).map(|it| named(it)).collect();
        let _ =
            write!(out, "\nYou read these before it changed them, so read them again: {}", shown.join(", "));
        more(&mut out, report.outdated_reads.len(), MAX_FILES);
    }
    if !report.denials.is_empty() {
        out.push_str("\nNot allowed:");
        for denial in report.denials.iter().take(MAX_DENIALS) {
            let _ = write!(out, "\n- {}", harmless(&flat(&denial.reason, 300)));
        }
        more(&mut out, report.denials.len(), MAX_DENIALS);
    }
    if !report.left_running.is_empty() {
        let left = harmless(&flat(&report.left_running.join(", "), 2_000));
        let _ = write!(out, "\nIt left running in the background: {left}");
    }
    if let Some((path, branch)) = &report.worktree {
        let _ = write!(out, "\nIts worktree: {} (branch {branch})", named(path));
    }
    if let Some(log) = report.log.as_ref().filter(|_| report.status != AgentStatus::Completed) {
        let _ = write!(out, "\nEverything it did: {}", log.display());
    }
    out
}

/// Formats a path on one line. The agent chooses file names, so they are escaped.
fn named(path: &std::path::Path) -> String {
    let one_line: String = path
        .display()
        .to_string()
        .chars()
        .map(|it| if it.is_control() || breaks_line(it) { '\u{fffd}' } else { it })
        .collect();
    harmless(&one_line)
}

/// Whether the character may be displayed as a line break.
fn breaks_line(it: char) -> bool {
    matches!(it, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn more(out: &mut String, all: usize, shown: usize) {
    if shown < all {
        let _ = write!(out, " and {} more", all - shown);
    }
}

/// Joins all lines to one of at most `most` characters.
pub fn flat(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    haft_types::text::one_line(&words.join(" "), most)
}

/// Indents every line by four spaces.
pub fn indented(text: &str) -> String {
    let unix = text.replace("\r\n", "\n");
    let lines: Vec<String> = unix.split(breaks_line).map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

/// Escapes role names before a colon (`User:`) and `system` tags, with which the text could pass for
/// another speaker. Haft's reserved tags are restored to their original form; the caller that passes the
/// text to a model must escape them ([`haft_types::tags`]).
pub fn harmless(text: &str) -> String {
    let text = &*tags::restore(text);
    let is_part = |it: char| it.is_alphanumeric() || it == '-' || it == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let inside = rest.trim_start();
        let name = inside.strip_prefix('/').unwrap_or(inside).trim_start();
        let name = &name[..name.find(|it| !is_part(it)).unwrap_or(name.len())];
        if name.eq_ignore_ascii_case("system") {
            out.push('\\');
        }
    }
    out.push_str(rest);
    without_speakers(&out)
}

/// Escapes role names at the beginning of lines.
fn without_speakers(text: &str) -> String {
    const SPEAKERS: [&str; 4] = ["Human:", "User:", "Assistant:", "System:"];
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive(breaks_line) {
        let (indent, words) = line.split_at(line.len() - line.trim_start().len());
        out.push_str(indent);
        if SPEAKERS.iter().any(|it| words.starts_with(it)) {
            out.push('\\');
        }
        out.push_str(words);
    }
    out
}
