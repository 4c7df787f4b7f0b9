//! Where logs of sessions are, and going on from one.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use haft_agent::{Conversation, Restored};
use haft_types::CallId;
use serde_json::{Value, json};

use super::Setup;
use crate::{args::RunArgs, output::Failure};

/// Where logs of new sessions are kept. Old ones are found in either place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Logs {
    /// In Haft's own directory.
    Own,
    /// Where programs around the Agent SDKs look for them.
    OfSdks,
}

impl Setup {
    /// The conversation to go on with, if one is named.
    pub(super) fn resumed(&mut self, run: &RunArgs) -> Result<Option<(Conversation, Restored)>, Failure> {
        let id = match (&run.resume, run.continue_) {
            (Some(id), _) => id.clone(),
            (None, true) => match newest(&self.log_dirs()) {
                Some(id) => id,
                None => return Ok(None),
            },
            (None, false) => return Ok(None),
        };
        let path = self.log_path(&id);
        if !path.is_file() {
            return Err(Failure::Message(format!("No conversation found with session ID: {id}")));
        }
        let until = run.sdk.resume_session_at.as_deref();
        if until.is_some() || run.sdk.resume_drops_turn.is_some() {
            let chain = Chain::read(&path)?;
            check_cut(&chain, until, run.sdk.resume_drops_turn.as_deref())?;
        }
        let path = match run.fork_session {
            true => self.fork(&path, until)?,
            false => {
                self.session_id = id.into();
                path
            }
        };
        // The log is ours before it is read: another process may still write it.
        let log = match run.fork_session || run.sdk.no_session_persistence {
            true => None,
            false => Some(self.open_log()?),
        };
        let changed = |call: &CallId| self.changed_by(call);
        let resumed = Conversation::resume_with(self.session_id.clone(), &self.cwd, &path, until, &changed);
        let (mut conversation, mut restored) = resumed.map_err(|err| format!("{}: {err}", path.display()))?;
        if let Some(log) = log {
            restored.report.torn |= log.was_torn();
            conversation.set_log(log);
        }
        Ok(Some((conversation, restored)))
    }

    /// A copy of a log under this session's name, up to a line.
    fn fork(&self, from: &Path, until: Option<&str>) -> Result<PathBuf, Failure> {
        let copy = self.log_path(self.session_id.as_str());
        let failed = |err: std::io::Error| format!("the session cannot be copied: {err}");
        copy_log(from, &copy, self.session_id.as_str(), until).map_err(failed)?;
        Ok(copy)
    }

    /// A new session must not write into the log of another one.
    pub(super) fn refuse_used_id(&self, run: &RunArgs) -> Result<(), Failure> {
        let id = self.session_id.as_str();
        let is_new = run.resume.as_deref() != Some(id) && !run.sdk.no_session_persistence;
        if is_new && self.log_path(id).is_file() {
            return Err(Failure::Message(format!("Session ID {id} is already in use.")));
        }
        Ok(())
    }

    /// Directories with logs of sessions in this one; new ones go to the first.
    pub(crate) fn log_dirs(&self) -> Vec<PathBuf> {
        // Whoever moves the configuration looks for sessions there.
        let moved = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|it| !it.is_empty()).map(PathBuf::from);
        let of_sdks = moved.clone().or_else(|| self.store.places().user.first().cloned());
        let own = self.state_dir();
        let roots = match (moved, self.logs, of_sdks) {
            (Some(moved), _, _) => vec![moved, own],
            (None, Logs::OfSdks, Some(of_sdks)) => vec![of_sdks, own],
            (None, _, of_sdks) => std::iter::once(own).chain(of_sdks).collect(),
        };
        let key = project_key(&self.cwd);
        roots.into_iter().map(|root| root.join("projects").join(&key)).collect()
    }

    /// Where logs of new sessions in this directory go.
    pub(crate) fn log_dir(&self) -> PathBuf {
        self.log_dirs().into_iter().next().unwrap_or_default()
    }

    /// The log of a session: where it is, or where it would be.
    pub(crate) fn log_path(&self, id: &str) -> PathBuf {
        let mut paths = self.log_dirs().into_iter().map(|dir| dir.join(format!("{id}.jsonl")));
        let first = paths.next().unwrap_or_default();
        if first.is_file() {
            return first;
        }
        paths.find(|path| path.is_file()).unwrap_or(first)
    }
}

/// Copies a log under another session's name, line by line: logs may be longer
/// than the memory. There is a whole copy or none.
fn copy_log(from: &Path, to: &Path, session: &str, until: Option<&str>) -> io::Result<()> {
    let mut lines = BufReader::new(File::open(from)?);
    let dir = to.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let part = to.with_extension("jsonl.part");
    let mut out = BufWriter::new(File::create(&part)?);
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

/// The name of a working directory among projects: as the SDKs' readers make
/// it, so that they find sessions.
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

/// Lines of a log that are part of the conversation as it stands, oldest first.
struct Chain(Vec<Value>);

impl Chain {
    fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |err: io::Error| format!("{}: {err}", path.display());
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
            // A parent comes before its child; anything else would be a circle.
            at = lines[here]["parentUuid"].as_str().and_then(|it| place.get(it)).copied();
            at = at.filter(|parent| *parent < here);
        }
        chain.reverse();
        Ok(Self(chain))
    }
}

/// What has to be known of a line to cut before or after it.
fn outline(line: &Value) -> Value {
    let content = match has_result(line) {
        true => json!([{"type": "tool_result"}]),
        false => Value::Null,
    };
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

/// Whether the conversation can be cut after a line, and loses only the turn
/// that may be lost.
fn check_cut(chain: &Chain, until: Option<&str>, drops: Option<&str>) -> Result<(), Failure> {
    let Some(until) = until else {
        let message = "--resume-drops-turn requires --resume-session-at";
        return Err(Failure::Message(message.to_owned()));
    };
    let Some(at) = chain.0.iter().position(|line| line["uuid"] == until) else {
        return Err(Failure::Message(format!("No message found with message.uuid of: {until}")));
    };
    let (Some(turn), lost) = (drops, &chain.0[at + 1..]) else { return Ok(()) };
    let reject = |why: &str, line: &Value| {
        Err(Failure::Message(format!(
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

/// What a person said, as opposed to results of tools and words of ours.
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
            match (&found, want) {
                (Ok(()), Ok(())) => (),
                (Err(Failure::Message(text)), Err(words)) => assert!(text.contains(words), "{text}"),
                _ => panic!("{until:?} {drops:?} {}", found.is_ok()),
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
