//! What must survive when a conversation is made shorter: not as prose of a
//! model that may forget, but as state.
//!
//! The names here are those of the public tools, which are protocol: what a
//! plan, a to-do list or a skill is, their inputs say.

use std::collections::BTreeMap;

use haft_runtime::Report;
use haft_tool::ErrorKind;
use haft_types::{ToolUse, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::repeats::Effect;

/// State that outlives every compaction and every restart.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Kept {
    /// What the person said last, word for word.
    pub last_words: String,
    /// The plan that was agreed to.
    pub plan: Option<String>,
    /// The to-do list, in order.
    pub todos: Vec<KeptItem>,
    /// Tasks by id.
    pub tasks: BTreeMap<String, KeptItem>,
    /// What was not allowed.
    pub denials: Vec<String>,
    /// Commands that still run, by id.
    pub running: BTreeMap<String, String>,
    /// Skills that were loaded, with their text.
    pub skills: BTreeMap<String, String>,
    /// Files that were changed, the last one last.
    pub files: Vec<String>,
    /// Compactions since something was last done.
    pub idle_compactions: u32,
}

/// Something to do.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct KeptItem {
    /// What.
    pub text: String,
    /// How far it is: `pending`, `in_progress`, `completed`, …
    pub status: String,
}

/// Longest list of one kind; the newest stay.
const MOST: usize = 40;

/// Characters of one skill, and of all together.
const SKILL: usize = 20_000;
const SKILLS: usize = 100_000;

impl Kept {
    /// Takes in what a call did.
    pub(crate) fn see(&mut self, call: &ToolUse, report: &Report, effect: Effect) {
        if matches!(report.error, Some(ErrorKind::Denied | ErrorKind::GateFailed)) {
            let input = text::one_line(&call.input.to_string(), 200);
            push(&mut self.denials, format!("{} {input}", report.name));
        }
        if report.error.is_some() {
            return;
        }
        if effect == Effect::Acted {
            self.idle_compactions = 0;
        }
        let field = |name: &str| call.input[name].as_str().map(str::to_owned);
        match report.name.as_str() {
            "ExitPlanMode" => self.plan = field("plan").or(self.plan.take()),
            "TodoWrite" => self.todos = items(&call.input["todos"]),
            "TaskCreate" | "TaskUpdate" => self.see_task(call, report),
            "Skill" => {
                if let Some(name) = field("skill").or_else(|| field("command")) {
                    self.skills.insert(name, text::head(&report.content.to_text(), SKILL).to_owned());
                }
            }
            "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => {
                if let Some(path) = field("file_path").or_else(|| field("notebook_path")) {
                    push(&mut self.files, path);
                }
            }
            _ => self.see_background(call, report),
        }
    }

    fn see_task(&mut self, call: &ToolUse, report: &Report) {
        let data = report.data.as_ref().unwrap_or(&Value::Null);
        let candidates = [&call.input["taskId"], &call.input["task_id"], &data["task"]["id"], &data["id"]];
        let Some(id) = candidates.into_iter().find_map(plain) else { return };
        let item = self.tasks.entry(id).or_default();
        let subject = [&call.input["subject"], &call.input["description"]].into_iter().find_map(plain);
        if let Some(subject) = subject {
            item.text = subject;
        }
        item.status = plain(&call.input["status"]).unwrap_or_else(|| String::from("pending"));
    }

    fn see_background(&mut self, call: &ToolUse, report: &Report) {
        let data = report.data.as_ref().unwrap_or(&Value::Null);
        let started = [&data["background_task_id"], &data["backgroundTaskId"]].into_iter().find_map(plain);
        if let Some(id) = started {
            let what = plain(&call.input["command"]).unwrap_or_else(|| call.input.to_string());
            self.running.insert(id, text::one_line(&what, 200));
            return;
        }
        let asked = [&call.input["task_id"], &call.input["bash_id"], &call.input["shell_id"]];
        let Some(id) = asked.into_iter().find_map(plain) else { return };
        let status = plain(&data["status"]).unwrap_or_default();
        if matches!(report.name.as_str(), "TaskStop") || !matches!(status.as_str(), "" | "running") {
            self.running.remove(&id);
        }
    }

    /// The state as the next request holds it; `None` when there is none.
    pub(crate) fn text(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(plan) = &self.plan {
            parts.push(format!("## Plan (DECIDED: carry it out, do not plan again)\n{plan}"));
        }
        let open = |items: Vec<&KeptItem>| items.iter().map(|it| line_of(it)).collect::<Vec<_>>().join("\n");
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
        (!parts.is_empty()).then(|| format!("# State that still holds\n\n{}", parts.join("\n\n")))
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn items(todos: &Value) -> Vec<KeptItem> {
    let list = todos.as_array().into_iter().flatten();
    list.filter_map(|it| {
        let status = plain(&it["status"]).unwrap_or_else(|| String::from("pending"));
        Some(KeptItem { text: plain(&it["content"])?, status })
    })
    .collect()
}

fn line_of(item: &KeptItem) -> String {
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

/// Adds to a list of different things, the newest last.
fn push(list: &mut Vec<String>, line: String) {
    list.retain(|known| *known != line);
    list.push(line);
    let over = list.len().saturating_sub(MOST);
    list.drain(..over);
}
