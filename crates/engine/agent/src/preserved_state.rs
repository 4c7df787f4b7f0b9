//! State that must survive compaction: kept as data, not as text of a model that may forget it. Tools
//! report it as [`CallEffect`]s, independent of the tool.

use std::collections::BTreeMap;

use haft_tool::{CallEffect, ContextChange, ErrorKind, WorkItem};
use haft_tool_runtime::CallReport;
use haft_types::{ToolUse, text};
use serde::{Deserialize, Serialize};

use crate::repetition_guard::RepetitionEffect;

/// State that survives every compaction and restart.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PreservedState {
    /// The user's last message, verbatim.
    pub last_words: String,
    /// The approved plan.
    pub plan: Option<String>,
    pub todos: Vec<PreservedItem>,
    /// Tasks, by id.
    pub tasks: BTreeMap<String, PreservedItem>,
    /// Calls that were denied.
    pub denials: Vec<String>,
    /// Running background commands, by id.
    pub running: BTreeMap<String, String>,
    /// Loaded skills with their text, by name.
    pub skills: BTreeMap<String, String>,
    /// Changed files, the latest last.
    pub files: Vec<String>,
    /// Number of compactions since the last activity.
    pub idle_compactions: u32,
}

/// An item of a to-do list.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PreservedItem {
    pub text: String,
    /// Status: `pending`, `in_progress`, `completed`, …
    pub status: String,
}

/// Maximum length of each list; the newest entries are kept.
const MOST: usize = 40;

/// Maximum characters of one skill, and of all skills together.
const SKILL: usize = 20_000;
const SKILLS: usize = 100_000;

impl PreservedState {
    /// Updates the state from a finished call.
    pub(crate) fn see(&mut self, call: &ToolUse, report: &CallReport, effect: RepetitionEffect) {
        if matches!(report.error, Some(ErrorKind::Denied | ErrorKind::GateFailed)) {
            let input = text::one_line(&call.input.to_string(), 200);
            push(&mut self.denials, format!("{} {input}", report.name));
        }
        if report.error.is_some() {
            return;
        }
        if effect == RepetitionEffect::Acted {
            self.idle_compactions = 0;
        }
        for change in &report.changes {
            if let ContextChange::Trace(trace) = change {
                self.follow(trace);
            }
        }
    }

    /// Updates the state from a call's effect.
    fn follow(&mut self, trace: &CallEffect) {
        match trace {
            CallEffect::Plan(plan) => self.plan = Some(plan.clone()),
            CallEffect::Todos(items) => {
                let item = |it: &WorkItem| PreservedItem { text: it.text.clone(), status: it.status.clone() };
                self.todos = items.iter().map(item).collect();
            }
            CallEffect::Task { id, text, status } => {
                let item = self.tasks.entry(id.clone()).or_default();
                item.text = text.clone().unwrap_or_else(|| std::mem::take(&mut item.text));
                item.status.clone_from(status);
            }
            CallEffect::FileChanged(path) => push(&mut self.files, path.display().to_string()),
            CallEffect::BackgroundStarted { id, command } => {
                self.running.insert(id.clone(), text::one_line(command, 200));
            }
            CallEffect::BackgroundEnded(id) => {
                self.running.remove(id);
            }
            CallEffect::SkillLoaded { name, text } => {
                self.skills.insert(name.clone(), text::head(text, SKILL).to_owned());
            }
        }
    }

    /// The state as text for the next request, at most `most` characters long; `None` if it is empty.
    pub(crate) fn text(&self, most: usize) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(plan) = &self.plan {
            parts.push(format!("## Plan (DECIDED: carry it out, do not plan again)\n{plan}"));
        }
        let open =
            |items: Vec<&PreservedItem>| items.iter().map(|it| line_of(it)).collect::<Vec<_>>().join("\n");
        if !self.todos.is_empty() {
            parts.push(format!("## To do\n{}", open(self.todos.iter().collect())));
        }
        if !self.tasks.is_empty() {
            let lines: Vec<String> =
                self.tasks.iter().map(|(id, item)| format!("{} (task {id})", line_of(item))).collect();
            parts.push(format!("## Tasks\n{}", lines.join("\n")));
        }
        if !self.denials.is_empty() {
            parts
                .push(format!("## Was not allowed (do not try again unless asked)\n{}", list(&self.denials)));
        }
        if !self.running.is_empty() {
            let lines: Vec<String> = self.running.iter().map(|(id, what)| format!("{id}: {what}")).collect();
            parts.push(format!("## Still running\n{}", list(&lines)));
        }
        if !self.files.is_empty() {
            parts.push(format!("## Files you changed\n{}", list(&self.files)));
        }
        let mut room = SKILLS;
        for (name, body) in &self.skills {
            let body = text::head(body, room);
            room = room.saturating_sub(body.len());
            parts.push(format!("## Skill {name} (loaded)\n{body}"));
        }
        if 2 <= self.idle_compactions {
            parts.push(format!(
                "## Notice\nThe conversation was shortened {} times without anything being done. Do not plan again: do the next step now, or say what keeps you from it.",
                self.idle_compactions
            ));
        }
        (!parts.is_empty()).then(|| {
            let whole = format!("# State that still holds\n\n{}", parts.join("\n\n"));
            text::head(&whole, most).to_owned()
        })
    }
}

fn line_of(item: &PreservedItem) -> String {
    let mark = match item.status.as_str() {
        "completed" => "[x]",
        "in_progress" => "[>]",
        _ => "[ ]",
    };
    format!("{mark} {}", text::one_line(&item.text, 300))
}

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
}

/// Adds a unique entry to a list, at its end.
fn push(list: &mut Vec<String>, line: String) {
    list.retain(|known| *known != line);
    list.push(line);
    let over = list.len().saturating_sub(MOST);
    list.drain(..over);
}
