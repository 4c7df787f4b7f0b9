//! Deliveries that were accepted, runs that wait, and what came of runs.

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

/// How long a delivery is known again.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// Runs that may wait.
const MAX_WAITING: usize = 100;
/// Bytes of the list of runs before it is begun anew.
const RUNS_BYTES: u64 = 4 << 20;

/// What is kept of triggers.
#[derive(Clone, Debug)]
pub struct TriggerStore {
    dir: PathBuf,
}

/// A run that waits.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedRun {
    /// Its name.
    pub id: String,
    /// Which trigger.
    pub trigger: String,
    /// Who fired it: `webhook`, or a person or session.
    pub origin: String,
    /// When.
    pub at: Timestamp,
    /// What is asked.
    pub prompt: String,
}

/// What became of a delivery.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AcceptOutcome {
    /// It waits, under this name.
    Waits(String),
    /// It was there before.
    Repeated,
    /// Too many wait already.
    Full,
}

/// What came of a run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerRun {
    /// Which run.
    pub id: String,
    /// Which trigger.
    pub trigger: String,
    /// Who fired it.
    pub origin: String,
    /// When it was fired.
    pub fired: Timestamp,
    /// When it ended; nothing where it began and nothing says yet how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Nothing where it did what it should, else why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl TriggerStore {
    /// In this directory, which is made when something is stored.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Where what a run prints goes.
    pub fn output_of(&self, run: &str) -> PathBuf {
        self.dir.join("output").join(format!("{run}.txt"))
    }

    /// Takes a delivery, whose name is that of its run: it counts once, and waits
    /// on disk when this returns.
    pub fn accept(&self, run: &QueuedRun) -> io::Result<AcceptOutcome> {
        make_dir(&self.dir.join("begun"))?;
        self.forget_old();
        // A run that begins is among the begun before it waits no more.
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

    /// Lets a run wait that nobody delivered.
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

    /// Runs that wait, oldest first.
    pub fn waiting(&self) -> Vec<QueuedRun> {
        let entries = fs::read_dir(self.dir.join("waiting")).into_iter().flatten().flatten();
        let json = entries.map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "json"));
        let mut all: Vec<QueuedRun> =
            json.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect();
        all.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        all
    }

    /// Takes a run that waits; whether it is ours. Of all programs one gets it,
    /// once. One that somebody took already waits no more.
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

    /// Gives back a run that was taken and not begun: it waits again.
    pub fn release(&self, run: &QueuedRun) -> io::Result<()> {
        fs::remove_file(self.begun_file(&run.id))?;
        self.put(run).map(drop)
    }

    /// Writes down what came of a run, or that it begins.
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

    /// What came of runs, oldest first; each once, as it was written down last.
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
    fn a_delivery_counts_once_and_a_run_begins_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = TriggerStore::at(dir.path().join("triggers"));
        assert_eq!(store.accept(&run("1")).unwrap(), AcceptOutcome::Waits("1".into()));
        assert_eq!(store.accept(&run("1")).unwrap(), AcceptOutcome::Repeated);
        // Another program that knows the same directory.
        let other = TriggerStore::at(dir.path().join("triggers"));
        assert_eq!(other.accept(&run("1")).unwrap(), AcceptOutcome::Repeated);
        let waiting = other.waiting();
        assert_eq!(waiting, [run("1")]);
        assert!(store.take(&waiting[0]).unwrap());
        assert!(!other.take(&waiting[0]).unwrap());
        assert_eq!(store.waiting(), []);
        // Also when it has begun.
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
    fn no_more_wait_than_may() {
        let dir = tempfile::tempdir().unwrap();
        let store = TriggerStore::at(dir.path());
        for number in 0..MAX_WAITING {
            store.accept(&run(&number.to_string())).unwrap();
        }
        assert_eq!(store.accept(&run("more")).unwrap(), AcceptOutcome::Full);
        assert!(store.take(&store.waiting()[0]).unwrap());
        // What was turned away may come again.
        assert_eq!(store.accept(&run("more")).unwrap(), AcceptOutcome::Waits("more".into()));
    }
}
