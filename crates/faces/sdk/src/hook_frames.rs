//! Tells the host what command hooks do.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use haft_hooks::{Happened, HookDefinition, HookEvent, HookId, HookObserver, HookReport, HookStart};
use serde_json::{Value, json};

use crate::{Host, frames::uuid};

/// Which hooks are told about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Told {
    /// Only those that run before a session says anything.
    Start,
    /// All of them.
    All,
}

/// Makes frames of hooks that begin and end. The host's own callbacks are left
/// out: it knows about them.
pub struct HookFrames {
    host: Host,
    told: Told,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    of_host: HashSet<HookId>,
    /// Runs that have begun, by hook: name of the run and what it is about.
    running: HashMap<HookId, VecDeque<(String, String)>>,
}

impl HookFrames {
    /// Tells this host.
    pub fn new(host: Host, told: Told) -> Arc<Self> {
        Arc::new(Self { host, told, state: Mutex::default() })
    }

    /// These hooks are callbacks of the host.
    pub fn leave_out(&self, definitions: &[HookDefinition]) {
        let ids = definitions.iter().map(|it| it.id.clone()).collect();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).of_host = ids;
    }

    fn tells(&self, event: HookEvent) -> bool {
        self.told == Told::All || matches!(event, HookEvent::SessionStart | HookEvent::Setup)
    }

    fn frame(&self, subtype: &str, event: HookEvent, run: &(String, String), more: Value) {
        let mut frame = json!({
            "type": "system", "subtype": subtype, "uuid": uuid(), "hook_id": run.0, "hook_name": run.1,
            "hook_event": event.as_str(),
        });
        if let (Some(frame), Value::Object(more)) = (frame.as_object_mut(), more) {
            frame.extend(more);
        }
        self.host.tell(frame);
    }
}

impl HookObserver for HookFrames {
    fn started(&self, start: &HookStart<'_>) {
        if !self.tells(start.event) {
            return;
        }
        let name = match start.subject {
            Some(subject) => format!("{}:{subject}", start.event),
            None => start.event.to_string(),
        };
        let run = (uuid(), name);
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.of_host.contains(start.id) {
                return;
            }
            state.running.entry(start.id.clone()).or_default().push_back(run.clone());
        }
        self.frame("hook_started", start.event, &run, json!({}));
    }

    fn finished(&self, report: &HookReport) {
        let run = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.running.get_mut(&report.id).and_then(VecDeque::pop_front)
        };
        let Some(run) = run else { return };
        let outcome = match &report.happened {
            Happened::Ran | Happened::InBackground => "success",
            Happened::SaidNo | Happened::Broke { .. } => "error",
        };
        let output = format!("{}{}", report.stdout, report.stderr);
        let more = json!({
            "output": output, "stdout": report.stdout, "stderr": report.stderr,
            "exit_code": report.status, "outcome": outcome,
        });
        self.frame("hook_response", report.event, &run, more);
    }

    fn finished_in_background(&self, report: &HookReport, _rewake: Option<&str>) {
        self.finished(report);
    }
}
