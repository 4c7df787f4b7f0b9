//! Logs of agents: `subagents/agent-<id>.jsonl` beside the session's log, and a
//! small file about each that says what it is, as readers of the Agent SDKs
//! expect them.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use haft_agent::{Conversation, Masker, Restored, log::LogFile};
use haft_paths::{Durability, ReplacedMode, replace_file};
use haft_tools::agent::AgentStatus;
use haft_types::{AgentId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ChildFacts, delivery::Letter};

/// Where the agents of a session are logged.
#[derive(Clone, Debug)]
pub(crate) struct AgentLogs {
    pub(super) dir: PathBuf,
    /// What every line says beside the rest.
    pub(crate) stamp: Map<String, Value>,
    pub(crate) session: SessionId,
    /// Whether faces are told every line.
    pub(crate) mirror: bool,
}

/// What an agent is, beside its log.
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
    pub(super) model: String,
    pub(super) run_id: String,
    pub(super) prompt: String,
    pub(super) in_background: bool,
    pub(super) cwd: PathBuf,
    /// Its worktree, if it has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) worktree_path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) worktree_branch: Option<String>,
    /// Names of the tools it has.
    pub(super) tools: Vec<String>,
    pub(super) finished: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<AgentStatus>,
}

impl AgentMeta {
    pub(super) fn of(facts: &ChildFacts, is_built_in: bool, cwd: &Path) -> Self {
        Self {
            agent_type: facts.kind.clone(),
            is_built_in,
            description: facts.description.clone(),
            name: facts.name.clone(),
            tool_use_id: facts.call.to_string(),
            parent_agent_id: facts.parent.child().map(ToString::to_string),
            spawn_depth: facts.depth,
            model: facts.model.clone(),
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
    /// Those of the session with this log.
    pub(crate) fn beside(log: &Path, session: SessionId, stamp: Map<String, Value>, mirror: bool) -> Self {
        Self { dir: log.with_extension("").join("subagents"), stamp, session, mirror }
    }

    /// The log of an agent.
    pub(crate) fn path(&self, id: &AgentId) -> PathBuf {
        self.dir.join(format!("agent-{id}.jsonl"))
    }

    pub(super) fn meta_path(&self, id: &AgentId) -> PathBuf {
        self.dir.join(format!("agent-{id}.meta.json"))
    }

    /// Writes down what an agent is.
    pub(super) fn write_meta(&self, id: &AgentId, meta: &AgentMeta) -> io::Result<()> {
        let bytes = serde_json::to_vec(meta).map_err(io::Error::other)?;
        replace_file(&self.meta_path(id), &bytes, ReplacedMode::KeptOr(0o600), Durability::Whenever)
    }

    /// What an agent was when it last began or ended.
    pub(super) fn meta(&self, id: &AgentId) -> Option<AgentMeta> {
        serde_json::from_slice(&std::fs::read(self.meta_path(id)).ok()?).ok()
    }

    /// Keeps a message until it was read, and after: one line, in one write.
    pub(super) fn keep_letter(&self, letter: &Letter) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let path = self.dir.join("mail.jsonl");
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let mut line = serde_json::to_vec(letter).map_err(io::Error::other)?;
        line.push(b'\n');
        // A line that a dying process left half is ended first.
        line.insert(0, b'\n');
        file.write_all(&line)
    }

    /// Messages of this session, as far as they can be read.
    pub(super) fn letters(&self) -> Vec<Letter> {
        let text = std::fs::read_to_string(self.dir.join("mail.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The line about an agent that faces are told with its log.
    pub(super) fn meta_line(id: &AgentId, meta: &AgentMeta) -> Value {
        let mut line = json!(meta);
        line["type"] = json!("agent_metadata");
        line["agentId"] = json!(id);
        line
    }

    /// The conversation of an agent that begins, and its log.
    pub(super) fn begin(
        &self,
        facts: &ChildFacts,
        meta: &AgentMeta,
        masker: Masker,
    ) -> io::Result<Conversation> {
        let log = LogFile::open(self.path(&facts.id))?;
        self.write_meta(&facts.id, meta)?;
        let mut conversation = Conversation::of_child(self.session.clone(), &meta.cwd);
        self.dress(&mut conversation, &facts.id, log, masker);
        Ok(conversation)
    }

    /// The conversation of an agent that goes on.
    pub(super) fn resume(
        &self,
        facts: &ChildFacts,
        meta: &AgentMeta,
        masker: Masker,
    ) -> io::Result<(Conversation, Restored)> {
        let path = self.path(&facts.id);
        let log = LogFile::open(&path)?;
        let (mut conversation, restored) =
            Conversation::resume_child(self.session.clone(), &meta.cwd, &path)?;
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
