//! Frames about sub-agents.

use std::{
    collections::HashMap,
    time::{SystemTime, UNIX_EPOCH},
};

use haft_agent::AgentEvent;
use haft_session::{AgentReport, ChildIdentity, ChildProgress};
use haft_types::{AgentId, MessageBlock};
use serde_json::{Value, json};

use crate::{
    Frames,
    agent_stats::AgentStats,
    frames::{supersede, uuid},
};

/// Maximum depth of agents whose activity is forwarded. For deeper ones only start and end are reported.
const FORWARDED_DEPTH: u32 = 1;

/// Maximum characters of a report in a frame; the log contains all of it.
const LONGEST_SUMMARY: usize = 2_000;

/// State of the sub-agents that were reported to the host.
#[derive(Debug, Default)]
pub(crate) struct AgentFrames {
    known: HashMap<AgentId, ChildIdentity>,
    /// Running background agents, in the format of frames.
    pub(crate) running: Vec<Value>,
    /// Whether the host wants the text of sub-agents, in addition to their tool calls.
    pub(crate) forward_text: bool,
    /// Withdrawn blocks that the host was not told about yet, by agent.
    withdrawn: HashMap<AgentId, Vec<String>>,
    pub(crate) stats: AgentStats,
}

impl AgentFrames {
    pub(crate) fn listed(facts: &ChildIdentity) -> Value {
        json!({
            "task_id": facts.id, "task_type": "local_agent", "description": facts.description,
            "subagent_type": facts.kind,
        })
    }

    pub(crate) fn started(&mut self, frames: &Frames, facts: &ChildIdentity) -> Vec<Value> {
        self.known.insert(facts.id.clone(), facts.clone());
        self.stats.started(facts);
        let mut fields = json!({
            "task_id": facts.id, "run_id": facts.run_id, "tool_use_id": facts.call,
            "description": facts.description, "subagent_type": facts.kind,
            "is_backgrounded": facts.in_background, "spawn_depth": facts.depth,
            "task_type": "local_agent", "prompt": facts.prompt,
        });
        if let Some(parent) = facts.parent.child() {
            fields["parent_task_id"] = json!(parent);
        }
        if facts.skill.is_some() {
            fields["skip_transcript"] = json!(true);
            fields["ambient"] = json!(true);
        }
        let mut out = vec![frames.system("task_started", fields)];
        if !facts.in_background && facts.depth <= FORWARDED_DEPTH {
            let content = json!([{"type": "text", "text": facts.prompt}]);
            let message = json!({"role": "user", "content": content});
            out.push(owned(frames.of_type("user", json!({"message": message, "uuid": uuid()})), facts));
        }
        out
    }

    /// The frames of an event of a sub-agent, if it is forwarded.
    pub(crate) fn work(&mut self, frames: &Frames, agent: &AgentId, event: &AgentEvent) -> Vec<Value> {
        let Some(facts) = self.known.get(agent).filter(|it| it.depth <= FORWARDED_DEPTH) else {
            return Vec::new();
        };
        if let AgentEvent::Withdrawn(it) = event {
            self.withdrawn.entry(agent.clone()).or_default().extend(it.blocks.iter().cloned());
        }
        let is_wanted = match event {
            AgentEvent::Block(it) => match &it.block {
                MessageBlock::ToolUse(_) => true,
                MessageBlock::Text { .. } => self.forward_text || facts.in_background,
                _ => false,
            },
            AgentEvent::ResultLogged { .. } => true,
            _ => false,
        };
        let Some(mut frame) = frames.frame(event).filter(|_| is_wanted) else { return Vec::new() };
        if let AgentEvent::ResultLogged { answered, .. } = event
            && answered.report.error.is_none()
            && let Some(fields) = frame.as_object_mut()
        {
            fields.remove("tool_use_result");
        }
        if let (AgentEvent::Block(_), Some(withdrawn)) = (event, self.withdrawn.get_mut(agent)) {
            supersede(&mut frame, withdrawn);
        }
        vec![owned(frame, facts)]
    }

    pub(crate) fn progress(frames: &Frames, facts: &ChildIdentity, progress: &ChildProgress) -> Value {
        let usage = json!({
            "total_tokens": progress.tokens, "tool_uses": progress.tool_uses,
            "duration_ms": progress.duration_ms,
        });
        let mut fields = json!({
            "task_id": facts.id, "run_id": facts.run_id, "tool_use_id": facts.call,
            "description": progress.doing, "subagent_type": facts.kind, "usage": usage,
        });
        if !progress.last_tool.is_empty() {
            fields["last_tool_name"] = json!(progress.last_tool);
        }
        if let Some(summary) = &progress.summary {
            fields["summary"] = json!(summary);
        }
        frames.system("task_progress", fields)
    }

    /// A sub-agent moved to the background: its call returned.
    pub(crate) fn moved(&mut self, frames: &Frames, facts: &ChildIdentity) -> Vec<Value> {
        self.known.insert(facts.id.clone(), facts.clone());
        let fields = json!({"task_id": facts.id, "patch": {"is_backgrounded": true}});
        vec![frames.system("task_updated", fields)]
    }

    pub(crate) fn ended(
        &mut self,
        frames: &Frames,
        facts: &ChildIdentity,
        report: &AgentReport,
    ) -> Vec<Value> {
        self.known.remove(&facts.id);
        self.withdrawn.remove(&facts.id);
        self.stats.ended(report);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let status = report.status.public();
        let patch = json!({"status": status, "end_time": now.as_millis()});
        let updated = frames.system("task_updated", json!({"task_id": facts.id, "patch": patch}));
        let status = if status == "killed" { "stopped" } else { status };
        let usage = json!({
            "total_tokens": report.total_tokens(), "tool_uses": report.tool_uses(),
            "duration_ms": report.duration_ms,
        });
        let fields = json!({
            "task_id": facts.id, "run_id": facts.run_id, "tool_use_id": facts.call, "status": status,
            "output_file": facts.log.as_ref().map(|it| it.display().to_string()).unwrap_or_default(),
            "summary": summary(report), "usage": usage,
        });
        vec![updated, frames.system("task_notification", fields)]
    }
}

/// The report, cut to fit a frame, with the path of the complete text.
fn summary(report: &AgentReport) -> String {
    let text = match (report.text.trim(), &report.why) {
        ("", Some(why)) => why.clone(),
        (text, _) => text.to_owned(),
    };
    let cut: String = text.chars().take(LONGEST_SUMMARY).collect();
    match (cut.len() < text.len(), &report.log) {
        (false, _) => cut,
        (true, Some(log)) => format!("{cut}… (all of it: {})", log.display()),
        (true, None) => format!("{cut}…"),
    }
}

/// Adds the id of the agent to a frame.
fn owned(mut frame: Value, facts: &ChildIdentity) -> Value {
    frame["parent_tool_use_id"] = json!(facts.call);
    frame["agent_id"] = json!(facts.id);
    frame["subagent_type"] = json!(facts.kind);
    frame["task_description"] = json!(facts.description);
    frame
}
