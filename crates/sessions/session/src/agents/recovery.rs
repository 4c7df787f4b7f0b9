//! Recovers the sub-agents of an earlier process: the outcome of each run, and which outcomes were not
//! delivered.
//!
//! **Invariant:** every run that was started, or that a call result reported as started, is
//! delivered exactly once. The run's own log says how it ended; its parent's log says whether that was
//! delivered.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    sync::Arc,
};

use haft_agent::log::{LogEntry, LogState, RequestLine, UnpaidAnswers};
use haft_builtin_tools::agent::{AgentReport, AgentStatus};
use haft_types::{AgentId, CallId, Message, MessageBlock, Role, Usage};
use memchr::memmem::Finder;
use serde_json::Value;

use super::{
    AgentLogs, SubagentRegistry,
    agent_logs::AgentMeta,
    agent_tree::ReportWaiter,
    mail_item::{MailBody, MailItem, notice},
};

/// Reason for a run without a report.
const PROCESS_ENDED: &str = "the process it ran in ended before it did";

impl AgentLogs {
    /// The sub-agents of an earlier process with the report of each last run. A run that did not end
    /// gets a report that says so.
    pub(super) fn left(&self) -> Vec<(AgentId, AgentMeta, AgentReport)> {
        self.all_runs().into_iter().filter_map(|(id, meta, mut runs)| Some((id, meta, runs.pop()?))).collect()
    }

    /// Like [`Self::left`], with the reports of all runs, oldest first.
    fn all_runs(&self) -> Vec<(AgentId, AgentMeta, Vec<AgentReport>)> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut ids: Vec<AgentId> = entries
            .filter_map(|entry| {
                let name = entry.file_name().to_str()?.to_owned();
                Some(AgentId::new(name.strip_prefix("agent-")?.strip_suffix(".meta.json")?))
            })
            .collect();
        ids.sort();
        let mut all: Vec<_> = ids.into_iter().filter_map(|id| self.runs_of(id)).collect();
        // A name used by several agents belongs to the one started last.
        all.sort_by_key(|(_, meta, _)| meta.began_at);
        all
    }

    fn runs_of(&self, id: AgentId) -> Option<(AgentId, AgentMeta, Vec<AgentReport>)> {
        let mut meta = self.meta(&id)?;
        let path = self.path(&id);
        let mut found = LoggedRuns::default();
        haft_agent::log::read(&path, |entry| found.take(entry)).ok();
        found.end();
        // The log is authoritative: the metadata file may describe an earlier or later run.
        match found.runs.last().and_then(|it| it.run.clone()) {
            Some(last) if found.runs.iter().any(|it| it.run.as_ref() == Some(&meta.run_id)) => {
                meta.run_id = last;
            }
            Some(_) | None => {
                found.runs.push(LoggedRun { run: Some(meta.run_id.clone()), ..LoggedRun::default() })
            }
        }
        let report = |run: LoggedRun| {
            let report = run.report.unwrap_or_else(|| AgentReport {
                status: AgentStatus::Interrupted,
                why: Some(PROCESS_ENDED.to_owned()),
                text: run.text,
                turns: run.requests,
                untold: run.untold,
                usage: run.usage,
                usd: run.usd,
                tools_used: run.calls,
                ..AgentReport::default()
            });
            AgentReport {
                agent_id: id.to_string(),
                run_id: run.run.unwrap_or_else(|| meta.run_id.clone()),
                kind: meta.agent_type.clone(),
                name: meta.name.clone(),
                description: meta.description.clone(),
                prompt: meta.prompt.clone(),
                model: meta.model.clone(),
                log: Some(path.clone()),
                ..report
            }
        };
        let reports = found.runs.into_iter().map(report).collect();
        Some((id, meta, reports))
    }
}

/// The runs in the log of an agent.
#[derive(Default)]
struct LoggedRuns {
    runs: Vec<LoggedRun>,
    unpaid: UnpaidAnswers,
}

/// One run of an agent.
#[derive(Default)]
struct LoggedRun {
    run: Option<String>,
    report: Option<AgentReport>,
    /// Its last text and activity so far: all that is known of a killed run.
    text: String,
    requests: u32,
    untold: u32,
    usage: Usage,
    usd: f64,
    calls: BTreeMap<String, u64>,
}

impl LoggedRuns {
    fn count(&mut self, asked: &RequestLine) {
        if let Some(run) = self.runs.last_mut() {
            run.requests += 1;
            run.untold += u32::from(asked.is_estimate);
            run.usage += asked.usage;
            run.usd += asked.usd.unwrap_or_default();
        }
    }

    /// Records the end of a run: its last answer counts even if its cost was not recorded.
    fn end(&mut self) {
        if let Some(unpaid) = self.unpaid.end() {
            self.count(&unpaid);
        }
    }

    fn take(&mut self, entry: LogEntry) {
        if let Some(unpaid) = self.unpaid.take(&entry) {
            self.count(&unpaid);
        }
        match entry {
            LogEntry::Haft(LogState::RunBegan { run }) => {
                self.end();
                self.runs.push(LoggedRun { run: Some(run), ..LoggedRun::default() });
            }
            LogEntry::Haft(LogState::RunEnded { run, report }) => {
                let report = serde_json::from_value(report).ok();
                if let Some(it) = self.runs.iter_mut().rev().find(|it| it.run.as_ref() == Some(&run)) {
                    it.report = report;
                }
            }
            LogEntry::Haft(LogState::Asked(asked)) => self.count(&asked),
            LogEntry::Assistant(line) => {
                let Some(run) = self.runs.last_mut() else { return };
                let text = text_of(&line.message.message);
                if !text.trim().is_empty() {
                    run.text = text;
                }
                for block in &line.message.message.content {
                    if let MessageBlock::ToolUse(call) = block {
                        *run.calls.entry(call.name.clone()).or_default() += 1;
                    }
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

impl SubagentRegistry {
    /// Registers the agents of an earlier process. Reports that the main agent's log does not contain go
    /// along with its next request; those for sub-agents are delivered when these are resumed.
    pub(crate) fn recover(&self, main_log: &Path) {
        let Some(logs) = self.logs() else { return };
        let heard = LoggedDeliveries::read(main_log);
        let mut known: HashSet<String> = HashSet::new();
        let mut for_others = Vec::new();
        for (id, meta, runs) in logs.all_runs() {
            let call = CallId::from(meta.tool_use_id.as_str());
            let last = runs.len().saturating_sub(1);
            for (number, report) in runs.iter().enumerate() {
                known.insert(report.run_id.clone());
                // A caller that read the task by its id has received the report of its last run.
                let is_told =
                    heard.told.contains(&report.run_id) || number == last && heard.told.contains(id.as_str());
                let report = Arc::new(report.clone());
                match &meta.parent_agent_id {
                    None if !is_told => self.mention(report, call.clone()),
                    Some(parent) => for_others.push((AgentId::new(parent.as_str()), report, call.clone())),
                    None => (),
                }
            }
            if let Some(report) = runs.into_iter().next_back() {
                self.remember(id, &meta, Arc::new(report));
            }
        }
        for launched in heard.launched {
            if !known.contains(&launched.run_id) && !heard.told.contains(&launched.run_id) {
                let call = CallId::from(launched.call.as_str());
                self.mention(Arc::new(launched.report()), call);
            }
        }
        for (parent, report, call) in for_others {
            if !LoggedDeliveries::read(&logs.path(&parent)).told.contains(&report.run_id) {
                let what = MailBody::Report(report, call);
                if let Some(told) = notice(&[MailItem { waiter: ReportWaiter::Mail, what }]) {
                    self.queue_input(&parent, told);
                }
            }
        }
        for letter in logs.letters() {
            let reader = AgentId::new(letter.to.as_str());
            // A message to a member of an ended team is void, whether or not that was recorded.
            if self.tree().is_of_ended_team(&reader) {
                continue;
            }
            match reader.child() {
                None if !heard.told.contains(&letter.id) => self.mention_letter(letter),
                Some(_) if !LoggedDeliveries::read(&logs.path(&reader)).told.contains(&letter.id) => {
                    self.keep_for(&reader, &letter);
                }
                _ => (),
            }
        }
    }
}

/// What a log shows as delivered to its agent.
#[derive(Default)]
struct LoggedDeliveries {
    /// Ids of runs whose reports were delivered, of agents whose end was a call result, and of messages.
    told: HashSet<String>,
    /// Runs that a call result reported as started in the background.
    launched: Vec<LaunchedRun>,
}

/// A run that a call result reported as started.
struct LaunchedRun {
    agent_id: String,
    run_id: String,
    kind: String,
    description: String,
    prompt: String,
    model: String,
    call: String,
}

impl LaunchedRun {
    /// A report for a run that failed before its log was created.
    fn report(self) -> AgentReport {
        AgentReport {
            agent_id: self.agent_id,
            run_id: self.run_id,
            kind: self.kind,
            description: self.description,
            prompt: self.prompt,
            model: self.model,
            status: AgentStatus::Interrupted,
            why: Some(PROCESS_ENDED.to_owned()),
            ..AgentReport::default()
        }
    }
}

impl LoggedDeliveries {
    fn read(log: &Path) -> Self {
        let mut heard = Self::default();
        let Ok(file) = File::open(log) else { return heard };
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let marks = [&b"runId"[..], b"messageIds", b"task_id", b"taskId"].map(Finder::new);
        while reader.read_until(b'\n', &mut line).is_ok_and(|read| 0 < read) {
            let names_some = marks.iter().any(|mark| mark.find(&line).is_some());
            if names_some && let Ok(entry) = serde_json::from_slice::<Value>(&line) {
                heard.take(&entry);
            }
            line.clear();
        }
        heard
    }

    fn take(&mut self, entry: &Value) {
        let runs = entry["origin"]["runIds"].as_array().into_iter().flatten();
        let letters = entry["origin"]["messageIds"].as_array().into_iter().flatten();
        self.told.extend(runs.chain(letters).filter_map(|it| it.as_str().map(str::to_owned)));
        // The result of a failed run, or a typed skill: both are only recorded as text.
        if entry["type"] == "haft" {
            self.told.extend(entry["runId"].as_str().map(str::to_owned));
        }
        let result = &entry["toolUseResult"];
        let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        if result["status"] == "async_launched" {
            let blocks = entry["message"]["content"].as_array().into_iter().flatten();
            let call = blocks.filter_map(|it| it["tool_use_id"].as_str()).next().unwrap_or_default();
            self.launched.push(LaunchedRun {
                agent_id: text("agentId"),
                run_id: text("runId"),
                kind: text("agentType"),
                description: text("description"),
                prompt: text("prompt"),
                model: text("resolvedModel"),
                call: call.to_owned(),
            });
        } else {
            self.told.extend(result["runId"].as_str().map(str::to_owned));
        }
        if result["status"] != "running" {
            let by_id = [&result["taskId"], &result["task_id"]];
            self.told.extend(by_id.into_iter().filter_map(|it| it.as_str().map(str::to_owned)));
        }
    }
}
