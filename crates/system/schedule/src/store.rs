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

/// Maximum number of stored jobs.
const MAX_JOBS: usize = 10_000;
/// Maximum bytes of a job file.
const MAX_BYTES: usize = 64 << 10;
/// Number of claims kept per job.
const KEPT_CLAIMS: usize = 16;
/// A slot further ahead than this was claimed while the clock was wrong.
const FAR_AHEAD: SignedDuration = SignedDuration::from_hours(25);
/// How long claims of a deleted job are kept.
const GONE: SignedDuration = SignedDuration::from_hours(48);
/// Size in bytes at which the run log is rotated.
const RUNS_BYTES: u64 = 4 << 20;

/// On-disk store of jobs (one file each), claimed slots and the run log.
#[derive(Clone, Debug)]
pub struct CronStore {
    dir: PathBuf,
}

/// Result of [`CronStore::list`].
#[derive(Clone, Debug, Default)]
pub struct CronJobList {
    /// The jobs, oldest first.
    pub jobs: Vec<CronJob>,
    /// Files that could not be read as jobs, with reasons.
    pub problems: Vec<String>,
}

/// Log entry of a run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Job id.
    pub job: String,
    /// The slot it ran for.
    pub slot: Timestamp,
    /// Why it ran.
    pub why: RunReason,
    /// Start time.
    pub began: Timestamp,
    /// End time.
    pub ended: Timestamp,
    pub outcome: RunOutcome,
}

/// Outcome of a run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "reason")]
pub enum RunOutcome {
    /// It has started; the end is not recorded (yet).
    Began,
    /// It succeeded.
    Done,
    /// It failed; the reason.
    Failed(String),
    /// It could not start; the reason.
    NotStarted(String),
}

impl CronStore {
    /// A store in this directory, which is created on the first write.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// File for the output of a run.
    pub fn output_of(&self, job: &str, slot: Timestamp) -> PathBuf {
        self.dir.join("output").join(format!("{job}-{}.txt", slot.as_second()))
    }

    fn job_file(&self, id: CronJobId) -> PathBuf {
        self.dir.join("jobs").join(format!("{id}.json"))
    }

    /// Stores a job; it is synced to disk when this returns. Fails if there are `MAX_JOBS` already.
    pub fn add(&self, job: &CronJob) -> io::Result<()> {
        let path = self.job_file(job.id);
        make_dir(&self.dir.join("jobs"))?;
        if MAX_JOBS <= fs::read_dir(self.dir.join("jobs"))?.count() {
            return Err(io::Error::other(format!("there are {MAX_JOBS} jobs already")));
        }
        let text = serde_json::to_vec_pretty(job).map_err(io::Error::other)?;
        haft_paths::replace_file(&path, &text, ModeOnReplace::Private, Durability::ContentAndName)
    }

    /// Deletes a job. Returns whether it existed.
    pub fn remove(&self, id: &str) -> io::Result<bool> {
        let Some(id) = CronJobId::parse(id) else { return Ok(false) };
        match fs::remove_file(self.job_file(id)) {
            Ok(()) => Ok(true),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(err) => Err(err),
        }
    }

    /// Lists all jobs. Invalid files are reported and not touched.
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

    /// Claims a slot of a job. Returns true for exactly one caller in all processes, even if a slow
    /// process tries again after old claims were pruned. Blocks until the claim is synced to disk.
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
            // A claim that may not be on disk is given up.
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

    /// Removes the claim of a slot whose run did not start; it is due again.
    pub fn release(&self, id: &str, slot: Timestamp) -> io::Result<()> {
        if CronJobId::parse(id).is_none() {
            return Ok(());
        }
        fs::remove_file(self.claims(id).join(slot.as_second().to_string()))
    }

    /// The newest claimed slot.
    pub fn last_slot(&self, id: &str) -> Option<Timestamp> {
        slots(&self.claims(id)).into_iter().max().and_then(|it| Timestamp::from_second(it).ok())
    }

    /// The newest claimed slot that counts at `now`. If the clock was set back by up to 25 hours, runs
    /// wait until it catches up; slots claimed further in the future are ignored.
    pub fn last_slot_at(&self, id: &str, now: Timestamp) -> Option<Timestamp> {
        let newest = self.last_slot(id)?;
        if newest.duration_since(now) <= FAR_AHEAD {
            return Some(newest);
        }
        let passed = slots(&self.claims(id)).into_iter().filter(|it| *it <= now.as_second());
        passed.max().and_then(|it| Timestamp::from_second(it).ok())
    }

    /// Deletes claims of deleted jobs once they are 48 hours old.
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

    /// Appends the start or the result of a run to the run log.
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

    /// Runs in the log, oldest first, each with its latest record. Skips incomplete lines.
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

/// The claims of a job, sorted, in three groups: long before `slot`, around it, and long after it. Each
/// is pruned separately, so that claims made while the clock was wrong do not push out correct ones.
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

/// Reads several jobs and shares equal strings between them.
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
            // A file longer than the limit was truncated and does not parse.
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

/// The already known equal value, or this one.
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
