//! One trace per prompt.

use std::time::Duration;

use haft_agent::{AgentEvent, TurnEnd};
use tokio::task::JoinSet;

use super::{RunInfoOf, Telemetry, TelemetrySettings};
use crate::{EventSender, Happening};

/// Listens to prompt after prompt, and sends what it heard beside the work.
#[derive(Default)]
pub(crate) struct Observer {
    settings: Option<TelemetrySettings>,
    provider: String,
    events: Option<EventSender>,
    now: Option<Telemetry>,
    sending: JoinSet<()>,
}

impl Observer {
    /// One that does nothing without settings.
    pub(crate) fn new(settings: Option<TelemetrySettings>, provider: String, events: EventSender) -> Self {
        Self { settings, provider, events: Some(events), ..Self::default() }
    }

    pub(crate) fn begin(&mut self, session: &str, model: &str, prompt: &str) {
        let about = RunInfoOf { session, model, provider: &self.provider, prompt };
        self.now = self.settings.clone().map(|settings| Telemetry::new(settings, about));
    }

    pub(crate) fn hear(&mut self, event: &AgentEvent) {
        if let Some(now) = &mut self.now {
            now.hear(event);
        }
    }

    pub(crate) fn end(&mut self, end: &TurnEnd) {
        let (Some(mut now), Some(events)) = (self.now.take(), self.events.clone()) else { return };
        now.end(end);
        self.sending.spawn(async move {
            if let Err(problem) = now.send().await {
                events.tell(Happening::Detail(format!("telemetry was not sent: {problem}")));
            }
        });
    }

    /// What is on its way.
    pub(crate) fn take_sending(&mut self) -> JoinSet<()> {
        std::mem::take(&mut self.sending)
    }

    /// Waits a little for what is on its way.
    pub(crate) async fn wait(sending: &mut JoinSet<()>) {
        /// Longer than one sending may take.
        const PATIENCE: Duration = Duration::from_millis(1_200);
        let all = async { while sending.join_next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, all).await.ok();
    }
}
