//! OpenTelemetry for a session with a host: one trace per prompt.

use std::time::Duration;

use haft_agent::{AgentEvent, TurnEnd};
use tokio::task::JoinSet;

use crate::telemetry::{RunInfoOf, Settings, Telemetry};

/// Listens to prompt after prompt, and sends what it heard beside the work.
pub(super) struct Observer {
    settings: Option<Settings>,
    provider: String,
    now: Option<Telemetry>,
    sending: JoinSet<()>,
}

impl Observer {
    /// One that does nothing without settings.
    pub(super) fn new(settings: Option<Settings>, provider: String) -> Self {
        Self { settings, provider, now: None, sending: JoinSet::new() }
    }

    pub(super) fn begin(&mut self, session: &str, model: &str, prompt: &str) {
        let about = RunInfoOf { session, model, provider: &self.provider, prompt };
        self.now = self.settings.clone().map(|settings| Telemetry::new(settings, about));
    }

    pub(super) fn hear(&mut self, event: &AgentEvent) {
        if let Some(now) = &mut self.now {
            now.hear(event);
        }
    }

    pub(super) fn end(&mut self, end: &TurnEnd) {
        let Some(mut now) = self.now.take() else { return };
        now.end(end);
        // A collector that is down is nothing a host could do something about.
        self.sending.spawn(async move {
            now.send().await.ok();
        });
    }

    /// Waits a little for what is on its way.
    pub(super) async fn finish(&mut self) {
        /// Longer than one sending may take.
        const PATIENCE: Duration = Duration::from_millis(1_200);
        let all = async { while self.sending.join_next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, all).await.ok();
    }
}
