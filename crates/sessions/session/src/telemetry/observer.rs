//! Creates one trace per prompt.

use std::{
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use haft_agent::{AgentEvent, TurnEnd};
use haft_types::{AgentId, CallId};
use tokio::task::JoinSet;

use super::{
    RunInfoOf, Telemetry, TelemetrySettings,
    spans::{call_span, parse_traceparent},
};
use crate::{AgentReport, ChildIdentity, EventSender, SessionEventKind};

/// Collects telemetry of each prompt and sends it in the background.
#[derive(Default)]
pub(crate) struct Observer {
    settings: Option<TelemetrySettings>,
    provider: String,
    events: Option<EventSender>,
    now: Option<Telemetry>,
    sending: JoinSet<()>,
}

impl Observer {
    /// Creates an observer, which does nothing without settings.
    pub(crate) fn new(settings: Option<TelemetrySettings>, provider: String, events: EventSender) -> Self {
        Self { settings, provider, events: Some(events), ..Self::default() }
    }

    pub(crate) fn begin(&mut self, session: &str, model: &str, prompt: &str) {
        let about = RunInfoOf { session, model, provider: &self.provider, prompt };
        self.now = self.settings.clone().map(|settings| Telemetry::new(settings, about));
    }

    fn hear(&mut self, agent: &AgentId, event: &AgentEvent) {
        if let Some(now) = &mut self.now {
            now.hear(agent, event);
        }
    }

    pub(crate) fn end(&mut self, end: &TurnEnd) {
        let (Some(mut now), Some(events)) = (self.now.take(), self.events.clone()) else { return };
        now.end(end);
        self.sending.spawn(async move {
            if let Err(problem) = now.send().await {
                events.tell(SessionEventKind::Detail(format!("telemetry was not sent: {problem}")));
            }
        });
    }

    /// Takes the tasks that are sending.
    pub(crate) fn take_sending(&mut self) -> JoinSet<()> {
        std::mem::take(&mut self.sending)
    }

    /// Waits briefly for telemetry that is being sent.
    pub(crate) async fn wait(sending: &mut JoinSet<()>) {
        /// Slightly more than the time limit of one transmission.
        const TIMEOUT: Duration = Duration::from_millis(1_200);
        let all = async { while sending.join_next().await.is_some() {} };
        tokio::time::timeout(TIMEOUT, all).await.ok();
    }
}

/// Trace context of a session.
#[derive(Default)]
pub(crate) struct TraceDesk {
    observer: Mutex<Observer>,
    /// The given `traceparent`, for calls that are not observed.
    given: OnceLock<String>,
}

impl TraceDesk {
    pub(crate) fn observer(&self) -> MutexGuard<'_, Observer> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the session a part of an existing trace.
    pub(crate) fn is_part_of(&self, traceparent: Option<String>) {
        if let Some(given) = traceparent.filter(|it| parse_traceparent(it).is_some()) {
            self.given.set(given).ok();
        }
    }

    /// Records an event of an agent.
    pub(crate) fn hear(&self, agent: &AgentId, event: &AgentEvent) {
        self.observer().hear(agent, event);
    }

    /// Records the start of a sub-agent.
    pub(crate) fn begin_child(&self, facts: &ChildIdentity) {
        if let Some(now) = &mut self.observer().now {
            now.run.begin_child(facts, SystemTime::now());
        }
    }

    /// Records the end of a sub-agent.
    pub(crate) fn end_child(&self, id: &AgentId, report: &AgentReport) {
        if let Some(now) = &mut self.observer().now {
            now.run.end_child(id, report, SystemTime::now());
        }
    }

    /// The W3C `traceparent` for operations that a call causes elsewhere.
    pub(crate) fn traceparent(&self, agent: &AgentId, call: &CallId) -> Option<String> {
        if let Some(now) = &self.observer().now {
            let trace = &now.run.trace;
            return Some(format!("00-{trace}-{}-01", call_span(trace, agent, call)));
        }
        self.given.get().cloned()
    }
}
