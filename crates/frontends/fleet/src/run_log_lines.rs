//! Log lines of a run in the store: the session's own lines unchanged, and lines that only the fleet
//! uses.

use std::{collections::BTreeMap, path::Path};

use haft_fleet_store::BlobHash;
use serde::{Deserialize, Serialize};

/// Format version of these lines. A worker that finds a newer one returns the job to the queue.
pub(crate) const FORMAT: u32 = 1;

/// A line that is not part of the session's own log.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename = "fleet")]
pub(crate) struct FleetLine {
    pub(crate) fleet: FleetState,
}

/// Content of a fleet line.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum FleetState {
    /// The owner of the following lines.
    Owner {
        /// Format of the following lines.
        format: u32,
        /// Version of the program.
        haft: String,
        worker: String,
        epoch: u64,
        /// Path of its workspace.
        cwd: String,
        /// Commit or tree the workspace was created from, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
    },
    /// Output of the setup command.
    Setup { text: String },
    /// A checkpoint of the workspace.
    Checkpoint {
        /// Blob of the manifest.
        manifest: BlobHash,
        /// Calls whose changes are in this checkpoint but not in an earlier one.
        #[serde(default)]
        calls: Vec<String>,
    },
    /// A branch is about to be pushed.
    Pushing { commit: String },
    /// A line of another log than the session's main one.
    Log {
        /// Path of the log, relative to the session.
        log: String,
        /// The line as a string; raw JSON is not possible in an internally tagged enum.
        line: String,
    },
    /// Content of a small file beside the log.
    File {
        /// Path, relative to the session.
        file: String,
        content: String,
    },
    /// A warning for the user.
    Warning { text: String },
    /// The run waits for an answer to a question.
    Question {
        /// Call id, tool and question.
        question: serde_json::Value,
    },
    /// Written by a newer version.
    #[serde(other)]
    Unknown,
}

impl FleetState {
    /// Returns the line without line break.
    pub(crate) fn to_line(&self) -> String {
        serde_json::to_string(&FleetLine { fleet: self.clone() }).unwrap_or_default()
    }

    /// Parses a line of the store; `None` for a session line.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        // Cheap check first: session lines are many and long, and never start like this.
        let is_ours = line.starts_with("{\"type\":\"fleet\"");
        is_ours.then(|| serde_json::from_str::<FleetLine>(line).map_or(Self::Unknown, |it| it.fleet))
    }
}

/// The parsed lines of a run.
#[derive(Debug, Default)]
pub(crate) struct RunHistory {
    /// Logs by path relative to the session.
    pub(crate) logs: BTreeMap<String, Vec<u8>>,
    /// Newest content of small files.
    pub(crate) files: BTreeMap<String, String>,
    /// Workspace path of the last owner, and the base it was created from.
    pub(crate) last_cwd: Option<String>,
    pub(crate) base: Option<String>,
    /// The newest checkpoint.
    pub(crate) checkpoint: Option<BlobHash>,
    /// Calls with side effects after the checkpoint: tool and id.
    pub(crate) acted_since: Vec<(String, String)>,
    /// Commits that may have been pushed.
    pub(crate) pushed: Vec<String>,
    /// Calls without a result.
    pub(crate) open: Vec<StartedCall>,
    /// Ids of conversation lines, to detect messages that were already delivered.
    pub(crate) uuids: std::collections::HashSet<String>,
    /// A newer format found, and the version that wrote it.
    pub(crate) newer: Option<(u32, String)>,
    /// All owners: epoch and worker.
    pub(crate) owners: Vec<(u64, String)>,
    /// Number of owners since a call last ended.
    pub(crate) owners_since_progress: u32,
    /// Whether the agent has received a prompt.
    pub(crate) has_begun: bool,
}

/// A call that was started.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StartedCall {
    pub(crate) id: String,
    pub(crate) tool: String,
}

impl RunHistory {
    /// Processes the next line.
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

    /// Returns the input of a call, if the conversation contains it.
    pub(crate) fn input_of(&self, call: &str) -> Option<serde_json::Value> {
        let logs = self.logs.values().filter_map(|log| std::str::from_utf8(log).ok());
        let lines = logs.flat_map(str::lines).filter(|it| it.contains(call) && it.contains("\"tool_use\""));
        lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).find_map(|line| {
            let mut blocks = line["message"]["content"].as_array()?.iter();
            let block = blocks.find(|it| it["type"] == "tool_use" && it["id"] == call)?;
            Some(block["input"].clone())
        })
    }

    /// Removes the `started` marks of calls, so that the session runs them again.
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

    /// Writes the logs and files of a session; `log` is the path of its main log.
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

/// Checks that a relative path does not leave its directory.
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

/// A line that marks the start or end of a call.
pub(crate) enum CallMarker {
    Started(String),
    Ended(String),
}

impl CallMarker {
    /// Parses a mark, also inside a line of another log.
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
    fn run_lines_round_trip() {
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
