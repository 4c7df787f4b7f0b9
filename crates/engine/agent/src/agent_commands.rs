//! Commands to an agent other than prompts.

use std::sync::{Arc, Mutex, PoisonError};

use haft_hooks::{CompactTrigger, HookDecision, HookEvent, OtherInput, PreCompact};
use haft_model::{Effort, Thinking, ThinkingDisplay};
use haft_tool_runtime::{AnsweredCall, CallReport};
use haft_types::{CallId, Message, MessageBlock, Role, ToolUse};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    Agent, AgentEvent, CompactedEvent, Compaction, EndReason, InjectionReason, TurnEnd,
    compaction::SUMMARY_REQUEST, conversation::compact_metadata, prompt_run::TurnProgress,
};

/// A change of request settings, from the next request on.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingsChange {
    /// Changes the model.
    Model(String),
    /// Changes the thinking setting.
    Thinking(Thinking),
    /// Changes how much of the thinking the provider returns.
    ThinkingDisplay(Option<ThinkingDisplay>),
    /// Changes the effort level.
    Effort(Option<Effort>),
}

/// Setting changes for an agent that may be running. Clones share the queue.
#[derive(Clone, Debug, Default)]
pub struct AgentCommands(Arc<Mutex<Vec<SettingsChange>>>);

impl AgentCommands {
    /// Queues a change, which applies from the next request on, also within a turn.
    pub fn give(&self, order: SettingsChange) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }

    fn take(&self) -> Vec<SettingsChange> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Result of a requested compaction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CompactionOutcome {
    /// The conversation was replaced by this summary.
    Done(String),
    /// The conversation was not changed, for this reason.
    NotDone(String),
}

impl Agent {
    /// The deferred calls of the last answer.
    pub fn deferred_calls(&self) -> Vec<ToolUse> {
        let [.., asked, answered] = self.conversation.messages() else { return Vec::new() };
        let is_left = |id: &CallId| {
            self.left.contains(id)
                && answered.content.iter().any(|block| match block {
                    MessageBlock::ToolResult { tool_use_id, is_error: true, .. } => tool_use_id == id,
                    _ => false,
                })
        };
        let calls = asked.content.iter().filter_map(|block| match block {
            MessageBlock::ToolUse(call) if is_left(&call.id) => Some(call.clone()),
            _ => None,
        });
        calls.collect()
    }

    /// Runs the deferred calls and continues the turn. They pass hooks and permission again.
    pub async fn take_up(&mut self, cancel: &CancellationToken) -> TurnEnd {
        self.spending.turns = 0;
        self.pick_up(cancel).await
    }

    /// Continues a prompt that another process did not finish: runs calls that were not started and
    /// continues a truncated answer. Usage counts towards this run.
    pub async fn go_on(&mut self, cancel: &CancellationToken) -> TurnEnd {
        self.spending.turns = u32::try_from(self.watch.requests()).unwrap_or(u32::MAX);
        let is_answered = self.is_answered();
        if is_answered && self.answer_is_whole {
            let mut run = TurnProgress::new(self.spending.usage);
            let reason = match self.stop(&mut run).await {
                Some(reason) => reason,
                None => self.work(&mut run, cancel).await,
            };
            return self.ended(reason, run);
        }
        if is_answered {
            let go_on = "Your answer was cut off because the worker was lost. Go on exactly where it ended.";
            self.say(Message::user(go_on), InjectionReason::Demand);
        }
        self.pick_up(cancel).await
    }

    async fn pick_up(&mut self, cancel: &CancellationToken) -> TurnEnd {
        let mut run = TurnProgress::new(self.spending.usage);
        self.repeats.reset();
        self.tell(AgentEvent::Started);
        let calls = self.deferred_calls();
        self.tools.witness = Some(self.conversation.witness());
        let reports = self.tools.run_message(calls.clone(), cancel).await;
        let done: Vec<AnsweredCall> =
            calls.into_iter().zip(reports).map(|(call, report)| AnsweredCall { call, report }).collect();
        run.count(&done);
        let mut stop = None;
        for mut answered in done {
            let report = &mut answered.report;
            let (added, context) = (report.added_messages(), std::mem::take(&mut report.context));
            report.new_messages.clear();
            stop = stop.or_else(|| report.stop.clone());
            self.add_result(&Arc::new(answered));
            added.into_iter().for_each(|message| self.say(message, InjectionReason::Addition));
            context.into_iter().for_each(|text| self.say(Message::user(text), InjectionReason::Context));
        }
        let reason = match stop {
            Some(reason) => EndReason::Stopped(reason),
            None => self.work(&mut run, cancel).await,
        };
        self.ended(reason, run)
    }

    /// Whether the last message of the conversation is the model's.
    pub fn is_answered(&self) -> bool {
        self.conversation.messages().last().is_some_and(|message| message.role == Role::Assistant)
    }

    /// Calls at the end of the conversation without a result. Their process is gone; a tool host may
    /// know the outcome.
    pub fn open_calls(&self) -> Vec<ToolUse> {
        crate::unfinished_calls::open_calls(self.conversation.messages()).into_iter().cloned().collect()
    }

    /// Sets the result of an open call, as reported by a tool host.
    pub fn settle_call(&mut self, call: &ToolUse, mut report: CallReport) {
        self.tools.state.apply(&report.changes);
        let context = std::mem::take(&mut report.context);
        self.add_result(&Arc::new(AnsweredCall { call: call.clone(), report }));
        context.into_iter().for_each(|text| self.say(Message::user(text), InjectionReason::Context));
    }

    /// Applies queued setting changes.
    pub fn obey(&mut self) {
        for order in self.orders.take() {
            match order {
                SettingsChange::Model(model) => self.settings.model = model,
                SettingsChange::Thinking(thinking) => self.settings.thinking = thinking,
                SettingsChange::ThinkingDisplay(display) => self.settings.thinking_display = display,
                SettingsChange::Effort(effort) => self.settings.effort = effort,
            }
        }
    }

    /// Adds a system reminder to the conversation without asking the model.
    pub fn remind(&mut self, text: impl Into<String>) {
        self.say(Message::user(text.into()), InjectionReason::Context);
    }

    /// Names the session, for session lists.
    pub fn name_session(&mut self, title: &str) {
        if let Err(err) = self.conversation.name(title) {
            self.tell(AgentEvent::Notice(format!("the session log could not be written: {err}")));
        }
    }

    /// Adds a note that the user interrupted.
    pub fn note_interruption(&mut self) {
        let last = self.conversation.messages().last();
        let in_tools = last.is_some_and(|message| {
            message.content.iter().any(|block| matches!(block, MessageBlock::ToolResult { .. }))
        });
        let note = if in_tools {
            "[Request interrupted by user for tool use]"
        } else {
            "[Request interrupted by user]"
        };
        self.say(Message::user(note), InjectionReason::Interruption);
    }

    /// Compacts the conversation at the user's request. `wish` is added to the instructions for the
    /// summary.
    pub async fn compact(&mut self, wish: Option<&str>, cancel: &CancellationToken) -> CompactionOutcome {
        let wish = wish.map(str::trim).filter(|it| !it.is_empty());
        if self.conversation.messages().is_empty() {
            return CompactionOutcome::NotDone(String::from("there is nothing to sum up yet"));
        }
        let event =
            PreCompact { trigger: CompactTrigger::Manual, custom_instructions: wish.map(str::to_owned) };
        let outcome = self.hooks(HookEvent::PreCompact, event).await;
        if let HookDecision::Block { reason, .. } = outcome.decision {
            return CompactionOutcome::NotDone(reason);
        }
        let before = self.request().estimate_tokens();
        let ask = match wish {
            Some(wish) => format!("{SUMMARY_REQUEST}\n\nThe user says about the summary: {wish}"),
            None => SUMMARY_REQUEST.to_owned(),
        };
        let Some(summary) = self.summary(&ask, cancel).await else {
            return CompactionOutcome::NotDone(String::from("the model gave no summary"));
        };
        let text = format!("Summary of the conversation so far:\n\n{summary}");
        let message = Message { role: Role::User, content: vec![MessageBlock::Text { text }] };
        if let Err(err) = self.conversation.replace(vec![message], compact_metadata("manual", before)) {
            self.tell(AgentEvent::Notice(format!("the session log could not be written: {err}")));
        }
        self.renew(Compaction::Summary);
        let after = self.request().estimate_tokens();
        self.tell(AgentEvent::Compacted(CompactedEvent {
            tokens_before: before,
            tokens_after: after,
            how: Compaction::Summary,
            trigger: CompactTrigger::Manual,
        }));
        let fields = json!({"trigger": "manual", "compact_summary": summary});
        let fields = fields.as_object().cloned().unwrap_or_default();
        self.hooks(
            HookEvent::PostCompact,
            OtherInput { event: HookEvent::PostCompact, subject: None, fields },
        )
        .await;
        CompactionOutcome::Done(summary)
    }
}
