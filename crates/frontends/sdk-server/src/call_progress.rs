//! How far calls are, as frames, not more often than anybody wants to read.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use haft_agent::AgentEvent;
use haft_types::{CallId, MessageBlock};
use serde_json::{Value, json};

/// Frames about one call are at least this far apart.
const EVERY: Duration = Duration::from_secs(1);

/// Calls that run.
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
    /// Sees an event; the fields of a frame, where one is due.
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
