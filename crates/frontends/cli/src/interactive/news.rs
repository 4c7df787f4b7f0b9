//! Events of a session as news for the terminal.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use haft_agent::{AgentEvent, EndReason, WithdrawnAnswer};
use haft_model::{Catalog, ModelEvent};
use haft_session::{CommandEnded, CommandResult, Happening, SessionEvent, Speaker, TurnEnded};
use haft_tool::{CallTrace, ContextChange, ProgressEvent, Rendered};
use haft_tool_runtime::Report;
use haft_tui::{CallFinish, MeterNews, PanelText, PickRow, SessionNews, TodoState, TurnPhase};
use haft_types::{AgentId, CallId, MessageBlock, Usage, text};
use serde_json::Value;

use super::{status_line::StatusFacts, unfold::unfolded};
use crate::print_command::problem;

/// Translates, and remembers what a translation needs.
pub(super) struct NewsMaker {
    cwd: PathBuf,
    catalog: Option<Arc<Catalog>>,
    /// The model whose window is measured.
    model: String,
    /// Headlines of calls that run.
    headlines: HashMap<String, String>,
    /// Calls whose results were shown before their turn came.
    ended_early: HashSet<CallId>,
    changed: Vec<String>,
    /// Commands in the background, and agents.
    commands: Vec<PickRow>,
    children: Vec<PickRow>,
    wants_bill: bool,
    wants_status: bool,
    facts: StatusFacts,
}

impl NewsMaker {
    pub(super) fn new(cwd: PathBuf) -> Self {
        Self {
            cwd,
            catalog: None,
            model: String::new(),
            headlines: HashMap::new(),
            ended_early: HashSet::new(),
            changed: Vec::new(),
            commands: Vec::new(),
            children: Vec::new(),
            wants_bill: false,
            wants_status: true,
            facts: StatusFacts::default(),
        }
    }

    pub(super) fn set_catalog(&mut self, catalog: Option<Arc<Catalog>>) {
        self.catalog = catalog;
    }

    /// Files that calls changed.
    pub(super) fn changed_files(&self) -> &[String] {
        &self.changed
    }

    /// Whether the person's own line may say something else now.
    pub(super) fn take_status_wish(&mut self) -> bool {
        std::mem::take(&mut self.wants_status)
    }

    /// What the person's own line is told.
    pub(super) fn facts(&self) -> &StatusFacts {
        &self.facts
    }

    /// Whether the bill may have changed.
    pub(super) fn take_bill_wish(&mut self) -> bool {
        std::mem::take(&mut self.wants_bill)
    }

    pub(super) fn of(&mut self, event: &SessionEvent) -> Vec<SessionNews> {
        let news = self.news_of(event);
        for it in &news {
            let SessionNews::Meter(meter) = it else { continue };
            self.wants_status = true;
            let facts = &mut self.facts;
            facts.model = meter.model.clone().unwrap_or(std::mem::take(&mut facts.model));
            facts.mode = meter.mode.clone().unwrap_or(std::mem::take(&mut facts.mode));
            facts.usd = meter.usd.unwrap_or(facts.usd);
            facts.context_percent = meter.context_percent.unwrap_or(facts.context_percent);
        }
        news
    }

    fn news_of(&mut self, event: &SessionEvent) -> Vec<SessionNews> {
        match &event.what {
            Happening::Agent(what) if event.agent == AgentId::Main => self.of_agent(what),
            Happening::Agent(what) => self.of_child(&event.agent, what),
            Happening::ChildStarted(child) => child_began(child),
            Happening::Notice(text) => vec![SessionNews::Notice(text.clone())],
            Happening::TurnBegan(turn) => {
                self.model.clone_from(&turn.facts.model);
                let mut news = vec![
                    SessionNews::TurnBegan,
                    SessionNews::Meter(MeterNews {
                        model: Some(turn.facts.model.clone()),
                        mode: Some(turn.facts.mode.to_string()),
                        ..MeterNews::default()
                    }),
                ];
                if let Some(prompt) = turn.prompt.as_ref().filter(|it| it.speaker == Speaker::Task) {
                    news.push(SessionNews::Said(text::one_line(&prompt.words(), 200)));
                }
                news
            }
            Happening::TaskStarted(task, _) => {
                vec![SessionNews::Notice(format!(
                    "goes on in the background: {}",
                    text::one_line(&task.command, 120)
                ))]
            }
            Happening::TasksRunning(tasks) => {
                let row = |task: &haft_shell::run::TaskInfo| PickRow {
                    id: task.id.clone(),
                    title: text::one_line(&task.command, 200),
                    detail: format!("{} · {} s", task.id, task.elapsed.as_secs()),
                    preview: Vec::new(),
                };
                self.commands = tasks.iter().map(row).collect();
                vec![self.in_background()]
            }
            Happening::TaskEnded(task, _) => {
                vec![SessionNews::Notice(format!("ended: {}", text::one_line(&task.command, 120)))]
            }
            Happening::ChildProgress(child, progress) => vec![SessionNews::CallProgress {
                id: child.call.to_string(),
                tail: Vec::new(),
                note: child_note(progress),
            }],
            Happening::ChildEnded(child, _) if child.in_background => {
                vec![SessionNews::Notice(format!("the agent has ended: {}", child.description))]
            }
            Happening::ChildrenRunning(children) => {
                let row = |child: &Arc<haft_session::ChildFacts>| PickRow {
                    id: child.id.to_string(),
                    title: format!("{}: {}", child.kind, child.description),
                    detail: format!("{} from {}", child.model, child.model_from),
                    preview: Vec::new(),
                };
                self.children = children.iter().map(row).collect();
                vec![self.in_background()]
            }
            Happening::ModeChanged(mode) => {
                vec![SessionNews::Meter(MeterNews { mode: Some(mode.to_string()), ..MeterNews::default() })]
            }
            Happening::ModelChanged(model) => {
                self.model.clone_from(model);
                vec![SessionNews::Meter(MeterNews { model: Some(model.clone()), ..MeterNews::default() })]
            }
            Happening::Settled(id, _) => vec![SessionNews::Withdrawn(id.clone())],
            Happening::Cleared(_) => vec![SessionNews::Cleared],
            Happening::CompactionBegan => {
                vec![SessionNews::TurnBegan, SessionNews::Phase(TurnPhase::Compacting)]
            }
            Happening::CommandEnded(command) => of_command(command),
            Happening::TurnEnded(turn) => self.of_end(turn),
            Happening::Broke(why) => vec![SessionNews::Notice(format!("the session broke off: {why}"))],
            _ => Vec::new(),
        }
    }

    fn in_background(&self) -> SessionNews {
        SessionNews::Tasks(self.commands.iter().chain(&self.children).cloned().collect())
    }

    fn of_agent(&mut self, event: &AgentEvent) -> Vec<SessionNews> {
        match event {
            AgentEvent::Model(event) => self.of_model(event),
            AgentEvent::Block(it) => match &it.block {
                MessageBlock::ToolUse(_) => Vec::new(),
                _ => vec![SessionNews::BlockEnded],
            },
            AgentEvent::Called(call) => {
                let headline = self.shortened(&call.headline);
                self.headlines.insert(call.id.to_string(), headline.clone());
                vec![SessionNews::CallBegan {
                    id: call.id.to_string(),
                    agent: None,
                    name: call.name.clone(),
                    headline,
                }]
            }
            AgentEvent::Progress(progress) => of_progress(progress).into_iter().collect(),
            AgentEvent::CallEnded(report) => {
                self.ended_early.insert(report.id.clone());
                self.of_result(report, None)
            }
            AgentEvent::Result(it) if self.ended_early.remove(&it.report.id) => Vec::new(),
            AgentEvent::Result(it) => self.of_result(&it.report, Some(&it.input)),
            AgentEvent::Notice(text) => vec![SessionNews::Notice(text.clone())],
            AgentEvent::Retrying(retry) => {
                let in_ms = u64::try_from(retry.wait.as_millis()).unwrap_or(0);
                let why = text::one_line(&retry.reason, 120);
                let phase = TurnPhase::Retrying { why, in_ms, attempt: (retry.attempt, retry.most) };
                vec![SessionNews::Phase(phase)]
            }
            AgentEvent::Withdrawn(it) => vec![answer_broke(it)],
            AgentEvent::Compacted(it) => vec![SessionNews::Notice(format!(
                "the conversation was made shorter: {} → {} tokens",
                text::thousands(it.tokens_before),
                text::thousands(it.tokens_after)
            ))],
            AgentEvent::Bust(it) => vec![SessionNews::Notice(format!(
                "the provider's cache was lost, {} tokens billed again: {}",
                text::thousands(it.tokens),
                it.detail
            ))],
            AgentEvent::Started | AgentEvent::Said(_) | AgentEvent::Repaired(_) => Vec::new(),
        }
    }

    /// What an agent that another one started says and does is its own transcript.
    fn of_child(&mut self, agent: &AgentId, event: &AgentEvent) -> Vec<SessionNews> {
        let news = match event {
            AgentEvent::Model(ModelEvent::Text(piece)) => vec![SessionNews::Text(piece.clone())],
            AgentEvent::Model(ModelEvent::Started { .. }) => vec![SessionNews::AnswerBegan],
            AgentEvent::Withdrawn(it) => vec![answer_broke(it)],
            AgentEvent::Block(it) if !matches!(it.block, MessageBlock::ToolUse(_)) => {
                vec![SessionNews::BlockEnded]
            }
            AgentEvent::Called(call) => {
                let headline = self.shortened(&call.headline);
                self.headlines.insert(call.id.to_string(), headline);
                Vec::new()
            }
            AgentEvent::CallEnded(report) => {
                self.ended_early.insert(report.id.clone());
                self.of_result(report, None)
            }
            AgentEvent::Result(it) if self.ended_early.remove(&it.report.id) => Vec::new(),
            AgentEvent::Result(it) => self.of_result(&it.report, Some(&it.input)),
            AgentEvent::Notice(text) => vec![SessionNews::Notice(text.clone())],
            _ => Vec::new(),
        };
        let id = agent.to_string();
        let own = |news: SessionNews| SessionNews::AgentNews { id: id.clone(), news: Box::new(news) };
        // The list of what is to be done is the main agent's.
        news.into_iter().filter(|it| !matches!(it, SessionNews::Todos(_))).map(own).collect()
    }

    fn of_model(&mut self, event: &ModelEvent) -> Vec<SessionNews> {
        match event {
            ModelEvent::Text(piece) => vec![SessionNews::Text(piece.clone())],
            ModelEvent::Thinking(piece) => vec![SessionNews::Thinking(piece.clone())],
            ModelEvent::ToolStarted { name, .. } => vec![SessionNews::CallWritten(name.clone())],
            ModelEvent::Started { .. } => {
                vec![SessionNews::AnswerBegan, SessionNews::Phase(TurnPhase::Waiting)]
            }
            ModelEvent::Usage(usage) => self.of_usage(*usage).into_iter().collect(),
            ModelEvent::Stopped(_) => {
                self.wants_bill = true;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn of_usage(&self, usage: Usage) -> Option<SessionNews> {
        let used = usage.input_tokens
            + usage.output_tokens
            + usage.cache_creation_input_tokens
            + usage.cache_read_input_tokens;
        let window = self.catalog.as_ref()?.get(&self.model).window.max(1);
        let context_percent = u8::try_from((100 * used / window).min(100)).ok();
        Some(SessionNews::Meter(MeterNews { context_percent, ..MeterNews::default() }))
    }

    fn of_result(&mut self, report: &Report, input: Option<&Value>) -> Vec<SessionNews> {
        let id = report.id.to_string();
        let headline = match self.headlines.remove(&id) {
            Some(headline) => headline,
            None => text::one_line(&input.map(ToString::to_string).unwrap_or_default(), 200),
        };
        let mut news = Vec::new();
        for change in &report.changes {
            match change {
                ContextChange::Trace(CallTrace::FileChanged(path)) => {
                    let path = self.shortened(&path.display().to_string());
                    if !self.changed.contains(&path) {
                        self.changed.push(path);
                    }
                }
                ContextChange::Trace(CallTrace::Todos(items)) => {
                    let todo = |it: &haft_tool::WorkItem| (it.text.clone(), todo_state(&it.status));
                    news.push(SessionNews::Todos(items.iter().map(todo).collect()));
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
        news.push(SessionNews::CallEnded(Box::new(CallFinish {
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

    fn of_end(&mut self, turn: &TurnEnded) -> Vec<SessionNews> {
        let interrupted = turn.end.reason == EndReason::Interrupted;
        vec![
            SessionNews::Meter(MeterNews { usd: Some(turn.bill.usd), ..MeterNews::default() }),
            SessionNews::TurnEnded {
                problem: problem(&turn.end.reason).filter(|_| !interrupted),
                interrupted,
            },
        ]
    }

    /// Paths inside the working directory without it.
    pub(super) fn shortened(&self, words: &str) -> String {
        let cwd = self.cwd.display().to_string();
        words.replace(&format!("{cwd}/"), "").replace(&cwd, ".")
    }
}

/// An agent begins its own transcript with its task.
/// An answer does not count any more.
fn answer_broke(answer: &WithdrawnAnswer) -> SessionNews {
    SessionNews::AnswerBroke { calls: answer.calls.iter().map(ToString::to_string).collect() }
}

fn child_began(child: &haft_session::ChildFacts) -> Vec<SessionNews> {
    let (id, title) = (child.id.to_string(), format!("{}: {}", child.kind, child.description));
    let task = Box::new(SessionNews::SaidBefore(child.prompt.clone()));
    vec![SessionNews::AgentBegan { id: id.clone(), title }, SessionNews::AgentNews { id, news: task }]
}

/// What an agent does, in the line of the call that started it.
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

fn of_progress(event: &ProgressEvent) -> Option<SessionNews> {
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
    Some(SessionNews::CallProgress { id: event.call_id.to_string(), tail, note })
}

/// What came of a command of the session.
fn of_command(command: &CommandEnded) -> Vec<SessionNews> {
    let panel = |title: &str, text: &str| {
        let (title, text) = (title.to_owned(), text.to_owned());
        SessionNews::Panel(PanelText { title, text, lines: Vec::new(), paged: false })
    };
    let ended = SessionNews::TurnEnded { problem: None, interrupted: false };
    match &command.result {
        CommandResult::Cleared => vec![ended],
        CommandResult::Compacted { .. } => vec![ended],
        CommandResult::NotCompacted(why) => {
            vec![SessionNews::Notice(format!("not made shorter: {why}")), ended]
        }
        CommandResult::Context(text) | CommandResult::Cost(text) => vec![panel("", text), ended],
        CommandResult::Failed(name, why) => {
            let problem = Some(format!("{name}: {why}"));
            vec![SessionNews::TurnEnded { problem, interrupted: false }]
        }
    }
}
