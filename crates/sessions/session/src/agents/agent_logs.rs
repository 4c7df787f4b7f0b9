//! Logs of sub-agents: `subagents/agent-<id>.jsonl` beside the session's log, with a metadata file for
//! each, in the format readers of the Agent SDKs expect.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_agent::{
    Conversation, Masker, Restored,
    log::{LogFile, RemoteLog, RemoteLogHandle},
};
use haft_builtin_tools::agent::AgentStatus;
use haft_paths::{Durability, ModeOnReplace, replace_file};
use haft_types::{AgentId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ChildIdentity, mail_item::AgentMessage};

/// Location and format of a session's sub-agent logs.
#[derive(Clone, Debug)]
pub(crate) struct AgentLogs {
    pub(super) dir: PathBuf,
    /// Fields added to every line.
    pub(crate) stamp: Map<String, Value>,
    pub(crate) session: SessionId,
    /// Whether every line is also emitted as an event.
    pub(crate) mirror: bool,
    /// Remote store that also receives the lines.
    fence: Option<Arc<dyn RemoteLog>>,
}

/// Metadata of an agent, stored beside its log.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AgentMeta {
    pub(super) agent_type: String,
    pub(super) is_built_in: bool,
    pub(super) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) tool_use_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_agent_id: Option<String>,
    pub(super) spawn_depth: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) team: Option<String>,
    /// Start of this run, in milliseconds since the Unix epoch.
    pub(super) began_at: u64,
    pub(super) model: String,
    /// Where the model was chosen, as text.
    pub(super) model_from: String,
    pub(super) run_id: String,
    pub(super) prompt: String,
    pub(super) in_background: bool,
    pub(super) cwd: PathBuf,
    /// Path of the agent's own worktree, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) worktree_path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) worktree_branch: Option<String>,
    pub(super) tools: Vec<String>,
    pub(super) finished: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<AgentStatus>,
}

/// A line of the mail file.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum MailLine {
    Letter(AgentMessage),
    /// Earlier messages to these agents are void.
    Gone {
        gone: Vec<String>,
    },
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl AgentMeta {
    pub(super) fn new(facts: &ChildIdentity, is_built_in: bool, cwd: &Path) -> Self {
        Self {
            agent_type: facts.kind.clone(),
            is_built_in,
            description: facts.description.clone(),
            name: facts.name.clone(),
            tool_use_id: facts.call.to_string(),
            parent_agent_id: facts.parent.child().map(ToString::to_string),
            spawn_depth: facts.depth,
            team: facts.team.clone(),
            began_at: now(),
            model: facts.model.clone(),
            model_from: facts.model_from.clone(),
            run_id: facts.run_id.clone(),
            prompt: facts.prompt.clone(),
            in_background: facts.in_background,
            cwd: cwd.to_owned(),
            worktree_path: None,
            worktree_branch: None,
            tools: Vec::new(),
            finished: false,
            status: None,
        }
    }
}

impl AgentLogs {
    /// The sub-agent logs of the session with this log.
    pub(crate) fn beside(log: &Path, session: SessionId, stamp: Map<String, Value>, mirror: bool) -> Self {
        Self { dir: log.with_extension("").join("subagents"), stamp, session, mirror, fence: None }
    }

    /// Sets the remote store that also receives the lines.
    pub(crate) fn fenced(self, fence: Option<Arc<dyn RemoteLog>>) -> Self {
        Self { fence, ..self }
    }

    /// Opens the log of an agent for appending.
    fn open(&self, id: &AgentId) -> io::Result<LogFile> {
        let fence = self.fence.clone();
        let fence = fence.map(|fence| RemoteLogHandle::new(fence, format!("subagents/agent-{id}.jsonl")));
        Ok(LogFile::open(self.path(id))?.fenced(fence))
    }

    /// Path of an agent's log.
    pub(crate) fn path(&self, id: &AgentId) -> PathBuf {
        self.dir.join(format!("agent-{id}.jsonl"))
    }

    pub(super) fn meta_path(&self, id: &AgentId) -> PathBuf {
        self.dir.join(format!("agent-{id}.meta.json"))
    }

    /// Writes the metadata file of an agent.
    pub(super) fn write_meta(&self, id: &AgentId, meta: &AgentMeta) -> io::Result<()> {
        let bytes = serde_json::to_vec(meta).map_err(io::Error::other)?;
        if let Some(fence) = &self.fence {
            fence.put(&format!("subagents/agent-{id}.meta.json"), &bytes);
        }
        replace_file(&self.meta_path(id), &bytes, ModeOnReplace::KeptOr(0o600), Durability::Whenever)
    }

    /// Reads the metadata that was written when the agent last started or ended; `None` if it is missing
    /// or invalid.
    pub(super) fn meta(&self, id: &AgentId) -> Option<AgentMeta> {
        serde_json::from_slice(&std::fs::read(self.meta_path(id)).ok()?).ok()
    }

    /// Appends a message to the mail file. Delivery is recorded in the reader's log; the line stays.
    pub(super) fn append_message(&self, letter: &AgentMessage) -> io::Result<()> {
        self.keep_line(serde_json::to_vec(letter).map_err(io::Error::other)?)
    }

    /// Voids the messages to these agents.
    pub(super) fn discard_messages(&self, gone: &[AgentId]) -> io::Result<()> {
        let gone = gone.iter().map(ToString::to_string).collect();
        self.keep_line(serde_json::to_vec(&MailLine::Gone { gone }).map_err(io::Error::other)?)
    }

    /// Appends a line to the mail file with a single write.
    fn keep_line(&self, mut line: Vec<u8>) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let path = self.dir.join("mail.jsonl");
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        line.push(b'\n');
        if let Some(fence) = &self.fence {
            fence.take("subagents/mail.jsonl", &line);
        }
        // Terminates a line that a killed process left incomplete.
        line.insert(0, b'\n');
        file.write_all(&line)
    }

    /// Reads the messages that are still valid. Skips lines that cannot be parsed.
    pub(super) fn letters(&self) -> Vec<AgentMessage> {
        let bytes = std::fs::read(self.dir.join("mail.jsonl")).unwrap_or_default();
        let mut letters: Vec<AgentMessage> = Vec::new();
        // A killed process may have left an incomplete line that is not valid UTF-8.
        let lines = bytes.split(|byte| *byte == b'\n');
        for line in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
            match line {
                MailLine::Letter(letter) => letters.push(letter),
                MailLine::Gone { gone } => letters.retain(|it| !gone.contains(&it.to)),
            }
        }
        letters
    }

    /// The metadata as a log line, emitted together with the agent's log.
    pub(super) fn meta_line(id: &AgentId, meta: &AgentMeta) -> Value {
        let mut line = json!(meta);
        line["type"] = json!("agent_metadata");
        line["agentId"] = json!(id);
        line
    }

    /// Creates the conversation and the log of a new agent.
    pub(super) fn begin(
        &self,
        facts: &ChildIdentity,
        meta: &AgentMeta,
        masker: Masker,
    ) -> io::Result<Conversation> {
        let log = self.open(&facts.id)?;
        self.write_meta(&facts.id, meta)?;
        let mut conversation = Conversation::of_child(self.session.clone(), &meta.cwd);
        self.dress(&mut conversation, &facts.id, log, masker);
        Ok(conversation)
    }

    /// Restores the conversation of an agent from its log.
    pub(super) fn resume(
        &self,
        facts: &ChildIdentity,
        meta: &AgentMeta,
        masker: Masker,
    ) -> io::Result<(Conversation, Restored)> {
        let path = self.path(&facts.id);
        let log = self.open(&facts.id)?;
        let epoch = self.fence.as_ref().map(|fence| fence.owner().epoch);
        let (mut conversation, restored) =
            Conversation::resume_child(self.session.clone(), &meta.cwd, &path, epoch)?;
        self.write_meta(&facts.id, meta)?;
        self.dress(&mut conversation, &facts.id, log, masker);
        Ok((conversation, restored))
    }

    fn dress(&self, conversation: &mut Conversation, id: &AgentId, log: LogFile, masker: Masker) {
        conversation.mask(masker);
        let mut stamp = self.stamp.clone();
        stamp.insert(String::from("agentId"), json!(id));
        conversation.stamp(stamp);
        conversation.set_log(log);
        if self.mirror {
            conversation.mirror();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_for_agents_that_are_gone_is_for_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let session = SessionId::from("s");
        let logs = AgentLogs::beside(&dir.path().join("s.jsonl"), session, Map::new(), false);
        let letter = |id: &str, to: &str| AgentMessage {
            id: id.to_owned(),
            from: String::from("main"),
            name: String::from("main"),
            to: to.to_owned(),
            body: String::from("hello"),
        };
        for (id, to) in [("1", "a1"), ("2", "a2"), ("3", "main")] {
            logs.append_message(&letter(id, to)).unwrap();
        }
        logs.discard_messages(&[AgentId::new("a1")]).unwrap();
        logs.append_message(&letter("4", "a1")).unwrap();
        let left: Vec<String> = logs.letters().into_iter().map(|it| it.id).collect();
        assert_eq!(left, ["2", "3", "4"], "what was written before, and to nobody else");
    }

    /// A process can be killed after any byte of a line: complete lines before and after stay readable.
    #[test]
    fn mail_survives_a_process_that_dies_while_it_writes() {
        let dir = tempfile::tempdir().unwrap();
        let session = SessionId::from("s");
        let logs = AgentLogs::beside(&dir.path().join("s.jsonl"), session, Map::new(), false);
        let letter = |id: &str| AgentMessage {
            id: id.to_owned(),
            from: String::from("main"),
            name: String::from("main"),
            to: String::from("a1"),
            body: String::from("Grüße \u{1f41d} \u{4f60}"),
        };
        let file = logs.dir.join("mail.jsonl");
        logs.append_message(&letter("1")).unwrap();
        let before = std::fs::read(&file).unwrap();
        logs.append_message(&letter("2")).unwrap();
        let whole = std::fs::read(&file).unwrap();
        for cut in before.len()..=whole.len() {
            std::fs::write(&file, &whole[..cut]).unwrap();
            logs.append_message(&letter("3")).unwrap();
            let left: Vec<String> = logs.letters().into_iter().map(|it| it.id).collect();
            // The last byte is only the line end.
            let wanted: &[&str] = if whole.len() - 1 <= cut { &["1", "2", "3"] } else { &["1", "3"] };
            assert_eq!(left, wanted, "cut at {cut} of {}", whole.len());
        }
    }
}
