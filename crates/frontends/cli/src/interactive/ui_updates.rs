//! Translates session events into UI updates.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use haft_agent::{AgentEvent, EndReason, RetractedAnswer};
use haft_console::event_lines::end_line;
use haft_model::{Catalog, ModelEvent};
use haft_session::{CommandEnded, CommandResult, PromptAuthor, SessionEvent, SessionEventKind, TurnEnded};
use haft_tool::{CallEffect, ContextChange, ProgressEvent, Rendered};
use haft_tool_runtime::AnsweredCall;
use haft_tui::{FinishedCall, PagerText, PickerRow, StatusUpdate, TodoState, TurnPhase, UiUpdate};
use haft_types::{AgentId, MessageBlock, Usage, text};
use serde_json::Value;

use super::{expand_call::unfolded, status_line::StatusLineInput};

/// Translates events, and stores what later translations need.
pub(super) struct UpdateMapper {
    cwd: PathBuf,
    catalog: Option<Arc<Catalog>>,
    /// The model whose context window the meter shows.
    model: String,
    /// Headlines of running calls, by call id.
    headlines: HashMap<String, String>,
    changed: Vec<String>,
    /// Rows of background commands and sub-agents.
    commands: Vec<PickerRow>,
    children: Vec<PickerRow>,
    wants_bill: bool,
    wants_status: bool,
    facts: StatusLineInput,
}

impl UpdateMapper {
    pub(super) fn new(cwd: PathBuf) -> Self {
        Self {
            cwd,
            catalog: None,
            model: String::new(),
            headlines: HashMap::new(),
            changed: Vec::new(),
            commands: Vec::new(),
            children: Vec::new(),
            wants_bill: false,
            wants_status: true,
            facts: StatusLineInput::default(),
        }
    }

    pub(super) fn set_catalog(&mut self, catalog: Option<Arc<Catalog>>) {
        self.catalog = catalog;
    }

    /// Paths of the files that calls changed.
    pub(super) fn changed_files(&self) -> &[String] {
        &self.changed
    }

    /// Whether the status line program should run again; clears the flag.
    pub(super) fn take_status_wish(&mut self) -> bool {
        std::mem::take(&mut self.wants_status)
    }

    /// The input of the status line program.
    pub(super) fn facts(&self) -> &StatusLineInput {
        &self.facts
    }

    /// Whether the cost may have changed; clears the flag.
    pub(super) fn take_bill_wish(&mut self) -> bool {
        std::mem::take(&mut self.wants_bill)
    }

    pub(super) fn of(&mut self, event: &SessionEvent) -> Vec<UiUpdate> {
        let news = self.news_of(event);
        for it in &news {
            let UiUpdate::Meter(meter) = it else { continue };
            self.wants_status = true;
            let facts = &mut self.facts;
            facts.model = meter.model.clone().unwrap_or(std::mem::take(&mut facts.model));
            facts.mode = meter.mode.clone().unwrap_or(std::mem::take(&mut facts.mode));
            facts.usd = meter.usd.unwrap_or(facts.usd);
            facts.context_percent = meter.context_percent.unwrap_or(facts.context_percent);
        }
        news
    }

    fn news_of(&mut self, event: &SessionEvent) -> Vec<UiUpdate> {
        match &event.what {
            SessionEventKind::Agent(what) if event.agent == AgentId::Main => self.of_agent(what),
            SessionEventKind::Agent(what) => self.of_child(&event.agent, what),
            SessionEventKind::ChildStarted(child) => child_began(child),
            SessionEventKind::Notice(text) => vec![UiUpdate::Notice(text.clone())],
            SessionEventKind::TurnBegan(turn) => {
                self.model.clone_from(&turn.facts.model);
                let mut news = vec![
                    UiUpdate::TurnBegan,
                    UiUpdate::Meter(StatusUpdate {
                        model: Some(turn.facts.model.clone()),
                        mode: Some(turn.facts.mode.to_string()),
                        ..StatusUpdate::default()
                    }),
                ];
                if let Some(prompt) = turn.prompt.as_ref().filter(|it| it.speaker == PromptAuthor::Task) {
                    news.push(UiUpdate::Said(text::one_line(&prompt.words(), 200)));
                }
                news
            }
            SessionEventKind::TaskStarted(task, _) => {
                vec![UiUpdate::Notice(format!(
                    "goes on in the background: {}",
                    text::one_line(&task.command, 120)
                ))]
            }
            SessionEventKind::TasksRunning(tasks) => {
                let row = |task: &haft_shell::run::TaskInfo| PickerRow {
                    id: task.id.clone(),
                    title: text::one_line(&task.command, 200),
                    detail: format!("{} · {} s", task.id, task.elapsed.as_secs()),
                    preview: Vec::new(),
                };
                self.commands = tasks.iter().map(row).collect();
                vec![self.in_background()]
            }
            SessionEventKind::TaskEnded(task, _) => {
                vec![UiUpdate::Notice(format!("ended: {}", text::one_line(&task.command, 120)))]
            }
            SessionEventKind::ChildProgress(child, progress) => vec![UiUpdate::CallProgress {
                id: child.call.to_string(),
                tail: Vec::new(),
                note: child_note(progress),
            }],
            SessionEventKind::ChildEnded(child, _) if child.in_background => {
                vec![UiUpdate::Notice(format!("the agent has ended: {}", child.description))]
            }
            SessionEventKind::ChildrenRunning(children) => {
                let row = |child: &Arc<haft_session::ChildIdentity>| PickerRow {
                    id: child.id.to_string(),
                    title: format!("{}: {}", child.kind, child.description),
                    detail: format!("{} from {}", child.model, child.model_from),
                    preview: Vec::new(),
                };
                self.children = children.iter().map(row).collect();
                vec![self.in_background()]
            }
            SessionEventKind::ModeChanged(mode) => {
                vec![UiUpdate::Meter(StatusUpdate {
                    mode: Some(mode.to_string()),
                    ..StatusUpdate::default()
                })]
            }
            SessionEventKind::ModelChanged(model) => {
                self.model.clone_from(model);
                vec![UiUpdate::Meter(StatusUpdate { model: Some(model.clone()), ..StatusUpdate::default() })]
            }
            SessionEventKind::Settled(id, _) => vec![UiUpdate::Withdrawn(id.clone())],
            SessionEventKind::Cleared(_) => vec![UiUpdate::Cleared],
            SessionEventKind::CompactionBegan => {
                vec![UiUpdate::TurnBegan, UiUpdate::Phase(TurnPhase::Compacting)]
            }
            SessionEventKind::CommandEnded(command) => of_command(command),
            SessionEventKind::TurnEnded(turn) => self.of_end(turn),
            SessionEventKind::Broke(why) => vec![UiUpdate::Notice(format!("the session broke off: {why}"))],
            _ => Vec::new(),
        }
    }

    fn in_background(&self) -> UiUpdate {
        UiUpdate::Tasks(self.commands.iter().chain(&self.children).cloned().collect())
    }

    fn of_agent(&mut self, event: &AgentEvent) -> Vec<UiUpdate> {
        match event {
            AgentEvent::Model(event) => self.of_model(event),
            AgentEvent::Block(it) => match &it.block {
                MessageBlock::ToolUse(_) => Vec::new(),
                _ => vec![UiUpdate::BlockEnded],
            },
            AgentEvent::Called(call) => {
                let headline = self.shortened(&call.headline);
                self.headlines.insert(call.id.to_string(), headline.clone());
                vec![UiUpdate::CallBegan {
                    id: call.id.to_string(),
                    agent: None,
                    name: call.name.clone(),
                    headline,
                }]
            }
            AgentEvent::Progress(progress) => map_progress(progress).into_iter().collect(),
            AgentEvent::CallFinished(it) => self.of_result(it),
            AgentEvent::Notice(text) => vec![UiUpdate::Notice(text.clone())],
            AgentEvent::Retrying(retry) => {
                let in_ms = u64::try_from(retry.wait.as_millis()).unwrap_or(0);
                let why = text::one_line(&retry.reason, 120);
                let phase = TurnPhase::Retrying { why, in_ms, attempt: (retry.attempt, retry.most) };
                vec![UiUpdate::Phase(phase)]
            }
            AgentEvent::Withdrawn(it) => vec![answer_broke(it)],
            AgentEvent::Compacted(it) => vec![UiUpdate::Notice(format!(
                "the conversation was made shorter: {} → {} tokens",
                text::thousands(it.tokens_before),
                text::thousands(it.tokens_after)
            ))],
            AgentEvent::Bust(it) => vec![UiUpdate::Notice(format!(
                "the provider's cache was lost, {} tokens billed again: {}",
                text::thousands(it.tokens),
                it.detail
            ))],
            AgentEvent::Started
            | AgentEvent::ResultLogged { .. }
            | AgentEvent::Said(_)
            | AgentEvent::Repaired(_) => Vec::new(),
        }
    }

    /// Updates for an event of a sub-agent. They go to the sub-agent's own transcript.
    fn of_child(&mut self, agent: &AgentId, event: &AgentEvent) -> Vec<UiUpdate> {
        let news = match event {
            AgentEvent::Model(ModelEvent::Text(piece)) => vec![UiUpdate::Text(piece.clone())],
            AgentEvent::Model(ModelEvent::Started { .. }) => vec![UiUpdate::AnswerBegan],
            AgentEvent::Withdrawn(it) => vec![answer_broke(it)],
            AgentEvent::Block(it) if !matches!(it.block, MessageBlock::ToolUse(_)) => {
                vec![UiUpdate::BlockEnded]
            }
            AgentEvent::Called(call) => {
                let headline = self.shortened(&call.headline);
                self.headlines.insert(call.id.to_string(), headline);
                Vec::new()
            }
            AgentEvent::CallFinished(it) => self.of_result(it),
            AgentEvent::Notice(text) => vec![UiUpdate::Notice(text.clone())],
            _ => Vec::new(),
        };
        let id = agent.to_string();
        let own = |news: UiUpdate| UiUpdate::AgentNews { id: id.clone(), news: Box::new(news) };
        // The to-do list on the screen is the main agent's; those of sub-agents are not shown.
        news.into_iter().filter(|it| !matches!(it, UiUpdate::Todos(_))).map(own).collect()
    }

    fn of_model(&mut self, event: &ModelEvent) -> Vec<UiUpdate> {
        match event {
            ModelEvent::Text(piece) => vec![UiUpdate::Text(piece.clone())],
            ModelEvent::Thinking(piece) => vec![UiUpdate::Thinking(piece.clone())],
            ModelEvent::ToolStarted { name, .. } => vec![UiUpdate::CallWritten(name.clone())],
            ModelEvent::Started { .. } => {
                vec![UiUpdate::AnswerBegan, UiUpdate::Phase(TurnPhase::Waiting)]
            }
            ModelEvent::Usage(usage) => self.of_usage(*usage).into_iter().collect(),
            ModelEvent::Stopped(_) => {
                self.wants_bill = true;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn of_usage(&self, usage: Usage) -> Option<UiUpdate> {
        let used = usage.input_tokens
            + usage.output_tokens
            + usage.cache_creation_input_tokens
            + usage.cache_read_input_tokens;
        let window = self.catalog.as_ref()?.get(&self.model).window.max(1);
        let context_percent = u8::try_from((100 * used / window).min(100)).ok();
        Some(UiUpdate::Meter(StatusUpdate { context_percent, ..StatusUpdate::default() }))
    }

    fn of_result(&mut self, AnsweredCall { call, report }: &AnsweredCall) -> Vec<UiUpdate> {
        let id = report.id.to_string();
        let headline = match self.headlines.remove(&id) {
            Some(headline) => headline,
            None => text::one_line(&call.input.to_string(), 200),
        };
        let mut news = Vec::new();
        for change in &report.changes {
            match change {
                ContextChange::Trace(CallEffect::FileChanged(path)) => {
                    let path = self.shortened(&path.display().to_string());
                    if !self.changed.contains(&path) {
                        self.changed.push(path);
                    }
                }
                ContextChange::Trace(CallEffect::Todos(items)) => {
                    let todo = |it: &haft_tool::WorkItem| (it.text.clone(), todo_state(&it.status));
                    news.push(UiUpdate::Todos(items.iter().map(todo).collect()));
                }
                _ => (),
            }
        }
        let failed = report.error.is_some();
        let mut rendered = match &report.rendering {
            Some(rendering) if !failed => rendering.make(),
            _ => Rendered::error(&report.content.to_text()),
        };
        rendered.headline = self.shortened(&rendered.headline);
        for line in &mut rendered.lines {
            line.text = self.shortened(&line.text);
        }
        news.push(UiUpdate::CallEnded(Box::new(FinishedCall {
            id,
            agent: None,
            name: report.name.clone(),
            headline,
            failed,
            rendered,
            whole: report.rendering.clone().filter(|_| !failed).map(unfolded),
        })));
        news
    }

    fn of_end(&mut self, turn: &TurnEnded) -> Vec<UiUpdate> {
        let interrupted = turn.end.reason == EndReason::Interrupted;
        vec![
            UiUpdate::Meter(StatusUpdate { usd: Some(turn.bill.usd), ..StatusUpdate::default() }),
            UiUpdate::TurnEnded { problem: end_line(&turn.end.reason).filter(|_| !interrupted), interrupted },
        ]
    }

    /// Replaces absolute paths in the working directory by relative ones.
    pub(super) fn shortened(&self, words: &str) -> String {
        let cwd = self.cwd.display().to_string();
        words.replace(&format!("{cwd}/"), "").replace(&cwd, ".")
    }
}

/// A sub-agent's transcript begins with its task.
fn answer_broke(answer: &RetractedAnswer) -> UiUpdate {
    UiUpdate::AnswerBroke { calls: answer.calls.iter().map(ToString::to_string).collect() }
}

fn child_began(child: &haft_session::ChildIdentity) -> Vec<UiUpdate> {
    let (id, title) = (child.id.to_string(), format!("{}: {}", child.kind, child.description));
    let task = Box::new(UiUpdate::SaidBefore(child.prompt.clone()));
    vec![UiUpdate::AgentBegan { id: id.clone(), title }, UiUpdate::AgentNews { id, news: task }]
}

/// One line about a sub-agent's progress, shown at the call that started it.
fn child_note(progress: &haft_session::ChildProgress) -> String {
    let doing = text::one_line(progress.summary.as_ref().unwrap_or(&progress.doing), 80);
    let (calls, tokens) = (progress.tool_uses, text::thousands(progress.tokens));
    format!("{doing} · {calls} calls · {tokens} tokens")
}

fn todo_state(status: &str) -> TodoState {
    match status {
        "completed" => TodoState::Done,
        "in_progress" => TodoState::Doing,
        _ => TodoState::Open,
    }
}

fn map_progress(event: &ProgressEvent) -> Option<UiUpdate> {
    let data = &event.data;
    let tail: Vec<String> =
        data["tail"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let lines = data["lines"].as_u64().map(|count| format!("{count} lines"));
    let far = data["progress"].as_f64().map(|done| match data["total"].as_f64().filter(|it| 0.0 < *it) {
        Some(total) => format!("{done} of {total}"),
        None => done.to_string(),
    });
    let said = data["message"].as_str().map(|it| text::one_line(it, 80));
    let note = [lines, far, said].into_iter().flatten().collect::<Vec<_>>().join(" · ");
    Some(UiUpdate::CallProgress { id: event.call_id.to_string(), tail, note })
}

/// Updates for a finished slash command.
fn of_command(command: &CommandEnded) -> Vec<UiUpdate> {
    let panel = |title: &str, text: &str| {
        let (title, text) = (title.to_owned(), text.to_owned());
        UiUpdate::Panel(PagerText { title, text, lines: Vec::new(), paged: false })
    };
    let ended = UiUpdate::TurnEnded { problem: None, interrupted: false };
    match &command.result {
        CommandResult::Cleared => vec![ended],
        CommandResult::Compacted { .. } => vec![ended],
        CommandResult::NotCompacted(why) => {
            vec![UiUpdate::Notice(format!("not made shorter: {why}")), ended]
        }
        CommandResult::Context(text) | CommandResult::Cost(text) => vec![panel("", text), ended],
        CommandResult::Failed(name, why) => {
            let problem = Some(format!("{name}: {why}"));
            vec![UiUpdate::TurnEnded { problem, interrupted: false }]
        }
    }
}
