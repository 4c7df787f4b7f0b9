use haft_agent::{AgentEvent, EndReason, TurnEnd};
use haft_session::{CommandEnded, CommandResult, Prompt, SessionEvent, SessionEventKind, TurnEnded};
use haft_types::Usage;
use tokio_util::sync::CancellationToken;

use super::Agent;

/// A running prompt.
///
/// The session works in the background; events are queued until [`AgentRun::next`] takes them. To stop
/// the run, cancel its token and call [`AgentRun::end`]: interrupted calls then report how far they
/// came. Dropping the run stops it too.
pub struct AgentRun<'a> {
    agent: &'a mut Agent,
    /// Uuid of the prompt; its turn belongs to this run.
    name: String,
    cancel: CancellationToken,
    cancelled: bool,
    end: Option<TurnEnd>,
}

impl<'a> AgentRun<'a> {
    pub(super) fn new(agent: &'a mut Agent, mut prompt: Prompt, cancel: CancellationToken) -> Self {
        // Events left over from an earlier run do not belong to this one.
        while let Some(event) = agent.events.try_next() {
            agent.note(&event);
        }
        prompt.is_named = true;
        let name = prompt.uuid.clone();
        agent.handle.prompt(prompt);
        Self { agent, name, cancel, cancelled: false, end: None }
    }

    /// Waits for the next event of the agent; `None` when the prompt is done. Events of sub-agents are
    /// skipped.
    pub async fn next(&mut self) -> Option<AgentEvent> {
        loop {
            let event = self.next_happening().await?;
            // Events of sub-agents are only in [`AgentRun::next_happening`].
            if let (true, SessionEventKind::Agent(event)) = (event.agent.is_main(), event.what) {
                return Some(event);
            }
        }
    }

    /// Waits for the next event of the session, including sub-agents; `None` when the prompt is done.
    pub async fn next_happening(&mut self) -> Option<SessionEvent> {
        if self.end.is_some() {
            return None;
        }
        let event = loop {
            tokio::select! {
                biased;
                event = self.agent.events.next() => break event,
                () = self.cancel.cancelled(), if !self.cancelled => {
                    self.cancelled = true;
                    self.agent.handle.interrupt();
                }
            }
        };
        let Some(event) = event else {
            self.end = Some(ended(EndReason::Interrupted, String::new()));
            return None;
        };
        self.agent.note(&event);
        match &event.what {
            SessionEventKind::TurnEnded(turn) if turn.facts.prompts.contains(&self.name) => {
                self.end = Some(turn.end.clone());
                None
            }
            SessionEventKind::CommandEnded(command) if command.facts.prompts.contains(&self.name) => {
                self.end = Some(of_command(command));
                None
            }
            SessionEventKind::Broke(problem) => {
                self.end = Some(ended(EndReason::Stopped(problem.clone()), String::new()));
                None
            }
            SessionEventKind::Closed => {
                self.end = Some(ended(EndReason::Interrupted, String::new()));
                None
            }
            _ => Some(event),
        }
    }

    /// The token that cancels this run.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Waits for the end and returns the outcome. Events that were not taken are discarded.
    pub async fn end(mut self) -> TurnEnd {
        while self.next_happening().await.is_some() {}
        self.end.take().unwrap_or_else(|| ended(EndReason::Interrupted, String::new()))
    }
}

impl Drop for AgentRun<'_> {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.agent.handle.interrupt();
        }
    }
}

impl Agent {
    /// Updates the usage from an event.
    fn note(&mut self, event: &SessionEvent) {
        if let SessionEventKind::TurnEnded(turn) = &event.what {
            let TurnEnded { end, bill, .. } = turn.as_ref();
            self.spending.usage += end.usage;
            self.spending.usd = bill.usd;
            self.spending.turns = end.turns;
            self.spending.api_time = end.api_duration;
        }
    }
}

/// The outcome of a built-in slash command: its output is the answer.
fn of_command(command: &CommandEnded) -> TurnEnd {
    match &command.result {
        CommandResult::Cleared => ended(EndReason::Completed, String::new()),
        CommandResult::Compacted { summary, .. } => ended(EndReason::Completed, summary.clone()),
        CommandResult::Context(text) | CommandResult::Cost(text) => ended(EndReason::Completed, text.clone()),
        CommandResult::NotCompacted(why) | CommandResult::Failed(_, why) => {
            ended(EndReason::Stopped(why.clone()), String::new())
        }
    }
}

fn ended(reason: EndReason, text: String) -> TurnEnd {
    TurnEnd {
        reason,
        text,
        usage: Usage::default(),
        turns: 0,
        messages: 0,
        denials: Vec::new(),
        busts: Vec::new(),
        structured_output: None,
        stop_reason: None,
        duration: std::time::Duration::ZERO,
        api_duration: std::time::Duration::ZERO,
    }
}
