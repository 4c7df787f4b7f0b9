use haft_agent::{AgentEvent, EndReason, TurnEnd};
use haft_session::{CommandEnded, CommandResult, Prompt, SessionEvent, SessionEventKind, TurnEnded};
use haft_types::Usage;
use tokio_util::sync::CancellationToken;

use super::Agent;

/// A prompt that is being worked on.
///
/// The session works behind it; events wait until somebody takes them with
/// [`AgentRun::next`]. To stop it, cancel its token and wait for the end; what ran
/// then says how far it came. Dropping it stops it too.
pub struct AgentRun<'a> {
    agent: &'a mut Agent,
    /// The name of the prompt: the turn that carries it is this one.
    name: String,
    cancel: CancellationToken,
    cancelled: bool,
    end: Option<TurnEnd>,
}

impl<'a> AgentRun<'a> {
    pub(super) fn new(agent: &'a mut Agent, mut prompt: Prompt, cancel: CancellationToken) -> Self {
        // What nobody took of an earlier run is not part of this one.
        while let Some(event) = agent.events.try_next() {
            agent.note(&event);
        }
        prompt.is_named = true;
        let name = prompt.uuid.clone();
        agent.handle.prompt(prompt);
        Self { agent, name, cancel, cancelled: false, end: None }
    }

    /// The next thing the agent does; `None` when the prompt is done.
    pub async fn next(&mut self) -> Option<AgentEvent> {
        loop {
            let event = self.next_happening().await?;
            // What agents do that it started is in the happenings.
            if let (true, SessionEventKind::Agent(event)) = (event.agent.is_main(), event.what) {
                return Some(event);
            }
        }
    }

    /// The next thing that happens in the session; `None` when the prompt is
    /// done.
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

    /// Cancels the run from anywhere.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// How it ended. Events that were not taken are left out.
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
    /// Keeps count of what the session has used.
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

/// What a command of ours says is the answer.
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
