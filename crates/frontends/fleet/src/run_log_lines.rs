//! Lines of a run in the store: those of the session's own log as they are, and
//! around them what only a fleet knows.

use std::{collections::BTreeMap, path::Path};

use haft_fleet_store::BlobHash;
use serde::{Deserialize, Serialize};

/// The format of what is written here. A worker that meets a newer one leaves the
/// run to others.
pub(crate) const FORMAT: u32 = 1;

/// A line that is not of the session's own log.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename = "fleet")]
pub(crate) struct FleetLine {
    /// What it says.
    pub(crate) fleet: FleetState,
}

/// What only a fleet knows about a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum FleetState {
    /// Who writes what follows.
    Owner {
        /// The format of what follows.
        format: u32,
        /// The program.
        haft: String,
        /// The worker.
        worker: String,
        /// Its epoch.
        epoch: u64,
        /// Where it works.
        cwd: String,
        /// The commit or tree everything began from, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
    },
    /// What the command that makes a workspace ready printed.
    Setup {
        /// The text.
        text: String,
    },
    /// The files of the workspace, as they were here.
    Checkpoint {
        /// The manifest.
        manifest: BlobHash,
        /// Calls whose changes it has, and no checkpoint before had.
        #[serde(default)]
        calls: Vec<String>,
    },
    /// A branch is about to be pushed.
    Pushing {
        /// The commit.
        commit: String,
    },
    /// The lines of another log than the session's own.
    Log {
        /// Its name, relative to the session.
        log: String,
        /// The line, as text: what is told apart by a field cannot hold raw JSON.
        line: String,
    },
    /// The content of a small file beside the log.
    File {
        /// Its name, relative to the session.
        file: String,
        /// All of it.
        content: String,
    },
    /// Something whoever pays or waits should know.
    Warning {
        /// The text.
        text: String,
    },
    /// Somebody is asked, and the run waits for the answer.
    Question {
        /// The call, the tool, what is asked.
        question: serde_json::Value,
    },
    /// Written by a newer version.
    #[serde(other)]
    Unknown,
}

impl FleetState {
    /// The line, without its end.
    pub(crate) fn to_line(&self) -> String {
        serde_json::to_string(&FleetLine { fleet: self.clone() }).unwrap_or_default()
    }

    /// The state that a line of the store is, if it is one.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        // Lines of a session are many and long, and never look like this.
        let is_ours = line.starts_with("{\"type\":\"fleet\"");
        is_ours.then(|| serde_json::from_str::<FleetLine>(line).map_or(Self::Unknown, |it| it.fleet))
    }
}

/// What the lines of a run say, taken apart.
#[derive(Debug, Default)]
pub(crate) struct RunHistory {
    /// The logs, by their names relative to the session.
    pub(crate) logs: BTreeMap<String, Vec<u8>>,
    /// The newest content of small files.
    pub(crate) files: BTreeMap<String, String>,
    /// Where the last owner worked, and what it began from.
    pub(crate) last_cwd: Option<String>,
    pub(crate) base: Option<String>,
    /// The newest checkpoint, and calls that had started or ended by then.
    pub(crate) checkpoint: Option<BlobHash>,
    /// Calls that acted after it, by tool and id.
    pub(crate) acted_since: Vec<(String, String)>,
    /// Commits that may have been pushed.
    pub(crate) pushed: Vec<String>,
    /// Calls that began and have no result.
    pub(crate) open: Vec<StartedCall>,
    /// Names of lines of the conversation: what was said is among them.
    pub(crate) uuids: std::collections::HashSet<String>,
    /// A format that is newer than ours, and the program that wrote it.
    pub(crate) newer: Option<(u32, String)>,
    /// Owners so far: epoch and worker.
    pub(crate) owners: Vec<(u64, String)>,
    /// How many owners there were since a call last ended.
    pub(crate) owners_since_progress: u32,
    /// Whether a prompt has been heard.
    pub(crate) has_begun: bool,
}

/// A call that began.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StartedCall {
    pub(crate) id: String,
    pub(crate) tool: String,
}

impl RunHistory {
    /// Takes the next line.
    pub(crate) fn take(&mut self, line: &str) {
        match FleetState::parse(line) {
            None => {
                self.look(line);
                push(self.logs.entry(String::new()).or_default(), line);
            }
            Some(FleetState::Owner { format, haft, worker, epoch, cwd, base }) => {
                if FORMAT < format {
                    self.newer = Some((format, haft));
                }
                self.last_cwd = Some(cwd);
                if base.is_some() {
                    self.base = base;
                }
                self.owners.push((epoch, worker));
                self.owners_since_progress += 1;
            }
            Some(FleetState::Checkpoint { manifest, calls }) => {
                self.checkpoint = Some(manifest);
                self.acted_since.retain(|(_, call)| !calls.contains(call));
            }
            Some(FleetState::Pushing { commit }) => self.pushed.push(commit),
            Some(FleetState::Log { log, line }) => {
                self.look_at_calls(&line);
                push(self.logs.entry(log).or_default(), &line);
            }
            Some(FleetState::File { file, content }) => {
                self.files.insert(file, content);
            }
            Some(
                FleetState::Setup { .. }
                | FleetState::Warning { .. }
                | FleetState::Question { .. }
                | FleetState::Unknown,
            ) => (),
        }
    }

    fn look(&mut self, line: &str) {
        if let Ok(head) = serde_json::from_str::<LineHead<'_>>(line) {
            self.has_begun |= head.kind == "user";
            if let Some(uuid) = head.uuid {
                self.uuids.insert(uuid.into_owned());
            }
        }
        self.look_at_calls(line);
    }

    fn look_at_calls(&mut self, line: &str) {
        match CallHead::parse(line) {
            Some(CallHead { kind: "started", call: Some(call), tool: Some(tool), .. }) => {
                self.acted_since.push((tool.to_string(), call.to_string()));
                self.open.push(StartedCall { id: call.into_owned(), tool: tool.into_owned() });
            }
            Some(CallHead { kind: "call", call: Some(call), left_for_later, .. }) => {
                self.open.retain(|it| it.id != call);
                if !left_for_later {
                    self.owners_since_progress = 0;
                }
            }
            _ => (),
        }
    }

    /// What a call was asked to do, where the conversation says so.
    pub(crate) fn input_of(&self, call: &str) -> Option<serde_json::Value> {
        let logs = self.logs.values().filter_map(|log| std::str::from_utf8(log).ok());
        let lines = logs.flat_map(str::lines).filter(|it| it.contains(call) && it.contains("\"tool_use\""));
        lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).find_map(|line| {
            let mut blocks = line["message"]["content"].as_array()?.iter();
            let block = blocks.find(|it| it["type"] == "tool_use" && it["id"] == call)?;
            Some(block["input"].clone())
        })
    }

    /// Calls that began count as if they had not: who goes on runs them.
    pub(crate) fn forget_starts(&mut self, calls: &[String]) {
        self.open.retain(|it| !calls.contains(&it.id));
        for log in self.logs.values_mut() {
            let text = String::from_utf8_lossy(log).into_owned();
            let is_start = |line: &str| match CallHead::parse(line) {
                Some(CallHead { kind: "started", call: Some(call), .. }) => {
                    calls.iter().any(|it| *it == call)
                }
                _ => false,
            };
            log.clear();
            text.lines().filter(|line| !is_start(line)).for_each(|line| push(log, line));
        }
    }

    /// Writes the logs and files of the session beside `log`, which is the path of
    /// its own log.
    pub(crate) fn write_to(&self, log: &Path) -> std::io::Result<()> {
        let dir = log.with_extension("");
        for (name, content) in &self.logs {
            let path = if name.is_empty() { log.to_owned() } else { dir.join(safe_name(name)?) };
            write_file(&path, content)?;
        }
        for (name, content) in &self.files {
            write_file(&dir.join(safe_name(name)?), content.as_bytes())?;
        }
        Ok(())
    }
}

/// A name that leads nowhere but down.
fn safe_name(name: &str) -> std::io::Result<&str> {
    let is_safe =
        !name.starts_with('/') && name.split('/').all(|part| !part.is_empty() && part != ".." && part != ".");
    if is_safe {
        Ok(name)
    } else {
        Err(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("a log is called {name:?}")))
    }
}

fn write_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if let Some(dir) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    std::io::Write::write_all(&mut file, content)
}

fn push(log: &mut Vec<u8>, line: &str) {
    log.extend_from_slice(line.as_bytes());
    log.push(b'\n');
}

#[derive(Deserialize)]
struct LineHead<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(default, borrow)]
    uuid: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Deserialize)]
struct CallHead<'a> {
    #[serde(default)]
    kind: &'a str,
    #[serde(default, borrow)]
    call: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, borrow)]
    tool: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    left_for_later: bool,
}

impl<'a> CallHead<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let is_state = line.starts_with("{\"type\":\"haft\"");
        is_state.then(|| serde_json::from_str(line).ok())?
    }
}

/// A line that says that a call begins or has ended.
pub(crate) enum CallMarker {
    Started(String),
    Ended(String),
}

impl CallMarker {
    /// The mark that a line is, also as a line of another log.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        if let Some(FleetState::Log { line, .. }) = FleetState::parse(line) {
            return Self::parse(&line);
        }
        match CallHead::parse(line)? {
            CallHead { kind: "started", call: Some(call), .. } => Some(Self::Started(call.into_owned())),
            CallHead { kind: "call", call: Some(call), .. } => Some(Self::Ended(call.into_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart_again() {
        let owner = FleetState::Owner {
            format: 1,
            haft: String::from("0.1.0"),
            worker: String::from("w"),
            epoch: 3,
            cwd: String::from("/w"),
            base: Some(String::from("abc")),
        };
        let child = FleetState::Log {
            log: String::from("subagents/agent-a.jsonl"),
            line: String::from("{\"type\":\"user\"}"),
        };
        let manifest = BlobHash::hash(b"x");
        let mut history = RunHistory::default();
        for line in [
            owner.to_line(),
            String::from(r#"{"type":"user","uuid":"u1","message":{}}"#),
            String::from(r#"{"type":"haft","kind":"started","call":"c1","tool":"Bash"}"#),
            String::from(r#"{"type":"haft","kind":"call","call":"c1","tool":"Bash"}"#),
            FleetState::Checkpoint { manifest, calls: vec![String::from("c1")] }.to_line(),
            child.to_line(),
            String::from(r#"{"type":"haft","kind":"started","call":"c2","tool":"Write"}"#),
        ] {
            history.take(&line);
        }
        assert!(history.has_begun && history.uuids.contains("u1"));
        assert_eq!(history.checkpoint, Some(manifest));
        assert_eq!(history.acted_since, [(String::from("Write"), String::from("c2"))]);
        assert_eq!(history.open, [StartedCall { id: String::from("c2"), tool: String::from("Write") }]);
        assert_eq!(history.logs[""].iter().filter(|it| **it == b'\n').count(), 4);
        assert_eq!(history.logs["subagents/agent-a.jsonl"], b"{\"type\":\"user\"}\n");
        let dir = tempfile::tempdir().unwrap();
        history.write_to(&dir.path().join("s.jsonl")).unwrap();
        assert!(dir.path().join("s/subagents/agent-a.jsonl").is_file());
        history.logs.insert(String::from("../x"), Vec::new());
        assert!(history.write_to(&dir.path().join("s.jsonl")).is_err());
    }
}
