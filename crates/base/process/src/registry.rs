//! On-disk registry of running processes, so that a later session can end them after a crash.

use std::{
    fs::{DirBuilder, File},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};
use serde::{Deserialize, Serialize};

use crate::{
    Process, ProcessId, ProcessTag,
    find_processes::{self, ProcessQuery},
    locked_file::{file_name_of_id, lock_session_file},
    procfs,
};

/// The registry is truncated when it is larger than this many bytes and nothing runs.
const COMPACT: u64 = 64 << 10;

#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum RegistryLine {
    Session {
        id: String,
        boot: String,
    },
    Call {
        call: String,
        cookie: String,
        tag: Option<u64>,
        since: u64,
        command: String,
        #[serde(default)]
        task: String,
        #[serde(default)]
        purpose: ProcessPurpose,
    },
    Detached {
        cookie: String,
    },
    Ended {
        cookie: String,
    },
}

/// What a process was started for.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessPurpose {
    /// A shell command of a tool call.
    #[default]
    Command,
    /// A hook.
    Hook,
    /// An MCP server.
    Server,
}

impl ProcessPurpose {
    pub fn label(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Hook => "hook",
            Self::Server => "server",
        }
    }
}

/// Describes a process that is about to start.
#[derive(Clone, Copy, Debug)]
pub struct SpawnIntent<'a> {
    pub purpose: ProcessPurpose,
    /// Id or name of the call, hook or server.
    pub call: &'a str,
    /// Command line as shown to users.
    pub command: &'a str,
    /// Id of the background task whose output it produces; empty if none.
    pub task: &'a str,
}

/// Registry file of one session. Locked for the lifetime of the session.
#[derive(Debug)]
pub(crate) struct ProcessRegistry {
    file: File,
    session: String,
}

impl ProcessRegistry {
    pub(crate) fn create(dir: &Path, session: &str) -> io::Result<Self> {
        let path = dir.join(format!("{}.jsonl", file_name_of_id(session)));
        let file = lock_session_file(session, || {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let file = File::options().read(true).append(true).create(true).mode(0o600).open(&path)?;
            Ok((file, path.clone()))
        })?;
        let mut registry = Self { file, session: session.to_owned() };
        if registry.file.metadata()?.len() == 0 {
            registry.head()?;
        }
        Ok(registry)
    }

    /// Must succeed before the call's process starts: an unrecorded process could not be ended after a
    /// crash.
    pub(crate) fn call(&mut self, about: SpawnIntent<'_>, mark: &ProcessTag, since: u64) -> io::Result<()> {
        self.append(&RegistryLine::Call {
            call: about.call.to_owned(),
            cookie: mark.cookie.clone(),
            tag: mark.tag,
            since,
            command: about.command.to_owned(),
            task: about.task.to_owned(),
            purpose: about.purpose,
        })
    }

    pub(crate) fn detached(&mut self, mark: &ProcessTag) -> io::Result<()> {
        self.append(&RegistryLine::Detached { cookie: mark.cookie.clone() })
    }

    pub(crate) fn ended(&mut self, mark: &ProcessTag, nothing_runs: bool) {
        let size = self.file.metadata().map_or(0, |meta| meta.len());
        if nothing_runs && COMPACT < size {
            // A crash between truncating and writing leaves an empty registry, which is correct because
            // nothing runs.
            self.file.set_len(0).and_then(|()| self.head()).ok();
        } else {
            self.append(&RegistryLine::Ended { cookie: mark.cookie.clone() }).ok();
        }
    }

    fn head(&mut self) -> io::Result<()> {
        let (id, boot) = (self.session.clone(), procfs::boot_id());
        self.append(&RegistryLine::Session { id, boot })
    }

    fn append(&mut self, entry: &RegistryLine) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

/// Living processes of one call, hook or server, as recorded in a registry.
#[derive(Debug)]
pub struct LiveProcesses {
    pub session: String,
    /// Whether the session is still running.
    pub session_lives: bool,
    pub purpose: ProcessPurpose,
    /// Id of the background task; empty if none.
    pub task: String,
    /// Id or name of the call, hook or server.
    pub call: String,
    pub command: String,
    /// Whether it was meant to outlive the session.
    pub detached: bool,
    /// The living processes.
    pub processes: Vec<Process>,
    record: LiveProcessesRecord,
}

#[derive(Debug)]
struct LiveProcessesRecord {
    mark: ProcessTag,
    since: u64,
}

impl LiveProcessesRecord {
    /// After a crash only the tag proves ownership.
    fn wanted(&self) -> ProcessQuery<'_> {
        ProcessQuery { mark: &self.mark, since: self.since, seen: None, root: None }
    }
}

impl LiveProcesses {
    /// Ends the processes: SIGTERM, then SIGKILL. Returns false if some still run after `patience`.
    /// Blocks.
    pub fn end(&self, patience: Duration) -> bool {
        end_all(|| find_processes::search(&[self.record.wanted()]).pop().unwrap_or_default(), patience)
    }
}

/// Ends the processes that `alive` returns, first with SIGTERM, then with SIGKILL, until it returns
/// none. Returns false if it still returns some after `patience`. Blocks.
pub fn end_all(alive: impl Fn() -> Vec<ProcessId>, patience: Duration) -> bool {
    let started = Instant::now();
    let mut ids = alive();
    for id in &ids {
        find_processes::signal(*id, Signal::TERM);
        find_processes::signal(*id, Signal::CONT);
    }
    let polite = (patience / 2).min(Duration::from_secs(1));
    while !ids.is_empty() && started.elapsed() < patience {
        if polite <= started.elapsed() {
            for id in &ids {
                find_processes::signal(*id, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
        ids = alive();
    }
    ids.is_empty()
}

/// Living processes of sessions that are no longer running, from the registries in `dir`. Removes
/// registries without living processes. Skips registries locked by a running session.
pub fn leftovers(dir: &Path) -> Vec<LiveProcesses> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Ok(mut file) = File::options().read(true).write(true).open(entry.path()) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let left = read(&mut file);
        if left.is_empty() {
            std::fs::remove_file(entry.path()).ok();
        }
        found.extend(left);
    }
    found
}

/// Living processes of all sessions, running sessions included. Read-only.
pub fn everything(dir: &Path) -> Vec<LiveProcesses> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(mut file) = File::open(entry.path()) else { continue };
        let session_lives = flock(&file, FlockOperation::NonBlockingLockShared).is_err();
        found.extend(read(&mut file).into_iter().map(|it| LiveProcesses { session_lives, ..it }));
    }
    found
}

/// Ends the processes of sessions that no longer run, except detached ones. Returns the processes found.
/// Blocks up to `patience` for each entry.
pub fn end_leftovers(dir: &Path, patience: Duration) -> Vec<LiveProcesses> {
    let mut found = leftovers(dir);
    found.retain(|it| !it.detached);
    for leftover in &found {
        leftover.end(patience);
    }
    // Removes the registries that are now empty.
    if !found.is_empty() {
        leftovers(dir);
    }
    found
}

/// Result of [`end_orphans_of`].
#[derive(Debug, Default)]
pub struct SessionOrphans {
    /// Processes that were running and not detached.
    pub found: Vec<LiveProcesses>,
    /// Whether all of them have ended.
    pub all_ended: bool,
}

/// Ends the processes of one session that no longer runs, except detached ones. Does nothing and reports
/// `all_ended` if the session is running or has no registry. Blocks up to `patience` for each entry.
pub fn end_orphans_of(dir: &Path, session: &str, patience: Duration) -> SessionOrphans {
    let path = dir.join(format!("{}.jsonl", file_name_of_id(session)));
    let nothing = SessionOrphans { found: Vec::new(), all_ended: true };
    let Ok(mut file) = File::options().read(true).write(true).open(path) else { return nothing };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return nothing;
    }
    let mut found = read(&mut file);
    found.retain(|it| !it.detached);
    // `count` instead of `all`: end every entry, also after one that did not end.
    let left = found.iter().filter(|it| !it.end(patience)).count();
    let all_ended = left == 0;
    SessionOrphans { found, all_ended }
}

/// Parses a registry; tolerates a line truncated by a crash.
fn read(file: &mut File) -> Vec<LiveProcesses> {
    let mut bytes = Vec::new();
    if file.rewind().and_then(|()| file.read_to_end(&mut bytes)).is_err() {
        return Vec::new();
    }
    let mut session = String::new();
    let mut calls: Vec<LiveProcesses> = Vec::new();
    for line in bytes.split(|it| *it == b'\n') {
        let Ok(entry) = serde_json::from_slice::<RegistryLine>(line) else { continue };
        match entry {
            // Pids of an earlier boot are meaningless.
            RegistryLine::Session { boot, .. } if boot != procfs::boot_id() => return Vec::new(),
            RegistryLine::Session { id, .. } => session = id,
            RegistryLine::Call { call, cookie, tag, since, command, task, purpose } => {
                let record = LiveProcessesRecord { mark: ProcessTag { cookie, tag }, since };
                let session = session.clone();
                calls.push(LiveProcesses {
                    session,
                    session_lives: false,
                    purpose,
                    task,
                    call,
                    command,
                    detached: false,
                    processes: Vec::new(),
                    record,
                });
            }
            RegistryLine::Detached { cookie } => {
                for call in calls.iter_mut().filter(|it| it.record.mark.cookie == cookie) {
                    call.detached = true;
                }
            }
            RegistryLine::Ended { cookie } => calls.retain(|it| it.record.mark.cookie != cookie),
        }
    }
    living(calls)
}

fn living(mut calls: Vec<LiveProcesses>) -> Vec<LiveProcesses> {
    let wanted: Vec<ProcessQuery<'_>> = calls.iter().map(|it| it.record.wanted()).collect();
    let found = find_processes::search(&wanted);
    for (call, ids) in calls.iter_mut().zip(found) {
        call.processes = find_processes::describe(&ids);
    }
    calls.retain(|it| !it.processes.is_empty());
    calls
}
