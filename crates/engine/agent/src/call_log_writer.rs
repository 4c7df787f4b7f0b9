//! Logs calls with side effects before they run.

use haft_tool_runtime::{CallLog, CallStart, Persisted};
use serde_json::Value;

use crate::log::{CallStartedLine, LogEntry, LogState, UnloggedCall, WeakLogWriter};

/// Writes the `started` lines of a conversation's log.
pub(crate) struct CallLogWriter {
    pub(crate) log: WeakLogWriter,
}

impl CallLog for CallLogWriter {
    fn starting(&self, call: &CallStart<'_>) -> Result<Option<Persisted>, String> {
        let Some(log) = self.log.upgrade() else {
            return Err(format!("{} did not run: its session is over", call.tool));
        };
        let line = CallStartedLine {
            call: call.call_id.clone(),
            tool: call.tool.to_owned(),
            agent: call.agent_id.clone(),
            timestamp: crate::log::now(),
            input: digest(call.input),
            decision: call.decision.cloned(),
        };
        let about = UnloggedCall { tool: line.tool.clone(), input: line.input.clone() };
        let written = log.acknowledge(LogEntry::Haft(LogState::Started(Box::new(line))));
        let kept = written.map_err(|(path, err)| {
            log.refuse(about.clone());
            format!(
                "{} did not run: the session log {} cannot be written ({err}), and a call that may change something \
                 runs only when the log has it. Calls that only read still run. Tell the user that the log needs room \
                 or has to be put back, and make the call again then",
                call.tool,
                path.display(),
            )
        })?;
        log.runs_now(&about);
        let tool = call.tool.to_owned();
        Ok(kept.map(|kept| -> Persisted {
            Box::pin(async move { kept.await.map_err(|why| format!("{tool} did not run: {why}")) })
        }))
    }
}

/// The first 16 hexadecimal digits of the input's hash, to recognise equal inputs.
fn digest(input: &Value) -> String {
    let mut hasher = blake3::Hasher::new();
    // Hashing cannot fail, and a JSON value can always be serialised.
    serde_json::to_writer(&mut hasher, input).ok();
    hasher.finalize().to_hex()[..16].to_owned()
}
