//! Logs of agents: `subagents/agent-<id>.jsonl` beside the session's log, and a
//! small file about each that says what it is, as readers of the Agent SDKs
//! expect them.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_agent::{
    Conversation, Masker, Restored,
    log::{Entry, LogFile, State},
};
use haft_paths::{Durability, ReplacedMode, replace_file};
use haft_tools::agent::{AgentReport, AgentStatus};
use haft_types::{AgentId, CallId, Message, MessageBlock, Role, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{AgentDesk, ChildFacts, delivery::Letter};

/// Where the agents of a session are logged.
#[derive(Clone, Debug)]
pub(crate) struct AgentLogs {
    dir: PathBuf,
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

    fn meta_path(&self, id: &AgentId) -> PathBuf {
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
    fn letters(&self) -> Vec<Letter> {
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

    /// Agents of an earlier process: what each was, and the report of its last
    /// run; one that did not end gets one that says so.
    pub(super) fn left(&self) -> Vec<(AgentId, AgentMeta, AgentReport)> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut ids: Vec<AgentId> = entries
            .filter_map(|entry| {
                let name = entry.file_name().to_str()?.to_owned();
                Some(AgentId::new(name.strip_prefix("agent-")?.strip_suffix(".meta.json")?))
            })
            .collect();
        ids.sort();
        ids.into_iter().filter_map(|id| self.left_one(id)).collect()
    }

    fn left_one(&self, id: AgentId) -> Option<(AgentId, AgentMeta, AgentReport)> {
        let mut meta = self.meta(&id)?;
        let path = self.path(&id);
        let mut found = LastRun::default();
        haft_agent::log::read(&path, |entry| found.take(entry)).ok();
        // The log is the truth: the small file may be of the run before.
        if let Some(run) = &found.run {
            meta.run_id.clone_from(run);
        }
        let report = found.report.unwrap_or_else(|| AgentReport {
            status: AgentStatus::Interrupted,
            why: Some(String::from("the process it ran in ended before it did")),
            text: found.text,
            ..AgentReport::default()
        });
        let report = AgentReport {
            agent_id: id.to_string(),
            run_id: meta.run_id.clone(),
            kind: meta.agent_type.clone(),
            name: meta.name.clone(),
            description: meta.description.clone(),
            prompt: meta.prompt.clone(),
            model: meta.model.clone(),
            log: Some(path),
            ..report
        };
        Some((id, meta, report))
    }
}

/// The last run in the log of an agent.
#[derive(Default)]
struct LastRun {
    run: Option<String>,
    report: Option<AgentReport>,
    text: String,
}

impl LastRun {
    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Haft(State::RunBegan { run }) => {
                *self = Self { run: Some(run), ..Self::default() };
            }
            Entry::Haft(State::RunEnded { report, .. }) => {
                self.report = serde_json::from_value(report).ok();
            }
            Entry::Assistant(line) => {
                let text = text_of(&line.message.message);
                if !text.trim().is_empty() {
                    self.text = text;
                }
            }
            _ => (),
        }
    }
}

fn text_of(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        MessageBlock::Text { text } if message.role == Role::Assistant => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("")
}

impl AgentDesk {
    /// Knows the agents of an earlier process again. Reports that the main agent
    /// has not heard, as its log says, come with its next request.
    pub(crate) fn recover(&self, main_log: &Path) {
        let Some(logs) = self.logs() else { return };
        let left = logs.left();
        if left.is_empty() {
            return;
        }
        let told = told_runs(main_log);
        for (id, meta, report) in left {
            let is_told = told.contains(&report.run_id) || told.contains(id.as_str());
            let is_of_main = meta.parent_agent_id.is_none();
            let was_stopped = meta.status == Some(AgentStatus::Interrupted) && meta.finished;
            let report = Arc::new(report);
            let call = CallId::from(meta.tool_use_id.as_str());
            if is_of_main && !is_told && !was_stopped {
                self.mention(Arc::clone(&report), call);
            }
            self.remember(id, &meta, report);
        }
        for letter in logs.letters() {
            let reader = AgentId::new(letter.to.as_str());
            match reader.child() {
                None if !told.contains(&letter.id) => self.mention_letter(letter),
                Some(_) if !told_runs(&logs.path(&reader)).contains(&letter.id) => {
                    self.keep_for(&reader, &letter);
                }
                _ => (),
            }
        }
    }
}

/// Runs whose reports are in a log, and agents whose end a call was told.
fn told_runs(log: &Path) -> HashSet<String> {
    let mut told = HashSet::new();
    let Ok(file) = File::open(log) else { return told };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| 0 < read) {
        let names_some = [&b"runId"[..], b"messageIds", b"task_id", b"taskId"]
            .iter()
            .any(|mark| line.windows(mark.len()).any(|part| part == *mark));
        if names_some && let Ok(entry) = serde_json::from_slice::<Value>(&line) {
            let runs = entry["origin"]["runIds"].as_array().into_iter().flatten();
            let letters = entry["origin"]["messageIds"].as_array().into_iter().flatten();
            told.extend(runs.chain(letters).filter_map(|it| it.as_str().map(str::to_owned)));
            let result = &entry["toolUseResult"];
            let is_launch = result["status"] == "async_launched";
            let by_call = [&result["runId"]].into_iter().filter(|_| !is_launch);
            let ended = result["status"] != "running";
            let by_id = [&result["taskId"], &result["task_id"]].into_iter().filter(|_| ended);
            told.extend(by_call.chain(by_id).filter_map(|it| it.as_str().map(str::to_owned)));
        }
        line.clear();
    }
    told
}
