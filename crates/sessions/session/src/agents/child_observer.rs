//! Observes a sub-agent and collects the data of its report.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use haft_agent::{AgentEvent, AgentListener};
use haft_builtin_tools::agent::{KilledBy, SubagentDenial};
use haft_model::ModelEvent;
use haft_tool::{CallEffect, ContextChange, ErrorKind};
use haft_types::{MessageBlock, Usage};

use super::{ChildIdentity, ChildProgress, SubagentRegistry};
use crate::{SessionEventKind, questions::QuestionedCalls, telemetry::TraceDesk};

/// Emits the events of a sub-agent and collects what its report will contain.
pub(super) struct ChildObserver {
    desk: Arc<SubagentRegistry>,
    facts: Arc<ChildIdentity>,
    asked: Arc<QuestionedCalls>,
    traces: Arc<TraceDesk>,
    started: Instant,
    seen: Mutex<ChildActivity>,
}

/// Observed activity of an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct ChildActivity {
    pub(super) tools_used: BTreeMap<String, u64>,
    pub(super) files_changed: BTreeSet<PathBuf>,
    pub(super) denials: Vec<SubagentDenial>,
    tokens: u64,
    answer: Usage,
    last_tool: String,
}

impl ChildObserver {
    pub(super) fn new(
        desk: &Arc<SubagentRegistry>,
        facts: &Arc<ChildIdentity>,
        asked: &Arc<QuestionedCalls>,
        traces: &Arc<TraceDesk>,
    ) -> Arc<Self> {
        traces.begin_child(facts);
        Arc::new(Self {
            traces: Arc::clone(traces),
            desk: Arc::clone(desk),
            facts: Arc::clone(facts),
            asked: Arc::clone(asked),
            started: Instant::now(),
            seen: Mutex::default(),
        })
    }

    pub(super) fn listener(self: &Arc<Self>) -> AgentListener {
        let me = Arc::clone(self);
        Arc::new(move |event| me.hear(event))
    }

    fn seen(&self) -> MutexGuard<'_, ChildActivity> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The activity so far.
    pub(super) fn work(&self) -> ChildActivity {
        self.seen().clone()
    }

    /// Who stopped the agent, if it was stopped.
    pub(super) fn killed_by(&self) -> Option<KilledBy> {
        let by = self.desk.tree().nodes.get(&self.facts.id)?.stopped_by?;
        Some(by.killer())
    }

    pub(super) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn hear(&self, event: AgentEvent) {
        self.traces.hear(&self.facts.id, &event);
        let progress = self.note(&event);
        match &event {
            AgentEvent::CallFinished(it) => {
                if let Some(denied) = self.asked.unasked_denial(it) {
                    self.desk.tell(&self.facts, SessionEventKind::CallDenied(Box::new(denied)));
                }
            }
            AgentEvent::ResultLogged { answered, .. } => self.desk.count_denied(&self.facts, answered),
            _ => (),
        }
        self.desk.tell(&self.facts, SessionEventKind::Agent(event));
        if let Some(progress) = progress {
            let facts = Arc::clone(&self.facts);
            self.desk.tell(&self.facts, SessionEventKind::ChildProgress(facts, Box::new(progress)));
        }
    }

    fn note(&self, event: &AgentEvent) -> Option<ChildProgress> {
        let mut seen = self.seen();
        match event {
            AgentEvent::Model(ModelEvent::Usage(usage)) => seen.answer = *usage,
            AgentEvent::Model(ModelEvent::Stopped(_)) => {
                let it = std::mem::take(&mut seen.answer);
                seen.tokens += it.input_tokens
                    + it.output_tokens
                    + it.cache_creation_input_tokens
                    + it.cache_read_input_tokens;
            }
            AgentEvent::Block(it) => match &it.block {
                MessageBlock::Text { text } => {
                    let text = text.clone();
                    drop(seen);
                    if let Some(node) = self.desk.tree().nodes.get_mut(&self.facts.id) {
                        node.last_text = text;
                    }
                }
                MessageBlock::ToolUse(call) => {
                    *seen.tools_used.entry(call.name.clone()).or_default() += 1;
                    seen.last_tool.clone_from(&call.name);
                    return Some(self.progress(&seen));
                }
                _ => (),
            },
            AgentEvent::ResultLogged { answered, .. } => {
                let report = &answered.report;
                let changed = report.changes.iter().filter_map(|change| match change {
                    ContextChange::Trace(CallEffect::FileChanged(path)) => Some(path.clone()),
                    _ => None,
                });
                seen.files_changed.extend(changed);
                if let Some(ErrorKind::Denied | ErrorKind::GateFailed) = report.error {
                    let reason = report.content.to_text();
                    seen.denials.push(SubagentDenial { tool: report.name.clone(), reason });
                }
            }
            _ => (),
        }
        None
    }

    fn progress(&self, seen: &ChildActivity) -> ChildProgress {
        let doing = match seen.last_tool.as_str() {
            "" => self.facts.description.clone(),
            tool => format!("Running {tool}"),
        };
        ChildProgress {
            doing,
            last_tool: seen.last_tool.clone(),
            tool_uses: seen.tools_used.values().sum(),
            tokens: seen.tokens,
            duration_ms: self.elapsed_ms(),
            summary: None,
        }
    }

    /// Emits a progress summary written by the agent's model.
    pub(super) fn emit_summary(&self, words: String) {
        let progress = ChildProgress { summary: Some(words), ..self.progress(&self.seen()) };
        let facts = Arc::clone(&self.facts);
        self.desk.tell(&self.facts, SessionEventKind::ChildProgress(facts, Box::new(progress)));
    }
}
