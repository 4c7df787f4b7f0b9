//! Locations of session logs, and resuming from one.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_agent::{
    Conversation, Restored,
    log::{LogFile, RemoteLog, RemoteLogHandle},
};
use haft_config::SettingsPaths;
use haft_types::SessionId;
use serde_json::{Value, json};

use crate::{
    LocationSpec, LogDestination, LogSpec, LogStart, OpenError,
    environment::{
        SessionEnvironment,
        state_dir::{can_be_written, temporary_state},
    },
    tool_hosts::HostCallStates,
};

/// The log directories of a working directory. New logs are written to the first; existing ones are
/// searched in all.
#[derive(Clone, Debug)]
pub struct SessionLogs {
    dirs: Vec<PathBuf>,
    /// The preferred directory, if it is not writable.
    unwritable: Option<PathBuf>,
}

impl SessionLogs {
    /// The log directories of a location. `CLAUDE_CONFIG_DIR` moves them.
    pub fn new(place: &LocationSpec, kept: &LogDestination) -> Self {
        let cwd = place.cwd.canonicalize().unwrap_or_else(|_| place.cwd.clone());
        let places = SettingsPaths::detect(&cwd, &|name| place.variables.os_text(name));
        let moved =
            place.variables.os_text("CLAUDE_CONFIG_DIR").filter(|it| !it.is_empty()).map(PathBuf::from);
        let of_sdks = moved.clone().or_else(|| places.user.first().cloned());
        let own = place.state_dir.clone().or(places.state).unwrap_or_else(temporary_state);
        let roots = match (moved, kept, of_sdks) {
            (Some(moved), _, _) => vec![moved, own],
            (None, LogDestination::OfSdks, Some(of_sdks)) => vec![of_sdks, own],
            (None, _, of_sdks) => std::iter::once(own).chain(of_sdks).collect(),
        };
        let key = project_key(&cwd);
        let of = |root: PathBuf| root.join("projects").join(&key);
        let mut dirs: Vec<PathBuf> = roots.into_iter().map(of).collect();
        let unwritable = dirs.first().filter(|dir| !can_be_written(dir)).cloned();
        if unwritable.is_some() {
            dirs.insert(0, of(temporary_state()));
        }
        Self { dirs, unwritable }
    }

    /// Reports that a log is written elsewhere, because its directory is not writable.
    fn tell_replaced(&self, premises: &SessionEnvironment, path: &Path) {
        if let Some(dir) = self.unwritable.as_deref().filter(|_| path.starts_with(self.dir())) {
            premises.events.notice(format!(
                "{} cannot be written: this session is kept in {}. Make it writable (or make room), or set \
                 HAFT_CONFIG_DIR to a directory that is",
                dir.display(),
                self.dir().display()
            ));
            if !can_be_written(&self.dir()) {
                let here = self.dir().display().to_string();
                premises.events.notice(format!(
                    "{here} has no room either: calls that may change something do not run until there is room"
                ));
            }
        }
    }

    /// All log directories, in order of precedence.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Directory of new logs.
    pub fn dir(&self) -> PathBuf {
        self.dirs.first().cloned().unwrap_or_default()
    }

    /// Path of a session's log: where it exists, or where it would be created.
    pub fn path(&self, id: &str) -> PathBuf {
        let mut paths = self.dirs.iter().map(|dir| dir.join(format!("{id}.jsonl")));
        let first = paths.next().unwrap_or_default();
        if first.is_file() {
            return first;
        }
        paths.find(|path| path.is_file()).unwrap_or(first)
    }
}

/// Id of the session, path of its log, and the log to resume.
pub(crate) struct LogChoice {
    pub(crate) id: SessionId,
    pub(crate) logs: SessionLogs,
    /// Path of the log to write; `None` for no log.
    pub(crate) path: Option<PathBuf>,
    /// Path of the log to resume.
    pub(crate) from: Option<PathBuf>,
    pub(crate) until: Option<String>,
    /// The remote store that also receives the lines.
    pub(crate) fence: Option<Arc<dyn RemoteLog>>,
}

impl LogChoice {
    /// Determines the choice. Copies a log that is forked.
    pub(crate) fn make(place: &LocationSpec, spec: &LogSpec) -> Result<Self, OpenError> {
        let logs = SessionLogs::new(place, &spec.kept);
        let fresh = || spec.id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string().into());
        let old = match &spec.start {
            LogStart::New => None,
            LogStart::Session(id) => Some((id.clone(), logs.path(id))),
            LogStart::Newest => newest(&logs.dirs).map(|id| (id.clone(), logs.path(&id))),
            LogStart::File(path) => {
                let path = path.clone();
                return Ok(Self {
                    id: fresh(),
                    path: Self::written(spec, || path.clone()),
                    logs,
                    from: Some(path),
                    until: None,
                    fence: spec.fence.clone(),
                });
            }
        };
        if let Some(id) = &spec.id {
            let is_new = old.as_ref().is_none_or(|(old, _)| old != id.as_str());
            if is_new && spec.kept != LogDestination::Nowhere && logs.path(id).is_file() {
                return Err(OpenError::Spec(format!("Session ID {id} is already in use.")));
            }
        }
        let Some((old_id, old_path)) = old else {
            let id = fresh();
            let path = Self::written(spec, || logs.path(id.as_str()));
            return Ok(Self { path, id, logs, from: None, until: None, fence: spec.fence.clone() });
        };
        if !old_path.is_file() {
            return Err(OpenError::Start(format!("No conversation found with session ID: {old_id}")));
        }
        let until = spec.until.clone();
        if until.is_some() || spec.drops_turn.is_some() {
            check_cut(&Chain::read(&old_path)?, until.as_deref(), spec.drops_turn.as_deref())?;
        }
        let (id, from) = if spec.fork {
            let id = fresh();
            let copy = logs.path(id.as_str());
            copy_log(&old_path, &copy, id.as_str(), until.as_deref())
                .map_err(|err| OpenError::Start(format!("the session cannot be copied: {err}")))?;
            (id, copy)
        } else {
            (SessionId::from(old_id), old_path)
        };
        let path = Self::written(spec, || logs.path(id.as_str()));
        Ok(Self { id, logs, path, from: Some(from), until, fence: spec.fence.clone() })
    }

    fn written(spec: &LogSpec, usual: impl FnOnce() -> PathBuf) -> Option<PathBuf> {
        match &spec.kept {
            LogDestination::Nowhere => None,
            LogDestination::File(path) => Some(path.clone()),
            LogDestination::Own | LogDestination::OfSdks => Some(usual()),
        }
    }

    /// Restores the conversation. Locks the session's log before reading it, because another process
    /// might still write to it.
    pub(crate) fn conversation(
        &self,
        premises: &SessionEnvironment,
        has_hosts: bool,
    ) -> Result<(Conversation, Restored), OpenError> {
        let log = match &self.path {
            None => None,
            Some(path) => {
                self.logs.tell_replaced(premises, path);
                let fence = self.fence.clone().map(|fence| RemoteLogHandle::new(fence, ""));
                Some(open_log(path)?.fenced(fence))
            }
        };
        let (mut conversation, mut restored) = match &self.from {
            None => (Conversation::new(self.id.clone(), &premises.cwd, None), Restored::default()),
            Some(from) => {
                let (id, until) = (self.id.clone(), self.until.as_deref());
                let seen = HostCallStates { premises, has_hosts, fence: self.fence.as_deref() };
                let resumed = match &self.fence {
                    None => Conversation::resume_with(id, &premises.cwd, from, until, &seen),
                    Some(fence) => {
                        Conversation::taken_over(id, &premises.cwd, from, fence.owner().epoch, &seen)
                    }
                };
                resumed.map_err(|source| OpenError::Log { path: from.clone(), source })?
            }
        };
        if let Some(log) = log {
            restored.report.torn |= log.was_torn() && self.from == self.path;
            conversation.set_log(log);
        }
        Ok((conversation, restored))
    }
}

/// Opens a log for writing. Fails if another writer has it open.
pub(crate) fn open_log(path: &Path) -> Result<LogFile, OpenError> {
    LogFile::open(path).map_err(|source| OpenError::Log { path: path.to_owned(), source })
}

/// Copies a log for another session id, line by line to limit memory. Creates a complete copy or none.
pub(crate) fn copy_log(from: &Path, to: &Path, session: &str, until: Option<&str>) -> io::Result<()> {
    let mut lines = BufReader::new(File::open(from)?);
    let dir = to.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let part = to.with_extension("jsonl.part");
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    let mut out = BufWriter::new(file);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? != 0 {
        if let Ok(mut entry) = serde_json::from_slice::<Value>(&line) {
            if entry.get("sessionId").is_some() {
                entry["sessionId"] = Value::from(session);
            }
            writeln!(out, "{entry}")?;
            if until.is_some() && entry["uuid"].as_str() == until {
                break;
            }
        }
        line.clear();
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    std::fs::rename(part, to)
}

/// Directory name for a working directory, computed as the Agent SDKs do, so that they find sessions.
fn project_key(cwd: &Path) -> String {
    const LONGEST: usize = 200;
    let path = cwd.to_string_lossy();
    let plain: String = path.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
    if plain.len() <= LONGEST {
        return plain;
    }
    let mut hash = 0_i32;
    for unit in path.encode_utf16() {
        hash = hash.wrapping_shl(5).wrapping_sub(hash).wrapping_add(i32::from(unit));
    }
    format!("{}-{}", &plain[..LONGEST], base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Lines of a log that are part of the current conversation, oldest first.
struct Chain(Vec<Value>);

impl Chain {
    fn read(path: &Path) -> Result<Self, OpenError> {
        let failed = |source: io::Error| OpenError::Log { path: path.to_owned(), source };
        let mut reader = BufReader::new(File::open(path).map_err(failed)?);
        let (mut lines, mut line): (Vec<Value>, Vec<u8>) = (Vec::new(), Vec::new());
        while reader.read_until(b'\n', &mut line).map_err(failed)? != 0 {
            let message = serde_json::from_slice(&line).ok().filter(is_message);
            lines.extend(message.map(|it| outline(&it)));
            line.clear();
        }
        let place: HashMap<&str, usize> =
            lines.iter().enumerate().filter_map(|(at, line)| Some((line["uuid"].as_str()?, at))).collect();
        let mut chain = Vec::new();
        let mut at = lines.len().checked_sub(1);
        while let Some(here) = at {
            chain.push(lines[here].clone());
            // A parent precedes its child, which excludes cycles.
            at = lines[here]["parentUuid"].as_str().and_then(|it| place.get(it)).copied();
            at = at.filter(|parent| *parent < here);
        }
        chain.reverse();
        Ok(Self(chain))
    }
}

/// The fields of a line needed for cutting.
fn outline(line: &Value) -> Value {
    let content = if has_result(line) { json!([{"type": "tool_result"}]) } else { Value::Null };
    json!({
        "uuid": line["uuid"], "parentUuid": line["parentUuid"], "type": line["type"],
        "isMeta": line["isMeta"], "message": {"content": content},
    })
}

fn has_result(line: &Value) -> bool {
    let content = &line["message"]["content"];
    content.as_array().is_some_and(|it| it.iter().any(|block| block["type"] == "tool_result"))
}

fn is_message(line: &Value) -> bool {
    matches!(line["type"].as_str(), Some("user" | "assistant" | "system" | "attachment"))
        && line["isSidechain"] != true
}

/// Checks whether the conversation can be cut after a line, and drops only the permitted turn.
fn check_cut(chain: &Chain, until: Option<&str>, drops: Option<&str>) -> Result<(), OpenError> {
    let Some(until) = until else {
        let message = "--resume-drops-turn requires --resume-session-at";
        return Err(OpenError::Spec(message.to_owned()));
    };
    let Some(at) = chain.0.iter().position(|line| line["uuid"] == until) else {
        return Err(OpenError::Start(format!("No message found with message.uuid of: {until}")));
    };
    let (Some(turn), lost) = (drops, &chain.0[at + 1..]) else { return Ok(()) };
    let reject = |why: &str, line: &Value| {
        Err(OpenError::Start(format!(
            "Resume rejected by --resume-drops-turn: resuming at {until} would drop more than the turn \
             {turn}: {why} ({} {})",
            line["type"].as_str().unwrap_or_default(),
            line["uuid"].as_str().unwrap_or_default(),
        )))
    };
    match lost.split_first() {
        None => Ok(()),
        Some((first, _)) if first["uuid"] != turn => reject("it does not begin with that turn", first),
        Some((_, rest)) => match rest.iter().find(|line| is_prompt(line)) {
            Some(other) => reject("there is another prompt", other),
            None => Ok(()),
        },
    }
}

/// Whether a line is a prompt of the user, not a tool result or a message of the program.
fn is_prompt(line: &Value) -> bool {
    line["type"] == "user" && line["isMeta"] != true && !has_result(line)
}

fn newest(dirs: &[PathBuf]) -> Option<String> {
    let entries = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
    let logs = entries.filter_map(|entry| {
        let path = entry.path();
        let id = path.file_name()?.to_str()?.strip_suffix(".jsonl")?.to_owned();
        Some((entry.metadata().ok()?.modified().ok()?, id))
    });
    logs.max().map(|(_, id)| id)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[test]
    fn projects_are_named_as_the_sdks_name_them() {
        assert_eq!(project_key(Path::new("/tmp/a_b.c/ü")), "-tmp-a-b-c--");
        let long = format!("/{}", "x".repeat(250));
        let key = project_key(Path::new(&long));
        assert_eq!(key, format!("-{}-v734pd", "x".repeat(199)));
    }

    #[test]
    fn a_cut_loses_only_what_may_be_lost() {
        let line = |uuid: &str, kind: &str, content: Value| json!({"uuid": uuid, "type": kind, "message": {"content": content}});
        let result = json!([{"type": "tool_result"}]);
        let chain = Chain(vec![
            line("u1", "user", json!("q")),
            line("a1", "assistant", json!([])),
            line("u2", "user", json!("q")),
            line("a2", "assistant", json!([])),
            line("r2", "user", result),
            line("a3", "assistant", json!([])),
        ]);
        for (until, drops, want) in [
            (Some("a1"), None, Ok(())),
            (Some("a1"), Some("u2"), Ok(())),
            (Some("a3"), Some("u2"), Ok(())),
            (Some("a1"), Some("u1"), Err("does not begin")),
            (Some("a2"), Some("u2"), Err("does not begin")),
            (Some("nope"), None, Err("No message found with message.uuid of: nope")),
            (None, Some("u2"), Err("requires --resume-session-at")),
        ] {
            let found = check_cut(&chain, until, drops);
            match (found, want) {
                (Ok(()), Ok(())) => (),
                (Err(err), Err(words)) => assert!(err.to_string().contains(words), "{err}"),
                _ => panic!("{until:?} {drops:?}"),
            }
        }
        let twice = Chain(vec![
            line("a", "assistant", json!([])),
            line("b", "user", json!("q")),
            line("c", "user", json!("q")),
        ]);
        assert!(check_cut(&twice, Some("a"), Some("b")).is_err());
    }
}
