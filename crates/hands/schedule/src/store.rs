use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use haft_paths::{Durability, ReplacedMode};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{CronJob, RunWhy, job::is_id};

/// Jobs of one person.
const MOST_JOBS: usize = 10_000;
/// Bytes of a job.
const MOST_BYTES: u64 = 64 << 10;
/// Claims of a job that are kept.
const KEPT_CLAIMS: usize = 16;
/// A slot this far ahead was claimed by a clock that was wrong.
const FAR_AHEAD: SignedDuration = SignedDuration::from_hours(25);
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
pub struct StoredJobs {
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
    pub why: RunWhy,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How.
    pub outcome: RunOutcome,
}

/// How a run ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "reason")]
pub enum RunOutcome {
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

    fn job_file(&self, id: &str) -> Option<PathBuf> {
        is_id(id).then(|| self.dir.join("jobs").join(format!("{id}.json")))
    }

    /// Stores a job; it is on the disk when this returns.
    pub fn add(&self, job: &CronJob) -> io::Result<()> {
        let path = self.job_file(&job.id).ok_or_else(|| io::Error::other("the job has no proper name"))?;
        make_dir(&self.dir.join("jobs"))?;
        if MOST_JOBS <= fs::read_dir(self.dir.join("jobs"))?.count() {
            return Err(io::Error::other(format!("there are {MOST_JOBS} jobs already")));
        }
        let text = serde_json::to_vec_pretty(job).map_err(io::Error::other)?;
        haft_paths::replace_file(&path, &text, ReplacedMode::Private, Durability::ContentAndName)
    }

    /// Removes a job; whether there was one.
    pub fn remove(&self, id: &str) -> io::Result<bool> {
        let Some(path) = self.job_file(id) else { return Ok(false) };
        match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(err) => Err(err),
        }
    }

    /// All jobs. A file that is no job is named and left alone.
    pub fn list(&self) -> StoredJobs {
        let mut stored = StoredJobs::default();
        let Ok(entries) = fs::read_dir(self.dir.join("jobs")) else { return stored };
        for path in
            entries.flatten().map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "json"))
        {
            match read_job(&path) {
                Ok(job) => stored.jobs.push(job),
                Err(why) => stored.problems.push(format!("{}: {why}", path.display())),
            }
        }
        stored.jobs.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        stored
    }

    fn claims(&self, id: &str) -> PathBuf {
        self.dir.join("slots").join(id)
    }

    /// Takes a slot of a job. Whether it is ours: of all processes one gets it,
    /// once.
    pub fn claim(&self, id: &str, slot: Timestamp) -> io::Result<bool> {
        if !is_id(id) {
            return Ok(false);
        }
        let dir = self.claims(id);
        make_dir(&dir)?;
        let mine = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(dir.join(slot.as_second().to_string()));
        match mine {
            Ok(file) => {
                file.sync_all()?;
                self.forget_old(&dir);
                Ok(true)
            }
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(err) => Err(err),
        }
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

    fn forget_old(&self, dir: &Path) {
        let mut claimed = slots(dir);
        claimed.sort_unstable();
        let old = claimed.len().saturating_sub(KEPT_CLAIMS);
        for slot in &claimed[..old] {
            fs::remove_file(dir.join(slot.to_string())).ok();
        }
    }

    /// Writes down what came of a run.
    pub fn record(&self, run: &RunRecord) -> io::Result<()> {
        make_dir(&self.dir)?;
        let path = self.dir.join("runs.jsonl");
        if fs::metadata(&path).is_ok_and(|it| RUNS_BYTES < it.len()) {
            fs::rename(&path, self.dir.join("runs.old.jsonl"))?;
        }
        let mut line = serde_json::to_vec(run).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        file.write_all(&line)
    }

    /// What came of runs, oldest first. Torn lines are left out.
    pub fn runs(&self) -> Vec<RunRecord> {
        let text = |name: &str| fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        let all = format!("{}{}", text("runs.old.jsonl"), text("runs.jsonl"));
        all.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

fn slots(dir: &Path) -> Vec<i64> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    names.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect()
}

fn read_job(path: &Path) -> Result<CronJob, String> {
    let meta = fs::symlink_metadata(path).map_err(|err| err.to_string())?;
    if !meta.is_file() || MOST_BYTES < meta.len() {
        return Err(String::from("it is no file of a job"));
    }
    let text = fs::read(path).map_err(|err| err.to_string())?;
    let job: CronJob = serde_json::from_slice(&text).map_err(|err| err.to_string())?;
    let named = path.file_stem().is_some_and(|it| it.to_str() == Some(&job.id));
    if is_id(&job.id) && named { Ok(job) } else { Err(String::from("its name is not its job's")) }
}

fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
