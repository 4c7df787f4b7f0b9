//! Observes the session's agent: collects usage and the data of turn ends, and passes on every event in
//! order.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Instant,
};

use haft_agent::{Agent, AgentEvent, AgentListener, Budget, CompactedEvent, TurnEnd};
use haft_hooks::CompactTrigger;
use haft_model::ModelEvent;
use haft_shell::run::TaskRegistry;
use haft_tool_runtime::Pipeline;
use haft_types::{MessageBlock, PermissionMode, ToolUse};

use crate::{
    EventSender, SessionEventKind, UsageTotals,
    background_tasks::BackgroundCommands,
    environment::SessionEnvironment,
    questions::QuestionedCalls,
    telemetry::{HeadersHelper, Observer, TelemetrySettings, TraceDesk},
};

/// Observes the session's agent.
pub(crate) struct TurnObserver {
    events: EventSender,
    pub(crate) background: BackgroundCommands,
    asked: Arc<QuestionedCalls>,
    pipeline: Weak<Pipeline>,
    seen: Mutex<TurnState>,
    traces: Arc<TraceDesk>,
    /// The budget with the costs of requests.
    ledger: OnceLock<Budget>,
}

/// State of the turn, and usage of the session.
struct TurnState {
    bill: UsageTotals,
    mode: Option<PermissionMode>,
    started: Instant,
    in_tools: bool,
    ttft_ms: Option<u64>,
    /// A compaction the user requested.
    compacted: Option<CompactedEvent>,
    /// A call that was deferred.
    deferred: Option<ToolUse>,
}

/// Data of a turn for its last event.
pub(crate) struct TurnSummary {
    pub(crate) in_tools: bool,
    pub(crate) ttft_ms: Option<u64>,
    pub(crate) compacted: Option<CompactedEvent>,
    pub(crate) deferred: Option<ToolUse>,
}

impl TurnObserver {
    pub(crate) fn new(
        events: EventSender,
        tasks: Option<Arc<TaskRegistry>>,
        hosts: Option<Arc<haft_tool_host::HostSet>>,
        asked: Arc<QuestionedCalls>,
        pipeline: &Arc<Pipeline>,
        traces: &Arc<TraceDesk>,
    ) -> Arc<Self> {
        let seen = TurnState {
            bill: UsageTotals::default(),
            mode: Some(pipeline.gate.mode()),
            started: Instant::now(),
            in_tools: false,
            ttft_ms: None,
            compacted: None,
            deferred: None,
        };
        Arc::new(Self {
            background: BackgroundCommands::new(tasks, hosts, events.clone()),
            events,
            asked,
            pipeline: Arc::downgrade(pipeline),
            seen: Mutex::new(seen),
            traces: Arc::clone(traces),
            ledger: OnceLock::new(),
        })
    }

    /// The listener for the agent.
    pub(crate) fn listener(self: &Arc<Self>) -> AgentListener {
        let me = Arc::clone(self);
        Arc::new(move |event| me.hear(event))
    }

    fn seen(&self) -> MutexGuard<'_, TurnState> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observer(&self) -> MutexGuard<'_, Observer> {
        self.traces.observer()
    }

    /// Adds the usage of an earlier process of the session.
    pub(crate) fn begin_session(&self, premises: &SessionEnvironment, provider: &str, agent: &Agent) {
        let spent = agent.spending();
        self.seen().bill = UsageTotals::of_earlier(&agent.settings.model, spent.usage, spent.usd);
        self.ledger.set(agent.ledger.clone()).ok();
        let helper = premises.string_setting("otelHeadersHelper");
        let helper = helper.map(|command| HeadersHelper { command, variables: premises.variables.clone() });
        let settings = TelemetrySettings::from_env(&|name| premises.variable(name));
        let settings = settings.map(|settings| settings.with_helper(helper));
        self.traces.is_part_of(premises.variable("TRACEPARENT"));
        *self.observer() = Observer::new(settings, provider.to_owned(), self.events.clone());
    }

    /// Records the start of a turn.
    pub(crate) fn begin_turn(&self, session: &str, model: &str, prompt: &str) {
        let mut seen = self.seen();
        seen.started = Instant::now();
        (seen.in_tools, seen.ttft_ms) = (false, None);
        (seen.compacted, seen.deferred) = (None, None);
        drop(seen);
        self.observer().begin(session, model, prompt);
    }

    fn hear(&self, event: AgentEvent) {
        self.traces.hear(&haft_types::AgentId::Main, &event);
        self.note(&event);
        match &event {
            // A deferral is not reported as a denial to the program that requested it.
            AgentEvent::CallFinished(it) if it.report.left_for_later => {
                let (id, name) = (it.report.id.clone(), it.report.name.clone());
                self.seen().deferred = Some(ToolUse { id, name, input: it.call.input.clone() });
                return;
            }
            AgentEvent::ResultLogged { answered, .. } if answered.report.left_for_later => return,
            AgentEvent::CallFinished(it) => {
                self.background.on_result(&it.report);
                if let Some(denied) = self.asked.unasked_denial(it) {
                    self.events.tell(SessionEventKind::CallDenied(Box::new(denied)));
                }
            }
            _ => (),
        }
        self.events.tell(SessionEventKind::Agent(event));
        self.emit_mode_change();
    }

    /// Emits the permission mode if it has changed.
    pub(crate) fn emit_mode_change(&self) {
        let Some(pipeline) = self.pipeline.upgrade() else { return };
        let mode = pipeline.gate.mode();
        let changed = self.seen().mode.replace(mode) != Some(mode);
        if changed {
            self.events.tell(SessionEventKind::ModeChanged(mode));
        }
    }

    fn note(&self, event: &AgentEvent) {
        let mut seen = self.seen();
        match event {
            AgentEvent::Model(ModelEvent::Started { .. }) => seen.in_tools = false,
            AgentEvent::Model(
                ModelEvent::Text(_) | ModelEvent::Thinking(_) | ModelEvent::ToolStarted { .. },
            ) if seen.ttft_ms.is_none() => {
                seen.ttft_ms = u64::try_from(seen.started.elapsed().as_millis()).ok();
            }
            AgentEvent::Block(it) if matches!(it.block, MessageBlock::ToolUse(_)) => seen.in_tools = true,
            AgentEvent::Compacted(it) if it.trigger == CompactTrigger::Manual => {
                seen.compacted = Some(it.clone());
            }
            _ => (),
        }
    }

    /// Takes the data of the turn, and the usage after it.
    pub(crate) fn end_turn(&self, agent: &Agent) -> (TurnSummary, UsageTotals) {
        let mut seen = self.seen();
        agent.ledger.drain_settled().iter().for_each(|paid| seen.bill.add(paid));
        seen.bill.usd = agent.spending().usd;
        seen.bill.windows = windows(&seen.bill, agent);
        let trace = TurnSummary {
            in_tools: seen.in_tools,
            ttft_ms: seen.ttft_ms,
            compacted: seen.compacted.take(),
            deferred: seen.deferred.take(),
        };
        (trace, seen.bill.clone())
    }

    /// Sends the telemetry of a finished prompt.
    pub(crate) fn report(&self, end: &TurnEnd) {
        self.observer().end(end);
    }

    /// Waits briefly for telemetry that is being sent.
    pub(crate) async fn finish(&self) {
        let mut sending = self.observer().take_sending();
        Observer::wait(&mut sending).await;
    }

    /// The usage so far.
    pub(crate) fn bill(&self) -> UsageTotals {
        let mut seen = self.seen();
        let settled = self.ledger.get().map(Budget::drain_settled).unwrap_or_default();
        settled.iter().for_each(|paid| seen.bill.add(paid));
        seen.bill.clone()
    }

    /// Resets the usage for a new conversation.
    pub(crate) fn clear_bill(&self) {
        self.ledger.get().map(Budget::drain_settled);
        self.seen().bill = UsageTotals::default();
    }
}

/// Context windows of the models in the usage. A server may report another name than the requested one.
fn windows(bill: &UsageTotals, agent: &Agent) -> BTreeMap<String, (u64, u64)> {
    let is_one = bill.models.len() == 1;
    let asked = |name: &String| if is_one { agent.settings.model.clone() } else { name.clone() };
    bill.models.keys().map(|name| (name.clone(), agent.limits_of(&asked(name)))).collect()
}
