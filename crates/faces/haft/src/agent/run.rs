use std::pin::Pin;

use haft_agent::{AgentEvent, TurnEnd, UserInput};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A prompt that is being worked on.
///
/// No task runs behind it: it goes on while somebody waits in [`Run::next`] or
/// [`Run::end`]. To stop it, cancel its token and wait for the end; what ran
/// then says how far it came. Dropping it stops it too, without that.
pub struct Run<'a> {
    work: Pin<Box<dyn Future<Output = TurnEnd> + Send + 'a>>,
    events: &'a mut mpsc::UnboundedReceiver<AgentEvent>,
    cancel: CancellationToken,
    end: Option<TurnEnd>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        agent: &'a mut haft_agent::Agent,
        events: &'a mut mpsc::UnboundedReceiver<AgentEvent>,
        input: UserInput,
        cancel: CancellationToken,
    ) -> Self {
        // What nobody took of an earlier run is not part of this one.
        while events.try_recv().is_ok() {}
        let token = cancel.clone();
        let work = Box::pin(async move { agent.run(input, &token).await });
        Self { work, events, cancel, end: None }
    }

    /// The next event; `None` when the prompt is done.
    pub async fn next(&mut self) -> Option<AgentEvent> {
        if self.end.is_none() {
            tokio::select! {
                biased;
                event = self.events.recv() => return event,
                end = &mut self.work => self.end = Some(end),
            }
        }
        self.events.try_recv().ok()
    }

    /// Cancels the run from anywhere.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// How it ended. Events that were not taken are left out.
    pub async fn end(self) -> TurnEnd {
        match self.end {
            Some(end) => end,
            None => self.work.await,
        }
    }
}
