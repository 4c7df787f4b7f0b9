//! One answer of the model and the calls in it.

use std::{collections::BTreeMap, time::Instant};

use futures_util::StreamExt as _;
use haft_model::{Event, EventStream, ModelError, SentSlot, StopReason};
use haft_runtime::{CallOutline, Executor, Report};
use haft_tool::{ContextChange, ErrorKind};
use haft_types::{Message, MessageBlock, ToolUse, Usage};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    Agent, AgentEvent, BlockEvent, ResultEvent, SaidEvent, Saying,
    agent::ReplayCalls,
    conversation::{NewLine, Origin, uuid},
    log::{CallLine, Purpose, State},
    prefix::Reason,
    repeats::{Effect, Repeated},
    structured::{STRUCTURED_OUTPUT, Structured},
};

/// How an answer ended.
pub(crate) struct Answered {
    pub(crate) stop: StopReason,
    pub(crate) reports: Vec<(ToolUse, Report)>,
    /// A call that led nowhere too often.
    pub(crate) futile: Option<String>,
    /// A call that no recording answers.
    pub(crate) miss: Option<ModelError>,
    /// Whether a call was cut by the output limit.
    pub(crate) truncated: bool,
    pub(crate) usage: Usage,
}

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The person interrupted. What was said until then is in the conversation.
    Interrupted(Vec<(ToolUse, Report)>),
    /// The provider failed before any call was handed out.
    Failed(ModelError),
}

/// The answer while it comes in.
struct Incoming {
    message_id: String,
    model: String,
    usage: Usage,
    /// What was sent, as the provider's cache sees it.
    sent: SentSlot,
    /// Text that may have to be kept when the answer is cut short.
    open_text: String,
    calls: Vec<Slot>,
    /// Reports by position in the answer.
    done: BTreeMap<usize, Report>,
    /// Positions of the calls the executor knows, by its numbers.
    running: Vec<usize>,
    /// How many results are in the log.
    flushed: usize,
    /// Whether blocks may still come. Results wait for the last block: a
    /// message is not interrupted by its own results.
    open: bool,
    stop: Option<StopReason>,
    futile: Option<String>,
    miss: Option<ModelError>,
    /// Changes of recorded calls.
    changes: Vec<ContextChange>,
    truncated: bool,
}

/// A call of the answer.
struct Slot {
    call: ToolUse,
    effect: Effect,
    ran: bool,
}

impl Agent {
    /// Asks the model, runs what it calls while it still speaks, and puts
    /// everything into the conversation.
    pub(crate) async fn ask(&mut self, cancel: &CancellationToken) -> Result<Answered, NoAnswer> {
        let started = Instant::now();
        let mut request = self.request();
        let mut answer = Incoming::new(&self.settings.model);
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
                        self.settle_begun(&answer);
                        return Err(NoAnswer::Failed(error));
                    }
                    ended => {
                        // Calls were handed out: their results go on from here.
                        if let Some(Err(error)) = ended {
                            self.tell(AgentEvent::Notice(error.to_string()));
                            answer.stop = Some(StopReason::Interrupted);
                        }
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
                    answer.done.insert(answer.running[number], report);
                    self.flush(&mut answer);
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

    fn take(&mut self, event: Event, answer: &mut Incoming, executor: &mut Executor) {
        match &event {
            Event::Started { id, model } => {
                answer.message_id.clone_from(id);
                answer.model.clone_from(model);
            }
            Event::Text(piece) => answer.open_text.push_str(piece),
            Event::Usage(usage) => answer.usage = *usage,
            Event::Stopped(reason) => answer.stop = Some(reason.clone()),
            Event::Retrying(_) => {
                answer.open_text.clear();
                answer.usage = Usage::default();
            }
            _ => (),
        }
        self.tell(AgentEvent::Model(event.clone()));
        match event {
            Event::Block(block) => {
                if matches!(block, MessageBlock::Text { .. }) {
                    answer.open_text.clear();
                }
                self.add_block(block.clone(), answer);
                if let MessageBlock::ToolUse(call) = block {
                    self.add_call(call, answer, executor);
                }
            }
            Event::BadCall(bad) => {
                let message = bad.message();
                answer.truncated |= matches!(bad.problem, haft_model::CallProblem::Truncated { .. });
                self.add_block(MessageBlock::ToolUse(bad.call.clone()), answer);
                answer.refuse(bad.call, message);
            }
            Event::Repaired(repair) => {
                self.watch.because(Reason::Repaired(repair.clone()));
                self.tell(AgentEvent::Repaired(repair));
            }
            Event::Retrying(retry) => self.tell(AgentEvent::Retrying(retry)),
            _ => (),
        }
    }

    fn add_block(&mut self, block: MessageBlock, answer: &Incoming) {
        let uuid = uuid();
        let origin =
            Origin::Model { model: answer.model.clone(), id: answer.message_id.clone(), usage: answer.usage };
        self.add(vec![NewLine {
            uuid: uuid.clone(),
            message: Message::assistant(vec![block.clone()]),
            origin,
            tool_use_result: None,
        }]);
        self.tell(AgentEvent::Block(BlockEvent {
            uuid,
            message_id: answer.message_id.clone(),
            model: answer.model.clone(),
            block,
            usage: answer.usage,
        }));
    }

    fn add_call(&mut self, call: ToolUse, answer: &mut Incoming, executor: &mut Executor) {
        if call.name == STRUCTURED_OUTPUT
            && let Some(structured) = &mut self.structured
        {
            match structured.check(&call.input) {
                Ok(()) => answer.accept(call),
                Err(message) => answer.refuse(call, message),
            }
            return;
        }
        let looked = self.repeats.look(&call);
        if looked == Repeated::Run
            && let Some((cassette, calls)) = &self.cassette
            && *calls != ReplayCalls::Real
        {
            match cassette.call(&call.id) {
                Some(report) => {
                    let effect = effect_of(executor.outline(&call));
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
            Repeated::Run => {
                answer.running.push(answer.calls.len());
                let outline = executor.push(match &self.cassette {
                    Some((cassette, _)) => cassette.with_new_ids(call.clone()),
                    None => call.clone(),
                });
                answer.calls.push(Slot { call, effect: effect_of(outline), ran: true });
            }
            Repeated::Refuse(message) => {
                answer.refuse(call, message);
            }
            Repeated::Stop(reason) => {
                answer.refuse(call, format!("Not run: {reason}"));
                answer.futile = Some(reason);
            }
        }
    }

    /// Puts results into the conversation in the order of the calls, as far as
    /// they are there.
    fn flush(&mut self, answer: &mut Incoming) {
        while let Some(report) = answer.done.get(&answer.flushed).filter(|_| !answer.open) {
            let slot = &answer.calls[answer.flushed];
            let mut report = report.clone();
            if let Some((cassette, _)) = &self.cassette {
                cassette.reconcile(&mut report);
            }
            answer.changes.extend(self.refer(&slot.call, &mut report));
            if slot.ran {
                self.repeats.tell(&slot.call, &report, slot.effect);
                self.kept.see(&slot.call, &report, slot.effect);
            }
            self.add_result(&slot.call, report);
            answer.flushed += 1;
        }
    }

    pub(crate) fn add_result(&mut self, call: &ToolUse, report: Report) {
        if let Some(tape) = &self.tape {
            tape.call(call, &report);
        }
        let uuid = uuid();
        let tool_use_result = match report.error {
            None => report.data.clone(),
            Some(_) => Some(format!("Error: {}", report.content.to_text()).into()),
        };
        let line = NewLine {
            uuid: uuid.clone(),
            message: Message { role: haft_types::Role::User, content: vec![report.to_block()] },
            origin: Origin::User,
            tool_use_result,
        };
        let mut states = vec![State::Call(Box::new(CallLine::of(&report, &self.tools.agent_id)))];
        let ours = report.meta.as_ref().and_then(Value::as_object).map(|meta| {
            let ours = meta.iter().filter(|(key, _)| key.starts_with("haft/"));
            ours.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>()
        });
        states
            .extend(ours.filter(|it| !it.is_empty()).map(|meta| State::Meta { call: call.id.clone(), meta }));
        self.add_with(vec![line], states);
        for notice in &report.notices {
            self.tell(AgentEvent::Notice(notice.clone()));
        }
        self.tell(AgentEvent::Result(Box::new(ResultEvent { uuid, report, input: call.input.clone() })));
    }

    async fn finish(&mut self, executor: &Executor, mut answer: Incoming) -> Result<Answered, NoAnswer> {
        self.settle_begun(&answer);
        let mut changes = executor.committed().to_vec();
        changes.append(&mut answer.changes);
        self.tools.state.apply(&changes);
        if !changes.is_empty() {
            self.note(State::Changes { changes });
        }
        let mut reports: Vec<Report> = std::mem::take(&mut answer.done).into_values().collect();
        let calls: Vec<ToolUse> = answer.calls.into_iter().map(|slot| slot.call).collect();
        let inputs: Vec<_> = calls.iter().map(|call| call.input.clone()).collect();
        if !reports.is_empty() {
            self.tools.after_batch(&inputs, &mut reports).await;
        }
        for report in &mut reports {
            for message in std::mem::take(&mut report.new_messages) {
                self.say(message, Saying::Addition);
            }
            for context in std::mem::take(&mut report.context) {
                self.say(Message::user(context), Saying::Context);
            }
        }
        Ok(Answered {
            stop: answer.stop.unwrap_or(StopReason::Interrupted),
            reports: calls.into_iter().zip(reports).collect(),
            futile: answer.futile,
            miss: answer.miss,
            truncated: answer.truncated,
            usage: answer.usage,
        })
    }

    /// The person interrupted: what was said stays, what ran says how far it
    /// came.
    async fn cut_off(&mut self, mut executor: Executor, mut answer: Incoming) -> Vec<(ToolUse, Report)> {
        if !answer.open_text.trim().is_empty() {
            let text = std::mem::take(&mut answer.open_text);
            self.add_block(MessageBlock::Text { text }, &answer);
        }
        self.charge(answer.usage);
        self.settle_begun(&answer);
        executor.close();
        answer.open = false;
        while let Some((number, report)) = executor.next().await {
            answer.done.insert(answer.running[number], report);
        }
        self.flush(&mut answer);
        let mut changes = executor.committed().to_vec();
        changes.append(&mut answer.changes);
        self.tools.state.apply(&changes);
        if !changes.is_empty() {
            self.note(State::Changes { changes });
        }
        let reports = std::mem::take(&mut answer.done).into_values();
        answer.calls.into_iter().map(|slot| slot.call).zip(reports).collect()
    }

    /// A request that was answered, if only in part, is written down.
    fn settle_begun(&mut self, answer: &Incoming) {
        if !answer.message_id.is_empty() {
            self.settle(answer.sent.take().as_ref(), answer.usage, Purpose::Answer);
        }
    }

    /// Says something in the person's place.
    pub(crate) fn say(&mut self, message: Message, why: Saying) {
        let uuid = uuid();
        self.add(vec![NewLine {
            uuid: uuid.clone(),
            message: message.clone(),
            origin: Origin::Meta,
            tool_use_result: None,
        }]);
        self.tell(AgentEvent::Said(SaidEvent { uuid, message, why }));
    }
}

impl Incoming {
    fn new(model: &str) -> Self {
        Self {
            message_id: String::new(),
            model: model.to_owned(),
            usage: Usage::default(),
            sent: SentSlot::default(),
            open_text: String::new(),
            calls: Vec::new(),
            done: BTreeMap::new(),
            running: Vec::new(),
            flushed: 0,
            open: true,
            stop: None,
            futile: None,
            miss: None,
            changes: Vec::new(),
            truncated: false,
        }
    }

    fn is_done(&self) -> bool {
        self.done.len() == self.calls.len()
    }

    /// The call hands over the output that was asked for.
    fn accept(&mut self, call: ToolUse) {
        tracing::debug!(call = %call.id, tool = call.name, "the model calls a tool");
        self.done.insert(self.calls.len(), Structured::accepted(&call));
        self.calls.push(Slot { call, effect: Effect::Looked, ran: false });
    }

    /// Answers a call as it was answered before.
    fn recorded(&mut self, call: ToolUse, report: Report, effect: Effect) {
        self.changes.extend(report.changes.iter().filter(|change| change.is_lasting()).cloned());
        self.done.insert(self.calls.len(), report);
        self.calls.push(Slot { call, effect, ran: true });
    }

    /// Answers a call without running it.
    fn refuse(&mut self, call: ToolUse, message: String) {
        let report = Report::refused(call.id.clone(), call.name.clone(), ErrorKind::InvalidInput, message);
        self.done.insert(self.calls.len(), report);
        self.calls.push(Slot { call, effect: Effect::Looked, ran: false });
    }
}

fn effect_of(outline: CallOutline) -> Effect {
    if outline.is_read_only { Effect::Looked } else { Effect::Acted }
}

async fn next(stream: &mut EventStream) -> Option<Result<Event, ModelError>> {
    stream.next().await
}
