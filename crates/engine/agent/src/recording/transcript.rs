use haft_model::StopReason;
use haft_types::MessageBlock;
use serde_json::{Value, json};

use super::RecordingDirs;
use crate::{AgentEvent, TurnEnd};

/// Describes a run as lines that are the same in every replay: without times, generated ids and paths.
#[derive(Clone, Debug)]
pub struct RunTranscript {
    places: RecordingDirs,
}

impl RunTranscript {
    /// Creates a transcript for a run in these directories.
    pub fn new(places: RecordingDirs) -> Self {
        Self { places }
    }

    /// The line of a prompt.
    pub fn prompt(&self, content: &[MessageBlock]) -> String {
        self.line(json!({"prompt": content}))
    }

    /// The line of an event, if it has one.
    pub fn event(&self, event: &AgentEvent) -> Option<String> {
        let line = match event {
            AgentEvent::Block(it) => json!({"assistant": it.block}),
            AgentEvent::ResultLogged { answered, .. } => json!({"result": answered.report.to_block()}),
            AgentEvent::Said(it) => json!({"said": it.message.content}),
            AgentEvent::Compacted(it) => json!({"compacted": format!("{:?}", it.how)}),
            _ => return None,
        };
        Some(self.line(line))
    }

    /// The last line of a prompt.
    pub fn end(&self, end: &TurnEnd) -> String {
        let stop = end.stop_reason.as_ref().map(|stop: &StopReason| json!(stop));
        self.line(json!({
            "end": end.reason.word(), "stop_reason": stop, "turns": end.turns, "usage": end.usage,
            "denied": end.denials.iter().map(|it| &it.tool_name).collect::<Vec<_>>(),
            "structured_output": end.structured_output,
        }))
    }

    fn line(&self, mut value: Value) -> String {
        self.places.to_names(&mut value);
        value.to_string()
    }
}
