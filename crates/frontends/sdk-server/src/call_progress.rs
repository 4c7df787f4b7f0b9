//! Frames about the progress of calls, rate-limited.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use haft_agent::AgentEvent;
use haft_types::{CallId, MessageBlock};
use serde_json::{Value, json};

/// Minimum time between two frames about the same call.
const EVERY: Duration = Duration::from_secs(1);

/// Running calls.
#[derive(Debug, Default)]
pub(crate) struct CallProgress {
    running: HashMap<CallId, TimedCall>,
}

#[derive(Debug)]
struct TimedCall {
    tool: String,
    began: Instant,
    told: Instant,
}

impl CallProgress {
    /// Processes an event. Returns the fields of a frame if one is due.
    pub(crate) fn see(&mut self, event: &AgentEvent) -> Option<Value> {
        let now = Instant::now();
        match event {
            AgentEvent::Block(it) => {
                if let MessageBlock::ToolUse(call) = &it.block {
                    let running = TimedCall { tool: call.name.clone(), began: now, told: now };
                    self.running.insert(call.id.clone(), running);
                }
                None
            }
            AgentEvent::ResultLogged { answered, .. } => {
                self.running.remove(&answered.call.id);
                None
            }
            AgentEvent::Progress(it) => {
                let call = self.running.get_mut(&it.call_id).filter(|call| EVERY <= now - call.told)?;
                call.told = now;
                Some(json!({
                    "tool_use_id": it.call_id, "tool_name": call.tool, "parent_tool_use_id": null,
                    "elapsed_time_seconds": (now - call.began).as_secs_f64(),
                }))
            }
            _ => None,
        }
    }
}
