//! Session-level hooks (start and end), and the events about every hook run.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use haft_hooks::{EventInput, HookId, HookInput, HookObserver, HookReport, HookStart, HooksOutcome};
use haft_tool_runtime::CallSession;

use crate::{EventSender, HookRun, SessionEventKind};

/// Runs the hooks of an event that does not belong to a tool call.
pub(crate) async fn run_hooks(calls: &CallSession, event: EventInput) -> HooksOutcome {
    let gate = &calls.pipeline.gate;
    let hooks = gate.hooks().get();
    if !hooks.listens(event.event()) {
        return HooksOutcome::default();
    }
    let base = gate.hooks().base(calls.state.cwd.to_path_buf(), gate.mode());
    hooks.run(&HookInput { base, event, aliases: Vec::new() }).await
}

/// Emits an event when a hook starts and when it ends.
pub(crate) struct HookEventEmitter {
    events: EventSender,
    /// Hook runs that have started but not ended, by hook, oldest first.
    running: Mutex<HashMap<HookId, VecDeque<HookRun>>>,
}

impl HookEventEmitter {
    pub(crate) fn new(events: EventSender) -> Self {
        Self { events, running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<HookId, VecDeque<HookRun>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HookObserver for HookEventEmitter {
    fn started(&self, start: &HookStart<'_>) {
        let label = match start.subject {
            Some(subject) => format!("{}:{subject}", start.event),
            None => start.event.to_string(),
        };
        let run = HookRun {
            run: uuid::Uuid::new_v4().to_string(),
            hook: start.id.clone(),
            event: start.event,
            label,
        };
        self.running().entry(start.id.clone()).or_default().push_back(run.clone());
        self.events.tell(SessionEventKind::HookStarted(run));
    }

    fn finished(&self, report: &HookReport) {
        let run = self.running().get_mut(&report.id).and_then(VecDeque::pop_front);
        if let Some(run) = run {
            self.events.tell(SessionEventKind::HookEnded(run, Box::new(report.clone())));
        }
    }

    fn finished_in_background(&self, report: &HookReport, _rewake: Option<&str>) {
        self.finished(report);
    }
}
