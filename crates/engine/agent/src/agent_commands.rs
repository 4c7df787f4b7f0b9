//! What whoever runs an agent may ask of it beside prompts.

use std::sync::{Arc, Mutex, PoisonError};

use haft_hooks::{CompactTrigger, HookDecision, HookEvent, OtherInput, PreCompact};
use haft_model::{Effort, Thinking, ThinkingDisplay};
use haft_types::{CallId, Message, MessageBlock, Role, ToolUse};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    Agent, AgentEvent, CompactedEvent, Compaction, EndReason, InjectionReason, TurnEnd,
    compaction::SUMMARY_REQUEST, conversation::compact_metadata, prompt_run::TurnProgress,
};

/// A change of the settings of an agent, for its next request.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingsChange {
    /// Another model answers.
    Model(String),
    /// The model thinks in another way.
    Thinking(Thinking),
    /// Another part of what the model thinks comes back.
    ThinkingDisplay(Option<ThinkingDisplay>),
    /// The model tries harder, or less hard.
    Effort(Option<Effort>),
}

/// Changes for an agent that may be working. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct AgentCommands(Arc<Mutex<Vec<SettingsChange>>>);

impl AgentCommands {
    /// Changes the settings from the next request on, also in the middle of a
    /// prompt.
    pub fn give(&self, order: SettingsChange) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }

    fn take(&self) -> Vec<SettingsChange> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What became of the wish to sum up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CompactionOutcome {
    /// The conversation is this summary now.
    Done(String),
    /// It stays as it is, for this reason.
    NotDone(String),
}

impl Agent {
    /// The calls of the last answer that were left for later.
    pub fn left_for_later(&self) -> Vec<ToolUse> {
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

    /// Takes up the calls that were left for later, and goes on from there. They
    /// pass through everything again.
    pub async fn take_up(&mut self, cancel: &CancellationToken) -> TurnEnd {
        self.spending.turns = 0;
        self.pick_up(cancel).await
    }

    /// Goes on with a prompt that another process did not finish: calls that did
    /// not begin are run, an answer that was cut off is continued, and what was
    /// used then counts.
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
        let calls = self.left_for_later();
        self.tools.witness = Some(self.conversation.witness());
        let reports = self.tools.run_message(calls.clone(), cancel).await;
        let done: Vec<_> = calls.into_iter().zip(reports).collect();
        run.count(&done);
        let mut stop = None;
        for (call, mut report) in done {
            let (added, context) = (report.take_messages(), std::mem::take(&mut report.context));
            stop = stop.or_else(|| report.stop.clone());
            self.add_result(&call, report);
            added.into_iter().for_each(|message| self.say(message, InjectionReason::Addition));
            context.into_iter().for_each(|text| self.say(Message::user(text), InjectionReason::Context));
        }
        let reason = match stop {
            Some(reason) => EndReason::Stopped(reason),
            None => self.work(&mut run, cancel).await,
        };
        self.ended(reason, run)
    }

    /// Whether the last thing said was the model's.
    pub fn is_answered(&self) -> bool {
        self.conversation.messages().last().is_some_and(|message| message.role == Role::Assistant)
    }

    /// The calls at the end of the conversation that have no result: their
    /// process is gone, and somebody else may know what came of them.
    pub fn open_calls(&self) -> Vec<ToolUse> {
        crate::unfinished_calls::open_calls(self.conversation.messages()).into_iter().cloned().collect()
    }

    /// What came of a call that had no result, as somebody else knows it.
    pub fn settle_call(&mut self, call: &ToolUse, mut report: haft_tool_runtime::CallReport) {
        self.tools.state.apply(&report.changes);
        let context = std::mem::take(&mut report.context);
        self.add_result(call, report);
        context.into_iter().for_each(|text| self.say(Message::user(text), InjectionReason::Context));
    }

    /// Takes over what was ordered.
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

    /// Tells the model something it should know, without asking anything.
    pub fn remind(&mut self, text: impl Into<String>) {
        self.say(Message::user(text.into()), InjectionReason::Context);
    }

    /// Gives the session a name, for lists of sessions.
    pub fn name_session(&mut self, title: &str) {
        if let Err(err) = self.conversation.name(title) {
            self.tell(AgentEvent::Notice(format!("the session log could not be written: {err}")));
        }
    }

    /// Says in the conversation that the person interrupted.
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

    /// Sums the conversation up because somebody asked for it.
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
