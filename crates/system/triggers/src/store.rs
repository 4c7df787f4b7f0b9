//! Store of accepted deliveries, queued runs and the run log.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use haft_paths::{Durability, ModeOnReplace};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How long a started delivery is remembered for deduplication.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of queued runs.
const MAX_WAITING: usize = 100;
/// Size in bytes at which the run log is rotated.
const RUNS_BYTES: u64 = 4 << 20;

/// On-disk store of all triggers.
#[derive(Clone, Debug)]
pub struct TriggerStore {
    dir: PathBuf,
}

/// A queued run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedRun {
    /// Id of the run.
    pub id: String,
    /// Name of the trigger.
    pub trigger: String,
    /// Source: `webhook`, or a user or session.
    pub origin: String,
    /// Time it was queued.
    pub at: Timestamp,
    /// The prompt.
    pub prompt: String,
}

/// Result of queueing a delivery.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AcceptOutcome {
    /// Queued under this id.
    Waits(String),
    /// The delivery was received before.
    Repeated,
    /// The queue is full.
    Full,
}

/// Log entry of a run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerRun {
    /// Id of the run.
    pub id: String,
    /// Name of the trigger.
    pub trigger: String,
    /// Source of the run.
    pub origin: String,
    /// Time it was queued.
    pub fired: Timestamp,
    /// End time; `None` if only the start is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Why it failed; `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl TriggerStore {
    /// A store in this directory, which is created on the first write.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// File for the output of a run.
    pub fn output_of(&self, run: &str) -> PathBuf {
        self.dir.join("output").join(format!("{run}.txt"))
    }

    /// Queues a delivery, whose id is the run's id. Deduplicates it; it is synced to disk when this
    /// returns. Blocks.
    pub fn accept(&self, run: &QueuedRun) -> io::Result<AcceptOutcome> {
        make_dir(&self.dir.join("begun"))?;
        self.forget_old();
        // `take` records the start before it removes the queue entry, so one of the two files always
        // exists.
        if self.waiting_file(&run.id).exists() || self.begun_file(&run.id).exists() {
            Ok(AcceptOutcome::Repeated)
        } else {
            self.put(run)
        }
    }

    fn waiting_file(&self, id: &str) -> PathBuf {
        self.dir.join("waiting").join(format!("{id}.json"))
    }

    fn begun_file(&self, id: &str) -> PathBuf {
        self.dir.join("begun").join(id)
    }

    /// Queues a run without deduplication, for runs that are not deliveries.
    pub fn put(&self, run: &QueuedRun) -> io::Result<AcceptOutcome> {
        make_dir(&self.dir.join("waiting"))?;
        if MAX_WAITING <= self.waiting().len() {
            return Ok(AcceptOutcome::Full);
        }
        let text = serde_json::to_vec(run).map_err(io::Error::other)?;
        haft_paths::replace_file(
            &self.waiting_file(&run.id),
            &text,
            ModeOnReplace::Private,
            Durability::ContentAndName,
        )?;
        Ok(AcceptOutcome::Waits(run.id.clone()))
    }

    /// Queued runs, oldest first.
    pub fn waiting(&self) -> Vec<QueuedRun> {
        let entries = fs::read_dir(self.dir.join("waiting")).into_iter().flatten().flatten();
        let json = entries.map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "json"));
        let mut all: Vec<QueuedRun> =
            json.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect();
        all.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        all
    }

    /// Takes a run from the queue. Returns true for exactly one caller in all processes. If the run was
    /// already taken, removes the leftover queue entry.
    pub fn take(&self, run: &QueuedRun) -> io::Result<bool> {
        make_dir(&self.dir.join("begun"))?;
        let begun =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.begun_file(&run.id));
        match begun {
            Ok(file) => {
                if let Err(err) = file.sync_all() {
                    fs::remove_file(self.begun_file(&run.id))?;
                    return Err(err);
                }
            }
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
                return self.waits_no_more(&run.id).map(|()| false);
            }
            Err(err) => return Err(err),
        }
        self.waits_no_more(&run.id).map(|()| true)
    }

    fn waits_no_more(&self, id: &str) -> io::Result<()> {
        match fs::remove_file(self.waiting_file(id)) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
            _ => Ok(()),
        }
    }

    /// Queues a taken run again that could not start. Not atomic: a crash in between, or a full queue,
    /// loses the run.
    pub fn release(&self, run: &QueuedRun) -> io::Result<()> {
        fs::remove_file(self.begun_file(&run.id))?;
        self.put(run).map(drop)
    }

    /// Appends the start or the result of a run to the run log.
    pub fn record(&self, run: &TriggerRun) -> io::Result<()> {
        make_dir(&self.dir)?;
        let path = self.dir.join("runs.jsonl");
        if fs::metadata(&path).is_ok_and(|it| RUNS_BYTES < it.len()) {
            fs::rename(&path, self.dir.join("runs.old.jsonl"))?;
        }
        let mut line = serde_json::to_vec(run).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        file.write_all(&line)?;
        file.sync_data()
    }

    /// Runs in the log, oldest first, each with its latest record.
    pub fn runs(&self) -> Vec<TriggerRun> {
        let text = |name: &str| fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        let all = format!("{}{}", text("runs.old.jsonl"), text("runs.jsonl"));
        let mut runs: Vec<TriggerRun> = Vec::new();
        let mut places = HashMap::new();
        for run in all.lines().filter_map(|line| serde_json::from_str::<TriggerRun>(line).ok()) {
            match places.entry(run.id.clone()) {
                Entry::Occupied(place) => runs[*place.get()] = run,
                Entry::Vacant(place) => {
                    place.insert(runs.len());
                    runs.push(run);
                }
            }
        }
        runs
    }

    fn forget_old(&self) {
        let old = |it: &fs::DirEntry| {
            let made = it.metadata().and_then(|it| it.modified()).ok();
            made.and_then(|it| SystemTime::now().duration_since(it).ok()).is_some_and(|it| REMEMBERED < it)
        };
        for entry in fs::read_dir(self.dir.join("begun")).into_iter().flatten().flatten().filter(old) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str) -> QueuedRun {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        QueuedRun { id: id.to_owned(), trigger: "t".into(), origin: "webhook".into(), at, prompt: "p".into() }
    }

    #[test]
    fn delivery_is_deduplicated_and_run_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = TriggerStore::at(dir.path().join("triggers"));
        assert_eq!(store.accept(&run("1")).unwrap(), AcceptOutcome::Waits("1".into()));
        assert_eq!(store.accept(&run("1")).unwrap(), AcceptOutcome::Repeated);
        // Another process with the same directory.
        let other = TriggerStore::at(dir.path().join("triggers"));
        assert_eq!(other.accept(&run("1")).unwrap(), AcceptOutcome::Repeated);
        let waiting = other.waiting();
        assert_eq!(waiting, [run("1")]);
        assert!(store.take(&waiting[0]).unwrap());
        assert!(!other.take(&waiting[0]).unwrap());
        assert_eq!(store.waiting(), []);
        // Also after it has started.
        assert_eq!(other.accept(&run("1")).unwrap(), AcceptOutcome::Repeated);
        let at = waiting[0].at;
        let (id, trigger, origin) = (String::from("1"), String::from("t"), String::from("webhook"));
        let done = TriggerRun { id, trigger, origin, fired: at, ended: None, failed: None };
        store.record(&done).unwrap();
        assert_eq!(other.runs(), std::slice::from_ref(&done));
        let done = TriggerRun { ended: Some(at), ..done };
        store.record(&done).unwrap();
        assert_eq!(other.runs(), [done]);
    }

    #[test]
    fn full_queue_rejects_deliveries() {
        let dir = tempfile::tempdir().unwrap();
        let store = TriggerStore::at(dir.path());
        for number in 0..MAX_WAITING {
            store.accept(&run(&number.to_string())).unwrap();
        }
        assert_eq!(store.accept(&run("more")).unwrap(), AcceptOutcome::Full);
        assert!(store.take(&store.waiting()[0]).unwrap());
        // A rejected delivery can be retried.
        assert_eq!(store.accept(&run("more")).unwrap(), AcceptOutcome::Waits("more".into()));
    }
}
