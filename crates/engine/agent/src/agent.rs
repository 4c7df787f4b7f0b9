//! The agent loop: ask the model, run its tool calls, send the results back.

use std::{collections::HashSet, sync::Arc, time::Instant};

use haft_hooks::{EventInput, HookDecision, HookEvent, HookInput, HooksOutcome, UserPromptSubmit};
use haft_model::{ModelError, Provider, StopReason};
use haft_tool_runtime::CallSession;
use haft_types::{CallId, Message, Usage};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    AgentCommands, AgentEvent, AgentInbox, AgentSettings, Budget, CacheMiss, Conversation, EndReason,
    ForkPoint, InjectionReason, LateInputPolicy, PreservedState, Restored, RunUsage, StoredPrefix,
    SystemPrompt, TurnEnd, UserInput,
    answer_turn::{EndedAnswer, NoAnswer},
    budget::Reservation,
    build_request::DEFAULT_MAX_TOKENS,
    context_window::{ObservedWindow, WindowOverflow},
    conversation::{MessageOrigin, NewLogLine, uuid},
    log::LogState,
    prefix::{CacheTracker, DeclaredPrefix},
    prompt_run::TurnProgress,
    recording::{RecordedRun, RunRecorder},
    repetition_guard::RepetitionGuard,
    structured_output::StructuredOutput,
    unusable::LastAnswer,
};

/// An agent: a model, tools, and their conversation.
pub struct Agent {
    pub(crate) provider: Arc<dyn Provider>,
    /// The tools, and the state their calls run in.
    pub tools: CallSession,
    pub conversation: Conversation,
    /// Request settings and limits.
    pub settings: AgentSettings,
    /// The system prompt.
    pub prompt: SystemPrompt,
    /// Input that arrives while the agent runs.
    pub inbox: AgentInbox,
    /// Setting changes that arrive while the agent runs.
    pub orders: AgentCommands,
    /// Spending by others on behalf of this agent, such as sub-agents.
    pub ledger: Budget,
    /// The budget this agent is charged to, if another agent started it.
    pub(crate) patron: Option<Budget>,
    /// Money reserved for the request that is in flight.
    pub(crate) reserved: Option<Reservation>,
    /// While set, tool calls are refused without being run, because the agent was asked for a final text
    /// answer (`final_words`).
    pub(crate) calls_are_over: bool,
    pub(crate) events: AgentListener,
    pub(crate) spending: RunUsage,
    pub(crate) repeats: RepetitionGuard,
    /// Deferred calls of the last answer, which have no result yet.
    pub(crate) left: HashSet<CallId>,
    /// Whether the log contains the complete last answer of an earlier process.
    pub(crate) answer_is_whole: bool,
    pub(crate) structured: Option<StructuredOutput>,
    /// A tool that is declared but cannot be called, so that requests begin with the same bytes as
    /// another agent's.
    pub(crate) declared_only: Option<haft_model::ToolDef>,
    /// Snapshot of the last request, for forks.
    pub fork_point: ForkPoint,
    /// System prompt and tools that requests begin with; `None` before the first request.
    pub(crate) declared: Option<DeclaredPrefix>,
    /// System prompt and tools that an earlier process sent.
    pub(crate) stored: StoredPrefix,
    pub(crate) watch: CacheTracker,
    /// Prompt cache misses since the last prompt.
    pub(crate) busts: Vec<CacheMiss>,
    pub(crate) kept: PreservedState,
    noted: PreservedState,
    /// Raised output limit in tokens, after an answer was truncated.
    pub(crate) raised: Option<u32>,
    /// Whether the provider paused its last answer and will continue it.
    pub(crate) paused: bool,
    warned: bool,
    /// The context window as learnt from requests, where the catalog does not know it.
    pub(crate) seen_window: ObservedWindow,
    pub(crate) tape: Option<Arc<RunRecorder>>,
    pub(crate) cassette: Option<(Arc<RecordedRun>, ReplayCalls)>,
}

/// Receives an agent's events in order, on the agent's task. It must not block.
pub type AgentListener = Arc<dyn Fn(AgentEvent) + Send + Sync>;

/// How tool calls are answered in a replay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReplayCalls {
    /// From the recording. A call that was not recorded ends the run with an error, because it has
    /// diverged.
    Recorded,
    /// From the recording; a call that was not recorded is run.
    RecordedThenReal,
    /// All calls are run. A result that differs from the recorded one only in ids and times is treated
    /// as equal.
    Real,
}

/// Maximum number of times in a row that Stop hooks can make the agent continue.
const MAX_STOP_BLOCKS: u32 = 8;

/// Number of truncated answers in a row after which a prompt ends.
const MAX_CUTS: u32 = 3;

impl Agent {
    /// Creates an agent with a new or restored conversation. Its events are sent to the returned
    /// receiver.
    pub fn new(
        provider: Arc<dyn Provider>,
        tools: CallSession,
        conversation: Conversation,
        settings: AgentSettings,
        prompt: SystemPrompt,
    ) -> (Self, mpsc::UnboundedReceiver<AgentEvent>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let listener: AgentListener = Arc::new(move |event| drop(sender.send(event)));
        (Self::with_listener(listener, provider, tools, conversation, settings, prompt), receiver)
    }

    /// Like [`Agent::new`], with a listener that is called for each event.
    pub fn with_listener(
        events: AgentListener,
        provider: Arc<dyn Provider>,
        tools: CallSession,
        conversation: Conversation,
        settings: AgentSettings,
        prompt: SystemPrompt,
    ) -> Self {
        Self {
            provider,
            tools,
            conversation,
            repeats: RepetitionGuard::new(settings.repeats),
            left: HashSet::new(),
            answer_is_whole: false,
            settings,
            prompt,
            inbox: AgentInbox::default(),
            orders: AgentCommands::default(),
            ledger: Budget::default(),
            patron: None,
            reserved: None,
            calls_are_over: false,
            events,
            spending: RunUsage::default(),
            structured: None,
            declared_only: None,
            fork_point: ForkPoint::default(),
            declared: None,
            stored: StoredPrefix::default(),
            watch: CacheTracker::default(),
            busts: Vec::new(),
            kept: PreservedState::default(),
            noted: PreservedState::default(),
            raised: None,
            paused: false,
            warned: false,
            seen_window: ObservedWindow::default(),
            tape: None,
            cassette: None,
        }
    }

    /// Requires that every prompt ends with output that matches this JSON Schema. Fails for an invalid
    /// schema.
    pub fn require_output(&mut self, schema: Value) -> Result<(), String> {
        self.structured = Some(StructuredOutput::new(schema)?);
        Ok(())
    }

    /// The required JSON Schema of the output, if any.
    pub fn output_schema(&self) -> Option<&Value> {
        self.structured.as_ref().map(StructuredOutput::schema)
    }

    /// Records everything from now on.
    pub fn record(&mut self, tape: Arc<RunRecorder>) {
        self.provider = tape.provider(Arc::clone(&self.provider));
        self.tape = Some(tape);
    }

    /// Answers tool calls from a recording.
    pub fn replay_calls(&mut self, cassette: Arc<RecordedRun>, calls: ReplayCalls) {
        self.cassette = Some((cassette, calls));
    }

    /// Usage and cost so far.
    pub fn spending(&self) -> &RunUsage {
        &self.spending
    }

    /// Adds the usage of an earlier process of this session.
    pub fn restore_spending(&mut self, usage: Usage, usd: f64) {
        (self.spending.usage, self.spending.usd) = (usage, usd);
    }

    /// Continues the requests of an earlier process: they begin with the same bytes, and the first one
    /// is compared with its last for cache misses.
    pub fn restore_requests(&mut self, restored: &mut Restored) {
        self.stored = std::mem::take(&mut restored.prefix);
        self.left = restored.calls.take_left();
        self.answer_is_whole = restored.answer_is_whole;
        let last = restored.asked.take().and_then(|it| Some((it.model, it.sent?, it.usage)));
        self.watch.restore(restored.requests, last);
    }

    /// Restores the state that an earlier process preserved.
    pub fn restore_kept(&mut self, kept: PreservedState) {
        self.noted = kept.clone();
        self.kept = kept;
    }

    /// Logs the preserved state if it has changed.
    pub(crate) fn note_kept(&mut self) {
        if self.noted != self.kept {
            self.noted = self.kept.clone();
            self.note(LogState::Kept { kept: Box::new(self.kept.clone()) });
        }
    }

    /// Processes a prompt until the model is done, a limit is reached, or `cancel` is triggered. Returns
    /// exactly one outcome.
    pub async fn run(&mut self, input: UserInput, cancel: &CancellationToken) -> TurnEnd {
        let mut run = TurnProgress::new(self.spending.usage);
        run.is_asked = input.origin.is_none();
        self.spending.turns = 0;
        self.repeats.reset();
        self.tell(AgentEvent::Started);
        tracing::info!(session = %self.conversation.session_id(), "a prompt begins");
        if let Some(tape) = &self.tape {
            tape.prompt(&input.content);
        }
        let kept = input.clone();
        let heard = tokio::select! {
            heard = self.hear(input) => Some(heard),
            () = cancel.cancelled() => None,
        };
        let reason = match heard {
            Some(Ok(())) => self.work(&mut run, cancel).await,
            Some(Err(blocked)) => EndReason::Stopped(blocked),
            None => {
                self.add_context(kept);
                EndReason::Interrupted
            }
        };
        self.ended(reason, run)
    }

    /// Logs and reports the end of a prompt.
    pub(crate) fn ended(&mut self, reason: EndReason, mut run: TurnProgress) -> TurnEnd {
        // A server's error message can contain the API key.
        let reason = match reason {
            EndReason::Failed(error) => EndReason::Failed(self.conversation.masker.masked(error)),
            other => other,
        };
        if reason == EndReason::Interrupted {
            self.note_interruption();
            run.messages += 1;
        }
        if let Some(err) = self.tape.as_ref().and_then(|tape| tape.take_error()) {
            self.tell(AgentEvent::Notice(format!("the recording could not be written: {err}")));
        }
        tracing::info!(session = %self.conversation.session_id(), ?reason, turns = self.spending.turns, "the prompt has ended");
        run.usage_of_others += self.ledger.settle(&mut self.spending, &self.settings.limits);
        let reason = match (reason, self.settings.limits.exceeded(&self.spending)) {
            // The answer is complete, but its cost exceeded the limit.
            (EndReason::Completed, Some(bound)) => EndReason::Exhausted(bound),
            (reason, _) => reason,
        };
        let reason = match (reason, self.conversation.take_refused()) {
            (EndReason::Completed, Some(refused)) => EndReason::Incomplete(refused),
            (reason, _) => reason,
        };
        let usage = self.spending.usage.since(run.usage_before).since(run.usage_of_others);
        self.note_kept();
        self.note(LogState::Cost { usage: self.spending.usage, usd: self.spending.usd });
        TurnEnd {
            reason,
            text: self.conversation.last_text(),
            usage,
            turns: self.spending.turns,
            messages: run.messages,
            denials: run.denials,
            busts: std::mem::take(&mut self.busts),
            structured_output: self.structured.as_mut().and_then(StructuredOutput::take),
            stop_reason: run.stop_reason,
            duration: run.started.elapsed(),
            api_duration: self.spending.api_time,
        }
    }

    /// Adds input to the conversation without asking the model.
    pub fn add_context(&mut self, input: UserInput) {
        let words = input.to_text();
        // Reports of sub-agents and commands do not come from the user.
        let is_of_peer = input.origin.as_ref().is_some_and(|it| it["kind"] == "peer");
        let is_order = input.origin.is_none() || is_of_peer && self.tools.agent_id.child().is_some();
        if is_order && !words.trim().is_empty() {
            self.kept.last_words = words;
        }
        self.add(vec![NewLogLine {
            uuid: input.uuid.unwrap_or_else(uuid),
            message: Message { role: haft_types::Role::User, content: input.content },
            origin: match input.origin {
                Some(origin) => MessageOrigin::Reported(origin),
                None => MessageOrigin::User,
            },
            tool_use_result: None,
        }]);
        for attachment in &input.attachments {
            if let Err(err) = self.conversation.attach(attachment) {
                self.tell(AgentEvent::Notice(format!("the session log could not be written: {err}")));
            }
        }
    }

    /// Adds the user's prompt to the conversation, unless a hook rejects it.
    async fn hear(&mut self, input: UserInput) -> Result<(), String> {
        if self.tools.agent_id.child().is_some() {
            // The input comes from another agent, not from the user.
            self.add_context(input);
            return Ok(());
        }
        let event = UserPromptSubmit { prompt: input.to_text(), source: None, session_title: None };
        let outcome = self.hooks(HookEvent::UserPromptSubmit, event).await;
        if let HookDecision::Block { reason, .. } = outcome.decision {
            return Err(reason);
        }
        if let Some(stop) = outcome.stop {
            return Err(stop.reason);
        }
        self.add_context(input);
        for context in outcome.additional_context {
            self.say(Message::user(context), InjectionReason::Context);
        }
        Ok(())
    }

    pub(crate) async fn work(&mut self, run: &mut TurnProgress, cancel: &CancellationToken) -> EndReason {
        loop {
            if cancel.is_cancelled() {
                return EndReason::Interrupted;
            }
            self.obey();
            run.usage_of_others += self.ledger.settle(&mut self.spending, &self.settings.limits);
            if let Some(bound) = self.settings.limits.reached(&self.spending, run.started) {
                return EndReason::Exhausted(bound);
            }
            tokio::select! {
                () = self.ask_window() => (),
                () = cancel.cancelled() => return EndReason::Interrupted,
            }
            self.catch_up();
            self.make_room(cancel).await;
            self.spending.turns += 1;
            let answered = match self.ask(cancel).await {
                Ok(answered) => answered,
                Err(NoAnswer::Interrupted(answered)) => {
                    run.count(&answered);
                    return EndReason::Interrupted;
                }
                Err(NoAnswer::TooDear(bound)) => return EndReason::Exhausted(bound),
                Err(NoAnswer::Failed(error)) => match self.recover(error, run, cancel).await {
                    Ok(()) => continue,
                    Err(reason) => return reason,
                },
            };
            run.rung = 0;
            run.count(&answered.calls);
            run.stop_reason = Some(answered.stop.clone());
            self.warn(run.started);
            match self.after(answered, run, cancel).await {
                Some(reason) => return reason,
                None => self.hear_meanwhile(),
            }
        }
    }

    /// Decides whether to continue after an answer.
    async fn after(
        &mut self,
        answered: EndedAnswer,
        run: &mut TurnProgress,
        cancel: &CancellationToken,
    ) -> Option<EndReason> {
        if let Some(structured) = &mut self.structured
            && let Some(done) = structured.look(&answered.calls)
        {
            return Some(done);
        }
        if let Some(miss) = answered.miss {
            return Some(EndReason::Failed(miss));
        }
        if let Some(reason) = answered.futile {
            return Some(EndReason::NoProgress(reason));
        }
        let stop = answered.calls.iter().find_map(|it| it.report.stop.clone()).or(answered.hooks_stop);
        if let Some(reason) = stop {
            return Some(EndReason::Stopped(reason));
        }
        if cancel.is_cancelled() {
            return Some(EndReason::Interrupted);
        }
        run.cuts =
            if answered.truncated || answered.stop == StopReason::MaxTokens { run.cuts + 1 } else { 0 };
        if MAX_CUTS <= run.cuts {
            return Some(EndReason::OutputTruncated);
        }
        if 0 < run.cuts {
            self.raise();
        }
        self.paused = answered.stop == StopReason::Pause;
        if !answered.calls.is_empty() || self.paused {
            return None;
        }
        match answered.stop {
            StopReason::Refusal => Some(EndReason::Refused),
            StopReason::MaxTokens => {
                let go_on = "Your answer was cut by the output limit. Go on exactly where it ended.";
                self.say(Message::user(go_on), InjectionReason::Demand);
                run.messages += 1;
                None
            }
            StopReason::Interrupted => None,
            _ if self.settings.late_input == LateInputPolicy::GoOn && !self.inbox.is_empty() => None,
            _ => self.stop(run).await,
        }
    }

    /// The model is done. Returns `None` if a hook or missing structured output requires another
    /// request.
    pub(crate) async fn stop(&mut self, run: &mut TurnProgress) -> Option<EndReason> {
        if let Some(structured) = &mut self.structured {
            match structured.nudge() {
                Ok(nudge) => {
                    self.say(Message::user(nudge), InjectionReason::Demand);
                    run.messages += 1;
                    return None;
                }
                Err(reason) => return Some(reason),
            }
        }
        match self.judge_last(run) {
            LastAnswer::Usable => (),
            LastAnswer::AskAgain => return None,
            LastAnswer::End(reason) => return Some(reason),
        }
        let outcome = self.stop_hooks(0 < run.stop_blocks).await;
        match outcome.decision {
            HookDecision::Block { reason, .. } if run.stop_blocks < MAX_STOP_BLOCKS => {
                run.stop_blocks += 1;
                run.messages += 1;
                self.say(Message::user(format!("Stop hook feedback:\n{reason}")), InjectionReason::Demand);
                None
            }
            _ => Some(EndReason::Completed),
        }
    }

    /// Handles a request that finally failed: compacts or switches to the fallback model, or ends the
    /// prompt.
    async fn recover(
        &mut self,
        error: ModelError,
        run: &mut TurnProgress,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        match (&error, self.settings.fallback_model.take()) {
            (ModelError::TooLong { window, .. }, fallback) => {
                self.settings.fallback_model = fallback;
                if self.learn_window(*window) == WindowOverflow::ShorterAnswer
                    || self.shorten_further(&mut run.rung, cancel).await
                {
                    return Ok(());
                }
                let notice = self.out_of_room();
                self.tell(AgentEvent::Notice(notice));
                Err(EndReason::Failed(error))
            }
            (error, Some(fallback))
                if error.is_transient() || matches!(error, ModelError::UnknownModel { .. }) =>
            {
                let notice =
                    format!("{} cannot answer ({error}); going on with {fallback}", self.settings.model);
                self.tell(AgentEvent::Notice(notice));
                self.settings.model = fallback;
                Ok(())
            }
            (_, fallback) => {
                self.settings.fallback_model = fallback;
                Err(EndReason::Failed(error))
            }
        }
    }

    /// Doubles the output limit after a truncated answer, up to the model's maximum.
    fn raise(&mut self) {
        let now = self.raised.or(self.settings.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
        self.raised = Some(now.saturating_mul(2));
        self.seen_window.raise_answer();
    }

    /// Warns once when a limit is nearly reached.
    fn warn(&mut self, since: Instant) {
        if !self.warned
            && let Some(bound) = self.settings.limits.near(&self.spending, since)
        {
            self.warned = true;
            self.tell(AgentEvent::Notice(bound));
        }
    }

    /// Adds input that arrived while calls ran to the next request.
    fn hear_meanwhile(&mut self) {
        for input in self.inbox.take() {
            self.repeats.reset();
            self.add_context(input);
        }
    }

    /// Runs the hooks of an event that does not belong to a tool call.
    pub(crate) async fn hooks(&mut self, event: HookEvent, input: impl Into<EventInput>) -> HooksOutcome {
        let gate = &self.tools.pipeline.gate;
        let hooks = gate.hooks().get();
        if !hooks.listens(event) {
            return HooksOutcome::default();
        }
        let base = gate.hook_base(&self.tools.agent_id, self.tools.state.cwd.to_path_buf());
        let outcome = hooks.run(&HookInput { base, event: input.into(), aliases: Vec::new() }).await;
        let broken = outcome.reports.iter().filter_map(haft_hooks::HookReport::notice);
        for notice in outcome.system_messages.iter().cloned().chain(broken) {
            self.tell(AgentEvent::Notice(notice));
        }
        outcome
    }

    /// Emits an event.
    pub(crate) fn tell(&self, event: AgentEvent) {
        (self.events)(event);
    }

    pub(crate) fn add(&mut self, lines: Vec<NewLogLine>) {
        self.add_with(lines, Vec::new());
    }

    pub(crate) fn add_with(&mut self, lines: Vec<NewLogLine>, states: Vec<LogState>) {
        if let Err(err) = self.conversation.add_with(lines, states) {
            self.tell(AgentEvent::Notice(format!("the session log could not be written: {err}")));
        }
        if let Some(notice) = self.conversation.take_recovery() {
            self.tell(AgentEvent::Notice(notice));
        }
    }

    pub(crate) fn note(&mut self, state: LogState) {
        if let Err(err) = self.conversation.note(state) {
            self.tell(AgentEvent::Notice(format!("the session log could not be written: {err}")));
        }
    }
}
