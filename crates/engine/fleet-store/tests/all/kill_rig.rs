//! Takeover under kill -9: workers are processes, their effects go to a synced file, and nothing must be
//! done twice.
//!
//! As in a session, a call has three steps: the line `started`, its external effect, the line `done`. A
//! worker that finds `started` without `done` writes `unknown` and continues.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_fleet_store::{
    ClaimJobs, FleetAddress, FleetName, FleetStore, JobFilter, JobState, Lease, LeaseKey, LeaseRenewal,
    PageOfJobs, RunId, StoreError,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::support::{
    jobs::{job, name},
    servers::{Kind, Rig},
};

const CALLS: usize = 6;
const LEASE: Duration = Duration::from_millis(1_500);
const WORKERS: usize = 6;
pub const POOL: &str = "rig";

/// Lease of a worker process; overridden by an environment variable.
fn lease() -> Duration {
    let told = std::env::var("RIG_LEASE_MS").ok().and_then(|it| it.parse().ok());
    told.map_or(LEASE, Duration::from_millis)
}

/// One worker process, started by the rig.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a child process of other tests"]
async fn worker_process() {
    let of_rig = |name: &str| std::env::var(name).expect("started by the rig");
    let (address, effects) = (of_rig("RIG_ADDRESS"), of_rig("RIG_EFFECTS"));
    let store = loop {
        match FleetStore::open(&FleetAddress::parse(&address).unwrap()).await {
            Ok(store) => break store,
            Err(err) => {
                eprintln!("{err}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    };
    Worker {
        store,
        me: crate::support::jobs::fresh("worker"),
        effects: effects.into(),
        held: Arc::default(),
    }
    .work()
    .await;
}

struct Worker {
    store: FleetStore,
    me: FleetName,
    effects: PathBuf,
    held: Arc<Mutex<BTreeMap<LeaseKey, tokio::task::AbortHandle>>>,
}

impl Worker {
    async fn work(self) {
        let worker = Arc::new(self);
        tokio::spawn(renew(worker.clone()));
        loop {
            let room = ClaimJobs {
                worker: worker.me.clone(),
                pool: name(POOL),
                most: 4 - worker.held.lock().await.len().min(4) as u32,
                machine: Default::default(),
                lease: lease(),
                wait: Duration::from_millis(300),
            };
            if room.most == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            for lease in worker.store.queue.take(room).await.unwrap_or_default() {
                let (worker, key) = (worker.clone(), lease.key.clone());
                let mut held = worker.held.clone().lock_owned().await;
                let task = tokio::spawn(async move {
                    let key = lease.key.clone();
                    if let Err(err) = worker.run(lease).await {
                        eprintln!("{err}");
                    }
                    worker.held.lock().await.remove(&key);
                });
                held.insert(key, task.abort_handle());
            }
        }
    }

    async fn run(&self, lease: Lease) -> Result<(), StoreError> {
        let key = lease.key;
        let lines = self.store.log.read(key.run.clone(), 0, 1_000).await?;
        assert!(lines.len() as u64 >= lease.log_end, "a takeover reads up to the end");
        for call in 0..CALLS {
            let has = |word: &str| lines.iter().any(|it| it.text == format!("{word} {call}"));
            if has("done") || has("unknown") {
                continue;
            }
            if has("started") {
                self.store.log.append(key.clone(), vec![format!("unknown {call}")]).await?;
                continue;
            }
            self.store.log.append(key.clone(), vec![format!("started {call}")]).await?;
            self.effect(&key, call).await;
            self.store.log.append(key.clone(), vec![format!("done {call}")]).await?;
        }
        self.store.queue.end(key, JobState::Done, None, json!({ "calls": CALLS })).await
    }

    /// The effect that must not happen twice, synced to disk before it counts as done.
    async fn effect(&self, key: &LeaseKey, call: usize) {
        let (path, line) = (self.effects.clone(), format!("{} {call} {}\n", key.run, key.epoch));
        let write = move || {
            let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
            file.write_all(line.as_bytes()).unwrap();
            file.sync_data().unwrap();
        };
        tokio::task::spawn_blocking(write).await.unwrap();
    }
}

/// Renews leases; stops jobs that are lost or cannot be renewed in time.
async fn renew(worker: Arc<Worker>) {
    let (mut confirmed, lease) = (Instant::now(), lease());
    loop {
        tokio::time::sleep(lease / 5).await;
        let keys: Vec<LeaseKey> = worker.held.lock().await.keys().cloned().collect();
        let asked = Instant::now();
        let renewed = worker.store.queue.renew(worker.me.clone(), keys.clone(), lease);
        let answers = tokio::time::timeout(lease / 2, renewed).await;
        let mut held = worker.held.lock().await;
        match answers {
            Ok(Ok(answers)) => {
                confirmed = asked;
                for (key, _) in keys.iter().zip(answers).filter(|it| it.1 == LeaseRenewal::Lost) {
                    if let Some(task) = held.remove(key) {
                        task.abort();
                    }
                }
            }
            _ if confirmed.elapsed() > lease * 2 / 3 => {
                std::mem::take(&mut *held).into_values().for_each(|task| task.abort());
            }
            _ => {}
        }
    }
}

fn start_worker(address: &str, effects: &Path) -> Child {
    as_worker(&mut Command::new(std::env::current_exe().unwrap()), address, effects)
}

/// Starts this program as a worker, with `command` as its wrapper.
pub fn as_worker(command: &mut Command, address: &str, effects: &Path) -> Child {
    command
        .args(["kill_rig::worker_process", "--ignored", "--exact", "--nocapture"])
        .env("RIG_ADDRESS", address)
        .env("RIG_EFFECTS", effects)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

struct Workers(Vec<Child>);

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A worker suspended beyond its lease. A separate task resumes it: a process suspended during a write
/// holds the database file, for which the test itself may wait.
struct Pause(tokio::task::JoinHandle<()>);

impl Pause {
    fn of(child: &Child) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a running worker");
        let _ = kill_process(pid, Signal::STOP);
        Self(tokio::spawn(async move {
            tokio::time::sleep(LEASE * 2).await;
            let _ = kill_process(pid, Signal::CONT);
        }))
    }

    fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    async fn end(self) {
        let _ = self.0.await;
    }
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Tally {
    jobs: usize,
    kills: usize,
    pauses: usize,
    pub takeovers: u64,
    pub unknown_that_ran: usize,
    pub unknown_that_did_not: usize,
    seconds: u64,
}

async fn kill_workers(rig: &Rig, address: &str, kills: usize, jobs: usize) -> Tally {
    let begin = Instant::now();
    let effects = rig.dir.path().join("effects");
    let store = rig.open().await;
    let mut new: Vec<_> = (0..jobs).map(|_| job(&name(POOL))).collect();
    store.queue.submit(new.clone()).await.unwrap();
    let mut workers = Workers((0..WORKERS).map(|_| start_worker(address, &effects)).collect());
    let mut tally = Tally::default();
    let filter = JobFilter { pool: Some(name(POOL)), ..JobFilter::default() };
    let mut stopped: Option<(usize, Pause)> = None;
    let mut last_change = (0, Instant::now());
    loop {
        let counts = store.queue.counts(filter.clone()).await.unwrap();
        let done = counts.of(JobState::Done);
        if tally.kills < kills && counts.of(JobState::Queued) < 2 * WORKERS as u64 {
            // Enough jobs that every killed worker has one.
            let more: Vec<_> = (0..4 * WORKERS).map(|_| job(&name(POOL))).collect();
            store.queue.submit(more.clone()).await.unwrap();
            new.extend(more);
        } else if done == new.len() as u64 {
            break;
        }
        if done != last_change.0 {
            last_change = (done, Instant::now());
        }
        assert!(last_change.1.elapsed() < Duration::from_secs(300), "nothing goes on: {counts:?}");
        stopped = stopped.filter(|it| !it.1.is_over());
        let victim = fastrand::usize(0..WORKERS);
        if tally.kills < kills && stopped.as_ref().is_none_or(|it| it.0 != victim) {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(10..90))).await;
            if stopped.is_none() && tally.kills % 20 == 10 {
                stopped = Some((victim, Pause::of(&workers.0[victim])));
                tally.pauses += 1;
            }
            if stopped.as_ref().is_none_or(|it| it.0 != victim) {
                let _ = workers.0[victim].kill();
                let _ = workers.0[victim].wait();
                workers.0[victim] = start_worker(address, &effects);
            }
            tally.kills += 1;
        } else {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    if let Some((_, pause)) = stopped {
        // A worker that slept through everything does no harm when it resumes.
        pause.end().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    drop(workers);
    tally.jobs = new.len();
    judge(&store, &effects, &new.iter().map(|it| it.head.id.clone()).collect::<Vec<_>>(), &mut tally).await;
    tally.seconds = begin.elapsed().as_secs();
    tally
}

/// Checks: each effect at most once, each call finished, each log written by one owner after another.
pub async fn judge(store: &FleetStore, effects: &Path, runs: &[RunId], tally: &mut Tally) {
    let mut seen: BTreeMap<(String, usize), usize> = BTreeMap::new();
    for line in fs::read_to_string(effects).unwrap().lines() {
        let mut words = line.split(' ');
        let key = (words.next().unwrap().to_owned(), words.next().unwrap().parse().unwrap());
        *seen.entry(key).or_default() += 1;
    }
    let twice: Vec<_> = seen.iter().filter(|it| *it.1 > 1).collect();
    assert!(twice.is_empty(), "done twice: {twice:?}");
    for run in runs {
        let lines = store.log.read(run.clone(), 0, 1_000).await.unwrap();
        let epochs: Vec<u64> = lines.iter().map(|it| it.epoch).collect();
        assert!(epochs.is_sorted(), "{run}: a stale writer got through: {epochs:?}");
        assert!(lines.iter().enumerate().all(|(at, it)| it.number == at as u64));
        for call in 0..CALLS {
            let count = |word: &str| lines.iter().filter(|it| it.text == format!("{word} {call}")).count();
            let has_run = seen.contains_key(&(run.to_string(), call));
            match (count("started"), count("done"), count("unknown")) {
                (1, 1, 0) => assert!(has_run, "{run} {call}: done without an effect"),
                (1, 0, 1) if has_run => tally.unknown_that_ran += 1,
                (1, 0, 1) => tally.unknown_that_did_not += 1,
                other => panic!("{run} {call}: {other:?} in {lines:?}"),
            }
        }
    }
    let filter = JobFilter { pool: Some(name(POOL)), ..JobFilter::default() };
    let records = store.queue.jobs(filter, PageOfJobs { after: None, most: 100_000 }).await.unwrap().jobs;
    tally.takeovers = records.iter().map(|it| u64::from(it.deliveries) - 1).sum();
    assert!(records.iter().all(|it| it.summary == json!({ "calls": CALLS }) && it.summary != Value::Null));
}

async fn run(kind: Kind, kills: usize, jobs: usize) {
    let Some(rig) = Rig::start(kind) else { return };
    let address = rig.text.clone();
    let tally = kill_workers(&rig, &address, kills, jobs).await;
    let Tally { jobs, kills, pauses, takeovers, unknown_that_ran: ran, unknown_that_did_not: not, seconds } =
        tally;
    eprintln!(
        "{kind:?}: {jobs} jobs of {CALLS} calls all done, {kills} kills, {pauses} pauses beyond the lease, {takeovers} \
         takeovers, 0 calls twice, {} outcomes unknown ({ran} had run, {not} had not), {seconds} s",
        ran + not
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_killed_workers_repeat_no_effect() {
    run(Kind::Sqlite, 40, 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_killed_workers_repeat_no_effect() {
    run(Kind::Nats, 20, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_killed_workers_repeat_no_effect() {
    run(Kind::Postgres, 20, 30).await;
}

/// `cargo xtask fleet-kills N [--engine E]`; takes minutes, so only on request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_as_asked() {
    let Some(kills) = std::env::var("HAFT_FLEET_KILLS").ok().and_then(|it| it.parse::<usize>().ok()) else {
        return crate::support::skip("a soak: cargo xtask fleet-kills runs it");
    };
    let engine = std::env::var("HAFT_FLEET_ENGINE").unwrap_or_default();
    for (word, kind) in [("sqlite", Kind::Sqlite), ("nats", Kind::Nats), ("postgres", Kind::Postgres)] {
        if engine.is_empty() || engine == word {
            run(kind, kills, kills).await;
        }
    }
}
