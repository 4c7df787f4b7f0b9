//! One answer of the model and its tool calls.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use futures_util::StreamExt as _;
use haft_model::{ModelError, ModelEvent, ModelStream, SentPrefixSlot, StopReason};
use haft_tool::{ContextChange, ErrorKind};
use haft_tool_runtime::{AnsweredCall, CallReport, CallSummary, Executor, HookNotes};
use haft_types::{Message, MessageBlock, ToolUse, Usage};
use tokio_util::sync::CancellationToken;

use crate::{
    Agent, AgentEvent, BlockEvent, InjectedMessage, InjectionReason, LimitReached, RetractedAnswer,
    agent::ReplayCalls,
    conversation::{MessageOrigin, NewLogLine, uuid},
    log::{LogState, ShownReason},
    prefix::CacheMissReason,
    repetition_guard::{RepetitionEffect, RepetitionVerdict},
    request_cost::UsedTokens,
    shown_output::OpenText,
    structured_output::{STRUCTURED_OUTPUT, StructuredOutput},
    unique_call_ids::CallIds,
};

/// How an answer ended.
pub(crate) struct EndedAnswer {
    pub(crate) stop: StopReason,
    pub(crate) calls: Vec<Arc<AnsweredCall>>,
    /// Reason of PostToolUse hooks to end the turn.
    pub(crate) hooks_stop: Option<String>,
    /// Message about a call that was repeated in vain too often.
    pub(crate) futile: Option<String>,
    /// A call that the recording does not contain.
    pub(crate) miss: Option<ModelError>,
    /// Whether a call was truncated by the output limit.
    pub(crate) truncated: bool,
}

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The user interrupted. The partial answer is in the conversation.
    Interrupted(Vec<Arc<AnsweredCall>>),
    /// The provider failed before any call was started.
    Failed(ModelError),
    /// The budget does not cover the request; it was not sent.
    TooDear(LimitReached),
}

/// State of an answer while it streams.
pub(crate) struct IncomingAnswer {
    pub(crate) message_id: String,
    pub(crate) model: String,
    pub(crate) usage: Usage,
    pub(crate) paid: Option<UsedTokens>,
    /// Whether its usage is in the log.
    pub(crate) is_settled: bool,
    /// The request that was sent, for the prompt cache comparison.
    pub(crate) sent: SentPrefixSlot,
    /// Streamed text that must be logged if the answer breaks off.
    words: OpenText,
    /// Emitted blocks that can still be withdrawn: until a call is started, the answer may be requested
    /// again.
    pending: Vec<(String, MessageBlock)>,
    ids: CallIds,
    calls: Vec<AnswerSlot>,
    /// Finished calls, by position in the answer.
    done: BTreeMap<usize, Arc<AnsweredCall>>,
    /// Result of the early call, before the call was confirmed as part of the answer.
    early_done: Option<CallReport>,
    /// Positions of the calls by executor number; `None` for an early call that is not confirmed yet.
    running: Vec<Option<usize>>,
    /// A read-only call that runs although the answer may still be withdrawn, and its executor number.
    early: Option<(ToolUse, usize, RepetitionEffect)>,
    /// Number of results in the log.
    flushed: usize,
    /// Whether blocks may still arrive. Results are added after the last block, so that they do not
    /// split the message.
    open: bool,
    stop: Option<StopReason>,
    futile: Option<String>,
    miss: Option<ModelError>,
    /// Context changes made by replayed calls.
    changes: Vec<ContextChange>,
    truncated: bool,
}

/// A call of the answer.
struct AnswerSlot {
    call: ToolUse,
    effect: RepetitionEffect,
    ran: bool,
    /// Whether the result was emitted.
    is_told: bool,
}

impl Agent {
    /// Requests an answer, runs its calls while it streams, and adds everything to the conversation.
    pub(crate) async fn ask(&mut self, cancel: &CancellationToken) -> Result<EndedAnswer, NoAnswer> {
        let started = Instant::now();
        let mut request = self.request();
        self.note_fork_point();
        if let Err(bound) = self.affordable(&mut request, cancel).await? {
            return Err(NoAnswer::TooDear(bound));
        }
        let mut answer = IncomingAnswer::new(&self.settings.model);
        request.sent = Some(answer.sent.clone());
        let (session, turn) = (self.conversation.session_id().clone(), self.spending.turns);
        tracing::debug!(%session, turn, messages = request.messages.len(), "waits for the model");
        let mut stream = self.provider.stream(request);
        self.tools.witness = Some(self.conversation.witness());
        let mut executor = self.tools.executor(cancel);
        let mut streaming = true;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled(), if streaming => {
                    drop(stream);
                    self.spending.api_time += started.elapsed();
                    return Err(NoAnswer::Interrupted(self.cut_off(executor, answer).await));
                }
                event = next(&mut stream), if streaming => match event {
                    Some(Ok(event)) => {
                        self.take(event, &mut answer, &mut executor);
                    }
                    Some(Err(error)) if answer.calls.is_empty() => {
                        self.spending.api_time += started.elapsed();
                        self.settle_partial_answer(&mut answer);
                        self.withdraw(&mut answer);
                        return Err(NoAnswer::Failed(error));
                    }
                    ended => {
                        // Calls were started: the turn continues with their results.
                        if let Some(Err(error)) = ended {
                            self.tell(AgentEvent::Notice(error.to_string()));
                            answer.stop = Some(StopReason::Interrupted);
                        }
                        self.settle_blocks(&mut answer);
                        // Before the calls run: sub-agents need the reserved money, and nothing is lost
                        // if the process is killed.
                        self.window_held(&answer.usage);
                        self.settle_partial_answer(&mut answer);
                        self.spending.api_time += started.elapsed();
                        streaming = false;
                        answer.open = false;
                        executor.close();
                        self.flush(&mut answer);
                        let (calls, done) = (answer.calls.len(), answer.done.len());
                        tracing::debug!(%session, turn, calls, done, "the model is done; waits for calls");
                    }
                },
                Some((number, report)) = executor.next() => {
                    let id = report.id.clone();
                    answer.ended(number, report);
                    self.flush(&mut answer);
                    self.tell_waiting(&mut answer, &id);
                }
                else => break,
            }
            if !streaming && answer.is_done() {
                break;
            }
        }
        self.flush(&mut answer);
        self.finish(&executor, answer).await
    }

    fn take(&mut self, mut event: ModelEvent, answer: &mut IncomingAnswer, executor: &mut Executor) {
        answer.ids.make_unique(&mut event, |id| self.conversation.has_call(id));
        match &event {
            ModelEvent::Started { id, model } => {
                answer.message_id.clone_from(id);
                answer.model.clone_from(model);
            }
            ModelEvent::Text(piece) => answer.words.said(piece),
            ModelEvent::Thinking(piece) => answer.words.thought(piece),
            ModelEvent::ToolStarted { name, .. } if self.cassette.is_none() => executor.foresee(name),
            ModelEvent::Usage(usage) => answer.usage = *usage,
            ModelEvent::Stopped(reason) => {
                self.settle_blocks(answer);
                answer.stop = Some(reason.clone());
            }
            ModelEvent::Retrying(_) => {
                self.settle_broken(answer);
                self.withdraw(answer);
                answer.usage = Usage::default();
                answer.message_id.clear();
            }
            _ => (),
        }
        self.tell(AgentEvent::Model(event.clone()));
        match event {
            ModelEvent::Block(block) => {
                answer.words.closed_by(&block);
                if let MessageBlock::ToolUse(call) = block {
                    self.add_block(MessageBlock::ToolUse(call.clone()), answer);
                    self.add_call(call, answer, executor);
                } else if answer.calls.is_empty() {
                    let event = answer.hold_block(block);
                    self.tell(event);
                } else {
                    self.add_block(block, answer);
                }
            }
            ModelEvent::CallWritten(call) => self.start_early(call, answer, executor),
            ModelEvent::BadCall(bad) => {
                answer.forget_early();
                let message = bad.message();
                answer.truncated |= matches!(bad.problem, haft_model::CallProblem::Truncated { .. });
                self.add_block(MessageBlock::ToolUse(bad.call.clone()), answer);
                answer.refuse(bad.call, message);
            }
            ModelEvent::Repaired(repair) => {
                self.watch.because(CacheMissReason::Repaired(repair.clone()));
                self.tell(AgentEvent::Repaired(repair));
            }
            ModelEvent::Retrying(mut retry) => {
                if let Some(masked) = self.conversation.masker.mask(&retry.reason) {
                    retry.reason = masked;
                }
                self.tell(AgentEvent::Retrying(retry));
            }
            _ => (),
        }
    }

    /// Withdraws what was emitted of an answer that breaks off.
    fn withdraw(&mut self, answer: &mut IncomingAnswer) {
        let (shown, has_spoken) = answer.words.take_shown(answer.pending.iter().map(|(_, block)| block));
        let withdrawn = RetractedAnswer {
            message_id: answer.message_id.clone(),
            blocks: answer.pending.drain(..).map(|(uuid, _)| uuid).collect(),
            calls: answer.early.iter().map(|(call, ..)| call.id.clone()).collect(),
        };
        answer.forget_early();
        if has_spoken || !withdrawn.blocks.is_empty() || !withdrawn.calls.is_empty() {
            self.store_unsent_text(ShownReason::BrokenOff, &withdrawn.message_id, shown);
            self.tell(AgentEvent::Withdrawn(withdrawn));
        }
    }

    /// Adds blocks that can no longer be withdrawn to the conversation.
    fn settle_blocks(&mut self, answer: &mut IncomingAnswer) {
        for (uuid, block) in std::mem::take(&mut answer.pending) {
            let origin = MessageOrigin::Model {
                model: answer.model.clone(),
                id: answer.message_id.clone(),
                usage: answer.usage,
            };
            let message = Message::assistant(vec![block]);
            self.add(vec![NewLogLine { uuid, message, origin, tool_use_result: None }]);
        }
    }

    /// Adds a block to the conversation.
    fn add_block(&mut self, block: MessageBlock, answer: &mut IncomingAnswer) {
        let event = answer.hold_block(block);
        self.settle_blocks(answer);
        self.tell(event);
    }

    /// Starts a read-only call before it is certain that the answer stands.
    fn start_early(&mut self, call: ToolUse, answer: &mut IncomingAnswer, executor: &mut Executor) {
        let is_plain =
            self.cassette.is_none() && call.name != STRUCTURED_OUTPUT && !self.repeats.knows(&call);
        if !is_plain || answer.early.is_some() || self.calls_are_over {
            return;
        }
        if let Some(outline) = executor.push_if_read_only(&call) {
            answer.early = Some((call, answer.running.len(), effect_of(outline)));
            answer.running.push(None);
            self.tell_calls(executor);
        }
    }

    /// Emits the display texts of calls that were just started.
    fn tell_calls(&self, executor: &mut Executor) {
        for shown in executor.take_shown() {
            self.tell(AgentEvent::Called(shown));
        }
    }

    fn add_call(&mut self, call: ToolUse, answer: &mut IncomingAnswer, executor: &mut Executor) {
        if call.name == STRUCTURED_OUTPUT
            && let Some(structured) = &mut self.structured
        {
            match structured.check(&call.input) {
                Ok(()) => answer.accept(call),
                Err(message) => answer.refuse(call, message),
            }
            return;
        }
        if self.calls_are_over {
            return answer.refuse(call, String::from("Not run: only your report is wanted now, in words."));
        }
        if answer.confirm_early(&call) {
            return self.tell_waiting(answer, &call.id);
        }
        let looked = self.repeats.look(&call);
        if looked == RepetitionVerdict::Run
            && let Some((cassette, calls)) = &self.cassette
            && *calls != ReplayCalls::Real
        {
            match cassette.call(&call.id) {
                Some(report) => {
                    let effect = effect_of(executor.outline(&call));
                    self.tell_calls(executor);
                    return answer.recorded(call, report, effect);
                }
                None if *calls == ReplayCalls::Recorded => {
                    let miss = cassette.miss(&call);
                    answer.refuse(call, miss.to_string());
                    answer.miss.get_or_insert(miss);
                    return;
                }
                None => (),
            }
        }
        match looked {
            RepetitionVerdict::Run => {
                answer.running.push(Some(answer.calls.len()));
                let outline = executor.push(match &self.cassette {
                    Some((cassette, _)) => cassette.with_new_ids(call.clone()),
                    None => call.clone(),
                });
                answer.calls.push(AnswerSlot::new(call, effect_of(outline)));
                self.tell_calls(executor);
            }
            RepetitionVerdict::Refuse(message) => {
                answer.refuse(call, message);
            }
            RepetitionVerdict::Stop(reason) => {
                answer.refuse(call, format!("Not run: {reason}"));
                answer.futile = Some(reason);
            }
        }
    }

    /// Emits a result at once whose place in the conversation is not reached yet; [`Agent::flush`] emits
    /// the others.
    fn tell_waiting(&self, answer: &mut IncomingAnswer, id: &haft_types::CallId) {
        let mut waiting = answer.done.range(answer.flushed..);
        if let Some((position, answered)) = waiting.find(|(_, it)| it.call.id == *id) {
            answer.calls[*position].is_told = true;
            self.tell(AgentEvent::CallFinished(Arc::clone(answered)));
        }
    }

    /// Adds results to the conversation in the order of the calls, up to the first missing one.
    fn flush(&mut self, answer: &mut IncomingAnswer) {
        while let Some(answered) = answer.done.get(&answer.flushed).filter(|_| !answer.open) {
            let slot = &answer.calls[answer.flushed];
            let mut answered = Arc::clone(answered);
            if let Some((cassette, _)) = &self.cassette {
                cassette.reconcile(&mut Arc::make_mut(&mut answered).report);
            }
            answer.changes.extend(self.refer(&mut answered));
            if slot.ran {
                self.repeats.tell(&answered.call, &answered.report, slot.effect);
                self.kept.see(&answered.call, &answered.report, slot.effect);
            }
            if slot.is_told {
                let uuid = self.log_result(&answered);
                self.tell(AgentEvent::ResultLogged { uuid, answered });
            } else {
                self.add_result(&answered);
            }
            answer.flushed += 1;
        }
    }

    async fn finish(
        &mut self,
        executor: &Executor,
        mut answer: IncomingAnswer,
    ) -> Result<EndedAnswer, NoAnswer> {
        self.settle_partial_answer(&mut answer);
        let mut changes = executor.committed().to_vec();
        changes.append(&mut answer.changes);
        self.tools.state.apply(&changes);
        if !changes.is_empty() {
            self.note(LogState::Changes { changes });
        }
        let calls: Vec<Arc<AnsweredCall>> = std::mem::take(&mut answer.done).into_values().collect();
        let hooks =
            if calls.is_empty() { HookNotes::default() } else { self.tools.after_batch(&calls).await };
        for AnsweredCall { report, .. } in calls.iter().map(Arc::as_ref) {
            for message in report.added_messages() {
                self.say(message, InjectionReason::Addition);
            }
            for context in &report.context {
                self.say(Message::user(context.as_str()), InjectionReason::Context);
            }
        }
        for context in hooks.context {
            self.say(Message::user(context), InjectionReason::Context);
        }
        Ok(EndedAnswer {
            stop: answer.stop.unwrap_or(StopReason::Interrupted),
            calls,
            hooks_stop: hooks.stop,
            futile: answer.futile,
            miss: answer.miss,
            truncated: answer.truncated,
        })
    }

    /// The user interrupted: keeps the text, stops the calls and adds their results.
    async fn cut_off(
        &mut self,
        mut executor: Executor,
        mut answer: IncomingAnswer,
    ) -> Vec<Arc<AnsweredCall>> {
        self.settle_blocks(&mut answer);
        self.store_unsent_text(ShownReason::Interrupted, &answer.message_id, answer.words.take_thought());
        if !answer.words.text.trim().is_empty() {
            let text = std::mem::take(&mut answer.words.text);
            self.add_block(MessageBlock::Text { text }, &mut answer);
        }
        self.settle_partial_answer(&mut answer);
        executor.close();
        answer.open = false;
        while let Some((number, report)) = executor.next().await {
            answer.ended(number, report);
        }
        self.flush(&mut answer);
        let mut changes = executor.committed().to_vec();
        changes.append(&mut answer.changes);
        self.tools.state.apply(&changes);
        if !changes.is_empty() {
            self.note(LogState::Changes { changes });
        }
        answer.done.into_values().collect()
    }

    /// Reserves money for the request. An interrupt ends the wait.
    async fn affordable(
        &mut self,
        request: &mut haft_model::Request,
        cancel: &CancellationToken,
    ) -> Result<Result<(), LimitReached>, NoAnswer> {
        tokio::select! {
            afforded = self.reserve_budget(request) => Ok(afforded),
            () = cancel.cancelled() => Err(NoAnswer::Interrupted(Vec::new())),
        }
    }

    /// Adds a message with the user role on behalf of the program.
    pub(crate) fn say(&mut self, message: Message, why: InjectionReason) {
        self.say_from(message, why, MessageOrigin::Meta);
    }

    /// Like [`Agent::say`], with an origin for the log.
    pub(crate) fn say_from(&mut self, message: Message, why: InjectionReason, origin: MessageOrigin) {
        let uuid = uuid();
        self.add(vec![NewLogLine {
            uuid: uuid.clone(),
            message: message.clone(),
            origin,
            tool_use_result: None,
        }]);
        self.tell(AgentEvent::Said(InjectedMessage { uuid, message, why }));
    }
}

impl AnswerSlot {
    fn new(call: ToolUse, effect: RepetitionEffect) -> Self {
        Self { call, effect, ran: true, is_told: false }
    }
}

impl IncomingAnswer {
    fn new(model: &str) -> Self {
        Self {
            message_id: String::new(),
            model: model.to_owned(),
            usage: Usage::default(),
            paid: None,
            is_settled: false,
            sent: SentPrefixSlot::default(),
            words: OpenText::default(),
            pending: Vec::new(),
            ids: CallIds::default(),
            calls: Vec::new(),
            done: BTreeMap::new(),
            running: Vec::new(),
            early: None,
            early_done: None,
            flushed: 0,
            open: true,
            stop: None,
            futile: None,
            miss: None,
            changes: Vec::new(),
            truncated: false,
        }
    }

    /// Holds a complete block back until the answer is certain to stand.
    fn hold_block(&mut self, block: MessageBlock) -> AgentEvent {
        let uuid = uuid();
        self.pending.push((uuid.clone(), block.clone()));
        AgentEvent::Block(BlockEvent {
            uuid,
            message_id: self.message_id.clone(),
            model: self.model.clone(),
            block,
            usage: self.usage,
        })
    }

    /// Records the end of a call.
    fn ended(&mut self, number: usize, report: CallReport) {
        match self.running.get(number).copied().flatten() {
            Some(position) => self.put(position, report),
            None if self.early.as_ref().is_some_and(|(_, early, _)| *early == number) => {
                self.early_done = Some(report);
            }
            // The call was withdrawn.
            None => (),
        }
    }

    /// Whether this is the early call, which is now confirmed as part of the answer.
    fn confirm_early(&mut self, call: &ToolUse) -> bool {
        let Some((_, number, effect)) = self.early.take_if(|(early, ..)| early == call) else { return false };
        let position = self.calls.len();
        self.running[number] = Some(position);
        self.calls.push(AnswerSlot::new(call.clone(), effect));
        if let Some(report) = self.early_done.take() {
            self.put(position, report);
        }
        true
    }

    /// Sets the result at this position.
    fn put(&mut self, position: usize, report: CallReport) {
        let call = self.calls[position].call.clone();
        self.done.insert(position, Arc::new(AnsweredCall { call, report }));
    }

    /// Adds a call that did not run.
    fn push_unrun(&mut self, call: ToolUse, report: CallReport) {
        self.calls.push(AnswerSlot { ran: false, ..AnswerSlot::new(call, RepetitionEffect::Looked) });
        self.put(self.calls.len() - 1, report);
    }

    fn forget_early(&mut self) {
        self.early = None;
        self.early_done = None;
    }

    fn is_done(&self) -> bool {
        self.done.len() == self.calls.len()
    }

    /// The call delivers the structured output.
    fn accept(&mut self, call: ToolUse) {
        tracing::debug!(call = %call.id, tool = call.name, "the model calls a tool");
        let report = StructuredOutput::accepted(&call);
        self.push_unrun(call, report);
    }

    /// Answers a call from the recording.
    fn recorded(&mut self, call: ToolUse, report: CallReport, effect: RepetitionEffect) {
        self.changes.extend(report.changes.iter().filter(|change| change.is_lasting()).cloned());
        self.calls.push(AnswerSlot::new(call, effect));
        self.put(self.calls.len() - 1, report);
    }

    /// Answers a call with an error, without running it.
    fn refuse(&mut self, call: ToolUse, message: String) {
        let report =
            CallReport::refused(call.id.clone(), call.name.clone(), ErrorKind::InvalidInput, message);
        self.push_unrun(call, report);
    }
}

fn effect_of(outline: CallSummary) -> RepetitionEffect {
    if outline.is_read_only { RepetitionEffect::Looked } else { RepetitionEffect::Acted }
}

async fn next(stream: &mut ModelStream) -> Option<Result<ModelEvent, ModelError>> {
    stream.next().await
}
