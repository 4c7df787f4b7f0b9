use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_paths::{Durability, ModeOnReplace};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{CronJob, CronJobId, RunReason};

/// Jobs of one person.
const MAX_JOBS: usize = 10_000;
/// Bytes of a job.
const MAX_BYTES: usize = 64 << 10;
/// Claims of a job that are kept.
const KEPT_CLAIMS: usize = 16;
/// A slot this far ahead was claimed by a clock that was wrong.
const FAR_AHEAD: SignedDuration = SignedDuration::from_hours(25);
/// Claims of a job that is gone are kept this long.
const GONE: SignedDuration = SignedDuration::from_hours(48);
/// Bytes of the list of runs before it is begun anew.
const RUNS_BYTES: u64 = 4 << 20;

/// Jobs on disk: one file each, the slots that were claimed, and what came of
/// runs.
#[derive(Clone, Debug)]
pub struct CronStore {
    dir: PathBuf,
}

/// What is stored.
#[derive(Clone, Debug, Default)]
pub struct CronJobList {
    /// The jobs, oldest first.
    pub jobs: Vec<CronJob>,
    /// Files that are none, each with the reason.
    pub problems: Vec<String>,
}

/// What came of a run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Which job.
    pub job: String,
    /// For which time.
    pub slot: Timestamp,
    /// Why it ran.
    pub why: RunReason,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How.
    pub outcome: RunOutcome,
}

/// How a run ended, or that it began.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "reason")]
pub enum RunOutcome {
    /// It began, and nothing says yet how it ended.
    Began,
    /// It did what it should.
    Done,
    /// It did not.
    Failed(String),
    /// It never began.
    NotStarted(String),
}

impl CronStore {
    /// In this directory, which is made when something is stored.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Where everything is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where what a run prints goes.
    pub fn output_of(&self, job: &str, slot: Timestamp) -> PathBuf {
        self.dir.join("output").join(format!("{job}-{}.txt", slot.as_second()))
    }

    fn job_file(&self, id: CronJobId) -> PathBuf {
        self.dir.join("jobs").join(format!("{id}.json"))
    }

    /// Stores a job; it is on the disk when this returns.
    pub fn add(&self, job: &CronJob) -> io::Result<()> {
        let path = self.job_file(job.id);
        make_dir(&self.dir.join("jobs"))?;
        if MAX_JOBS <= fs::read_dir(self.dir.join("jobs"))?.count() {
            return Err(io::Error::other(format!("there are {MAX_JOBS} jobs already")));
        }
        let text = serde_json::to_vec_pretty(job).map_err(io::Error::other)?;
        haft_paths::replace_file(&path, &text, ModeOnReplace::Private, Durability::ContentAndName)
    }

    /// Removes a job; whether there was one.
    pub fn remove(&self, id: &str) -> io::Result<bool> {
        let Some(id) = CronJobId::parse(id) else { return Ok(false) };
        match fs::remove_file(self.job_file(id)) {
            Ok(()) => Ok(true),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(err) => Err(err),
        }
    }

    /// All jobs. A file that is no job is named and left alone.
    pub fn list(&self) -> CronJobList {
        let mut stored = CronJobList::default();
        let Ok(entries) = fs::read_dir(self.dir.join("jobs")) else { return stored };
        let mut reader = JobReader::default();
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|it| it != "json") {
                continue;
            }
            match reader.read(&entry, &path) {
                Ok(job) => stored.jobs.push(job),
                Err(why) => stored.problems.push(format!("{}: {why}", path.display())),
            }
        }
        stored.jobs.sort_unstable_by_key(|it| (it.created, it.id));
        stored
    }

    fn claims(&self, id: &str) -> PathBuf {
        self.dir.join("slots").join(id)
    }

    /// Takes a slot of a job. Whether it is ours: of all processes one gets it,
    /// once, also one that looked long ago and comes when the claim of another is
    /// forgotten.
    pub fn claim(&self, id: &str, slot: Timestamp) -> io::Result<bool> {
        if CronJobId::parse(id).is_none() {
            return Ok(false);
        }
        let dir = self.claims(id);
        make_dir(&dir)?;
        let path = dir.join(slot.as_second().to_string());
        let mine = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        match mine.map(|file| file.sync_all()) {
            Ok(Ok(())) => {}
            // What is not surely on the disk is not claimed.
            Ok(Err(err)) => return fs::remove_file(&path).and(Err(err)),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(err) => return Err(err),
        }
        let [before, near, ahead] = eras(&dir, slot);
        if KEPT_CLAIMS <= near.iter().filter(|it| slot.as_second() < **it).count() {
            return fs::remove_file(&path).map(|()| false);
        }
        for claimed in [before, near, ahead] {
            let old = claimed.len().saturating_sub(KEPT_CLAIMS);
            for slot in &claimed[..old] {
                fs::remove_file(dir.join(slot.to_string())).ok();
            }
        }
        Ok(true)
    }

    /// Gives a slot back that was claimed and not begun: it is due again.
    pub fn release(&self, id: &str, slot: Timestamp) -> io::Result<()> {
        if CronJobId::parse(id).is_none() {
            return Ok(());
        }
        fs::remove_file(self.claims(id).join(slot.as_second().to_string()))
    }

    /// The newest slot that anybody claimed.
    pub fn last_slot(&self, id: &str) -> Option<Timestamp> {
        slots(&self.claims(id)).into_iter().max().and_then(|it| Timestamp::from_second(it).ok())
    }

    /// The newest slot that counts at `now`. A clock that was set back a little
    /// has to come to where it was; slots of one that was days ahead do not count.
    pub fn last_slot_at(&self, id: &str, now: Timestamp) -> Option<Timestamp> {
        let newest = self.last_slot(id)?;
        if newest.duration_since(now) <= FAR_AHEAD {
            return Some(newest);
        }
        let passed = slots(&self.claims(id)).into_iter().filter(|it| *it <= now.as_second());
        passed.max().and_then(|it| Timestamp::from_second(it).ok())
    }

    /// Forgets claims of jobs that are gone, when nobody can still be at them.
    pub fn forget_gone(&self, now: Timestamp) {
        for dir in fs::read_dir(self.dir.join("slots")).into_iter().flatten().flatten() {
            let id = dir.file_name().to_string_lossy().into_owned();
            let gone = CronJobId::parse(&id).is_some_and(|it| !self.job_file(it).exists());
            let newest = slots(&dir.path()).into_iter().max();
            let passed = newest.is_none_or(|it| it < now.as_second() - GONE.as_secs());
            if gone && passed {
                fs::remove_dir_all(dir.path()).ok();
            }
        }
    }

    /// Writes down what came of a run, or that it begins.
    pub fn record(&self, run: &RunRecord) -> io::Result<()> {
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
    /// Torn lines are left out.
    pub fn runs(&self) -> Vec<RunRecord> {
        let text = |name: &str| fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        let all = format!("{}{}", text("runs.old.jsonl"), text("runs.jsonl"));
        let mut runs: Vec<RunRecord> = Vec::new();
        let mut places = HashMap::new();
        for run in all.lines().filter_map(|line| serde_json::from_str::<RunRecord>(line).ok()) {
            match places.entry((run.job.clone(), run.slot)) {
                Entry::Occupied(place) => runs[*place.get()] = run,
                Entry::Vacant(place) => {
                    place.insert(runs.len());
                    runs.push(run);
                }
            }
        }
        runs
    }
}

/// The claims of a job, oldest first: long before `slot`, around it, and long
/// after it. A clock that is wrong for a while makes nobody forget what was
/// claimed while it was right.
fn eras(dir: &Path, slot: Timestamp) -> [Vec<i64>; 3] {
    let mut before = slots(dir);
    before.sort_unstable();
    let (slot, far) = (slot.as_second(), FAR_AHEAD.as_secs());
    let ahead = before.split_off(before.partition_point(|it| *it <= slot.saturating_add(far)));
    let near = before.split_off(before.partition_point(|it| *it < slot.saturating_sub(far)));
    [before, near, ahead]
}

fn slots(dir: &Path) -> Vec<i64> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    names.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect()
}

/// Reads jobs one after the other. What many of them say is kept once.
#[derive(Default)]
struct JobReader {
    text: Vec<u8>,
    words: BTreeSet<Arc<str>>,
    dirs: BTreeSet<Arc<Path>>,
}

impl JobReader {
    fn read(&mut self, entry: &fs::DirEntry, path: &Path) -> Result<CronJob, String> {
        let no_job = || String::from("it is no file of a job");
        if !entry.file_type().is_ok_and(|it| it.is_file()) {
            return Err(no_job());
        }
        let mut file = fs::File::open(path).map_err(|err| err.to_string())?;
        self.text.resize(MAX_BYTES + 1, 0);
        let mut length = 0;
        let mut job = loop {
            let read = file.read(&mut self.text[length..]).map_err(|err| err.to_string())?;
            length += read;
            if MAX_BYTES < length {
                return Err(no_job());
            }
            // The beginning of a job is none: what can be read is all of it.
            match serde_json::from_slice::<CronJob>(&self.text[..length]) {
                Ok(job) => break job,
                Err(err) if read == 0 => return Err(err.to_string()),
                Err(_) => {}
            }
        };
        if path.file_stem().is_none_or(|it| it.to_str() != Some(&job.id)) {
            return Err(String::from("its name is not its job's"));
        }
        job.zone = shared(&mut self.words, &job.zone);
        job.dir = shared(&mut self.dirs, &job.dir);
        job.created_by = job.created_by.map(|it| shared(&mut self.words, &it));
        job.fleet = job.fleet.map(|it| shared(&mut self.words, &it));
        Ok(job)
    }
}

/// The one that is equal to this.
fn shared<T: Ord + ?Sized>(known: &mut BTreeSet<Arc<T>>, one: &Arc<T>) -> Arc<T> {
    if let Some(found) = known.get(one) {
        return Arc::clone(found);
    }
    known.insert(Arc::clone(one));
    Arc::clone(one)
}

fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
