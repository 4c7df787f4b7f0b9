//! What happens when a turn ends.

use haft_agent::{
    Agent, CompactionOutcome, Conversation, EndReason, TurnEnd,
    log::{RemoteLogHandle, ShownContent, ShownLine, ShownReason, session_cost},
};
use haft_hooks::SessionSource;
use haft_types::{MessageBlock, SessionId, Usage};
use serde_json::Value;

use super::{
    RunnerState, SessionActor,
    running::{FinishedWork, RunningWork, TurnEnding, TurnRun, facts_of},
};
use crate::{
    Activity, Appended, CommandEnded, CommandResult, Prompt, PromptAuthor, PromptState, SessionEventKind,
    TurnEnded, TurnInfo,
    agents::{AgentLogs, StoppedBy},
    build::{SessionRunner, stamp},
    context_usage::ContextUsage,
    extensions::LocalCommand,
    session_logs::open_log,
    turn_observer::TurnSummary,
};

/// A turn panicked or was aborted; the session ends.
pub(super) struct TurnCrashed;

impl SessionActor {
    pub(super) fn finish(&mut self, ended: FinishedWork) -> Result<(), TurnCrashed> {
        let running = match std::mem::replace(&mut self.seat, RunnerState::Broken) {
            RunnerState::Working(running) => running,
            other => {
                self.seat = other;
                return Ok(());
            }
        };
        match (running, ended) {
            (RunningWork::Turn(turn), FinishedWork::Turn(Ok((agent, ending)))) => {
                self.finish_turn(turn, agent, ending)
            }
            (RunningWork::Calls(_), FinishedWork::Calls(Ok(session))) => {
                self.seat = RunnerState::Idle(SessionRunner::Calls(session));
            }
            (
                _,
                FinishedWork::Turn(Err(err)) | FinishedWork::Calls(Err(err)) | FinishedWork::Look(Err(err)),
            ) => {
                self.events.tell(SessionEventKind::Broke(format!("the turn broke off inside Haft: {err}")));
                return Err(TurnCrashed);
            }
            (_, FinishedWork::Turn(Ok((agent, _))) | FinishedWork::Look(Ok(agent))) => {
                self.seat = RunnerState::Idle(SessionRunner::Agent(agent))
            }
            (_, FinishedWork::Calls(Ok(session))) => {
                self.seat = RunnerState::Idle(SessionRunner::Calls(session))
            }
        }
        Ok(())
    }

    fn finish_turn(&mut self, mut run: TurnRun, mut agent: Box<Agent>, ending: TurnEnding) {
        self.desk.set_working(false);
        self.take_late(&agent, &mut run);
        match ending {
            TurnEnding::Turn(end) => self.tell_turn(&mut agent, *end, &run),
            TurnEnding::Local(command, summed_up) => {
                let result = self.local_result(&mut agent, command, summed_up);
                self.tell_command(&mut agent, result, &run);
            }
            TurnEnding::Failed(name, problem) => {
                self.tell_command(&mut agent, CommandResult::Failed(name, problem), &run);
            }
        }
        for prompt in &run.prompts {
            self.tell_prompt(Some(prompt), PromptState::Completed);
        }
        let lent = self.skills.end_turn();
        if lent.effort.is_some() || lent.model.is_some() {
            agent.obey();
        }
        if let Some(effort) = lent.effort {
            agent.settings.effort = effort;
        }
        if let Some(model) = lent.model.filter(|it| it.lent == agent.settings.model) {
            agent.settings.model = model.before;
        }
        let model = self.model_is();
        for change in std::mem::take(&mut self.later) {
            change.apply(&mut agent, &self.catalog, model, &self.premises);
        }
        self.tell_appended();
        self.snapshot = Some(ContextUsage::measure(&agent, &self.catalog));
        self.seat = RunnerState::Idle(SessionRunner::Agent(agent));
        if self.queue.is_empty() {
            self.events.tell(SessionEventKind::Activity(Activity::Idle));
        }
    }

    /// Queues input that the model did not receive during the turn as new prompts, and counts the rest
    /// as answered by this turn.
    fn take_late(&mut self, agent: &Agent, run: &mut TurnRun) {
        let late = agent.inbox.take();
        let named = std::mem::take(&mut run.meanwhile);
        let is_late = |name: &String| late.iter().any(|it| it.uuid.as_ref() == Some(name));
        for name in named.iter().filter(|name| !is_late(name)) {
            self.tell_prompt(Some(name), PromptState::Started);
            run.prompts.push(name.clone());
        }
        self.queue.extend(late.into_iter().map(|input| Prompt {
            is_named: input.uuid.as_ref().is_some_and(|uuid| named.contains(uuid)),
            uuid: input.uuid.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            message: Value::Null,
            content: input.content,
            wants_answer: true,
            is_verbatim: true,
            speaker: if input.origin.is_some() { PromptAuthor::Task } else { PromptAuthor::Person },
            origin: input.origin,
        }));
    }

    fn tell_turn(&mut self, agent: &mut Agent, mut end: TurnEnd, run: &TurnRun) {
        let mut stopped_in_tools = false;
        if self.asked.take_interrupt() && matches!(end.reason, EndReason::Stopped(_)) {
            end.reason = EndReason::Interrupted;
            end.messages += 1;
            stopped_in_tools = true;
            agent.note_interruption();
        }
        end.denials.extend(self.agents.take_denied());
        self.watch.report(&end);
        if let Some(remark) = end.reason.remark() {
            keep_shown(agent, run, ShownReason::Ended, ShownContent::Said(remark));
        }
        self.tell_logged(agent);
        let (mut trace, mut bill) = self.watch.end_turn(agent);
        self.agents.name_kinds(&mut bill);
        trace.in_tools |= stopped_in_tools;
        self.api_ms = u64::try_from(agent.spending().api_time.as_millis()).unwrap_or(u64::MAX);
        let facts = self.turn_facts(run, trace).0;
        self.events.tell(SessionEventKind::TurnEnded(Box::new(TurnEnded { end, facts, bill })));
    }

    /// Emits events for prompts that were added to the conversation without an answer.
    pub(super) fn tell_appended(&mut self) {
        for name in std::mem::take(&mut self.appended) {
            let facts = TurnInfo {
                prompts: name.into_iter().collect(),
                queued: self.queue.len(),
                index: self.results + self.unanswered,
                ..TurnInfo::default()
            };
            self.unanswered += 1;
            self.events
                .tell(SessionEventKind::Appended(Box::new(Appended { facts, bill: self.watch.bill() })));
        }
    }

    fn turn_facts(
        &mut self,
        run: &TurnRun,
        trace: TurnSummary,
    ) -> (TurnInfo, Option<haft_agent::CompactedEvent>) {
        let index = self.results + self.unanswered;
        self.results += 1;
        let facts = TurnInfo {
            prompts: run.prompts.clone(),
            queued: self.queue.len(),
            index,
            in_tools: trace.in_tools,
            deferred: trace.deferred,
            ttft_ms: trace.ttft_ms,
            prompt_text: run.prompt_text.clone(),
            speaker: run.speaker,
            origin: run.origin.clone(),
        };
        (facts, trace.compacted)
    }

    fn local_result(
        &mut self,
        agent: &mut Agent,
        command: LocalCommand,
        summed_up: Option<CompactionOutcome>,
    ) -> CommandResult {
        match command {
            LocalCommand::Clear => {
                self.clear(agent);
                CommandResult::Cleared
            }
            LocalCommand::Compact => match summed_up {
                Some(CompactionOutcome::NotDone(why)) => CommandResult::NotCompacted(why),
                Some(CompactionOutcome::Done(_)) | None => {
                    CommandResult::Compacted { event: None, summary: first_words(agent) }
                }
            },
            LocalCommand::Context => {
                CommandResult::Context(ContextUsage::measure(agent, &self.catalog).text())
            }
            LocalCommand::Cost => CommandResult::Cost(cost_text(agent)),
        }
    }

    fn tell_command(&mut self, agent: &mut Agent, mut result: CommandResult, run: &TurnRun) {
        if let Some(piece) = result.shown() {
            keep_shown(agent, run, ShownReason::Command, piece);
        }
        self.tell_logged(agent);
        let (trace, bill) = self.watch.end_turn(agent);
        let (facts, compacted) = self.turn_facts(run, trace);
        if let CommandResult::Compacted { event, .. } = &mut result {
            *event = compacted;
        }
        let session = facts_of(agent, &self.servers, &self.facts());
        self.events.tell(SessionEventKind::CommandEnded(Box::new(CommandEnded {
            session,
            facts,
            bill,
            result,
        })));
    }

    /// `/clear`: starts a session with a new id and log in the same directory. The old log is not
    /// changed.
    fn clear(&mut self, agent: &mut Agent) {
        self.tell_logged(agent);
        let id = SessionId::from(uuid::Uuid::new_v4().to_string());
        let (keeps, mirrors) = (agent.conversation.log_path().is_some(), agent.conversation.is_mirrored());
        let path = self.logs.path(id.as_str());
        let mut fresh = Conversation::new(id.clone(), &self.premises.cwd, None);
        if keeps {
            match open_log(&path) {
                Ok(log) => {
                    let fence = self.spec.log.fence.clone();
                    let fence = fence.map(|it| RemoteLogHandle::new(it, format!("cleared/{id}.jsonl")));
                    fresh.set_log(log.fenced(fence));
                }
                Err(problem) => self.events.notice(problem.to_string()),
            }
            fresh.mask(self.premises.masker.clone());
        }
        if mirrors {
            fresh.mirror();
        }
        fresh.stamp(stamp(&self.premises, &self.spec.log));
        agent.conversation = fresh;
        agent.restore_spending(Usage::default(), 0.0);
        agent.tools.state.loaded.clear();
        self.watch.clear_bill();
        self.pipeline.gate.hooks().set_session(id.clone(), path);
        self.events.tell(SessionEventKind::Cleared(id.clone()));
        self.session_id = id.clone();
        self.agents.stop_background(StoppedBy::Person);
        let stamp = stamp(&self.premises, &self.spec.log);
        let log = self.logs.path(id.as_str());
        let fence = self.spec.log.fence.clone();
        self.agents.set_logs(keeps.then(|| AgentLogs::beside(&log, id, stamp, mirrors).fenced(fence)));
        self.skills.reset_conversation();
        self.begins = Some(SessionSource::Clear);
    }

    /// Emits the lines written to the log, if the spec asks for it (`LogSpec::mirror`).
    fn tell_logged(&self, agent: &mut Agent) {
        let path = agent.conversation.log_path().map(std::path::Path::to_owned).unwrap_or_default();
        let entries = agent.conversation.take_mirrored();
        let entries: Vec<Value> = entries.iter().filter_map(|it| serde_json::to_value(it).ok()).collect();
        if !entries.is_empty() {
            self.events.tell(SessionEventKind::Logged(path, entries));
        }
    }
}

/// The text of the conversation's first message.
fn first_words(agent: &Agent) -> String {
    let first = agent.conversation.messages().first();
    let blocks = first.map(|message| message.content.as_slice()).unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| match block {
        MessageBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Logs what the user is shown at the end of a turn, together with a typed command that no other line
/// contains.
fn keep_shown(agent: &mut Agent, run: &TurnRun, why: ShownReason, piece: ShownContent) {
    let name = run.prompts.first().cloned().unwrap_or_default();
    let typed = if why == ShownReason::Command { run.prompt_text.clone() } else { String::new() };
    agent.keep_shown(ShownLine { why, name, typed, pieces: vec![piece] });
}

fn cost_text(agent: &Agent) -> String {
    let spent = agent.spending();
    let log = agent.conversation.log_path().and_then(|path| session_cost::of_log(path).ok());
    let lost = log.map(|cost| format!("\n{}", cost.lost_text().trim_end())).unwrap_or_default();
    format!(
        "Total cost: ${:.4}\nTime of the model: {:.1} s\nTokens: {} in, {} out, {} read from the cache, \
         {} written to it{lost}",
        spent.usd,
        spent.api_time.as_secs_f64(),
        spent.usage.input_tokens,
        spent.usage.output_tokens,
        spent.usage.cache_read_input_tokens,
        spent.usage.cache_creation_input_tokens,
    )
}
