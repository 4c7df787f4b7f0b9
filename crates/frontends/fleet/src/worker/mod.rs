//! Workers: take jobs, run sessions, return results.

mod blob_reads;
mod capacity;
mod disk_usage;
mod finish_job;
mod leased_job;
mod leases;
mod outcome;
mod questions;
mod results;
mod run_mail;
mod run_session;
mod takeover;

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_fleet_store::{ClaimJobs, FleetName, FleetStore, Lease, ResourceRequest, StoreError};
use haft_session::{LocationSpec, SessionSpec};
use serde_json::{Map, Value};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::leases::Leases;
use crate::{
    limits::{KeyLimits, RateLimiter},
    secret_rules::SecretRules,
};

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Name, unique per process.
    pub name: FleetName,
    /// Pool to take jobs from.
    pub pool: FleetName,
    /// Maximum concurrent sessions.
    pub slots: u32,
    /// Resources of the machine for jobs that reserve some.
    pub machine: ResourceRequest,
    /// Time without a renewal after which other processes declare this worker dead.
    pub lease: Duration,
    /// Directory for workspaces.
    pub root: PathBuf,
    /// Whether the worker exits when no job is waiting.
    pub until_empty: bool,
    /// Maximum time of one request for jobs; also the time a shutdown may take.
    pub patience: Duration,
    /// How long running calls may continue on shutdown.
    pub grace: Duration,
    /// Takes no jobs while the machine has less free memory (bytes).
    pub least_memory: u64,
    /// Takes no jobs while there is less disk space for workspaces (bytes).
    pub least_disk: u64,
    /// Whether workspaces of ended jobs are kept.
    pub keep_workspaces: bool,
    /// Secrets it provides to jobs.
    pub secrets: SecretRules,
    /// Rate limits of provider keys.
    pub key_limits: KeyLimits,
    /// Budget of a tenant in US dollars.
    pub tenant_usd: Option<f64>,
    /// Path of the `haft` program.
    pub program: Option<PathBuf>,
}

impl WorkerSettings {
    /// Returns the defaults, with workspaces below `root`.
    pub fn new(name: FleetName, pool: FleetName, root: PathBuf) -> Self {
        Self {
            name,
            pool,
            slots: 4,
            machine: capacity::machine(),
            lease: Duration::from_secs(30),
            root,
            until_empty: false,
            patience: TAKE_WAIT,
            grace: Duration::from_secs(60),
            least_memory: 256 << 20,
            least_disk: 512 << 20,
            keep_workspaces: false,
            secrets: SecretRules::default(),
            key_limits: KeyLimits::default(),
            tenant_usd: None,
            program: None,
        }
    }
}

/// Interprets the flags of a job.
pub trait JobSessions: Send + Sync {
    /// Builds a session from flags and its location. The error is for the author of the job.
    fn session(&self, flags: &Map<String, Value>, place: LocationSpec) -> Result<JobSession, String>;
}

/// A session for a job.
pub struct JobSession {
    pub spec: SessionSpec,
    /// Whether denied calls do not count as a failure.
    pub allow_denials: bool,
}

/// An event of a worker, for the process that started it.
#[derive(Clone, Debug)]
pub enum WorkerEvent {
    /// The store knows the worker; it claims jobs from now on.
    Ready,
    /// Working on a job.
    Took { run: String, epoch: u64 },
    /// A job has ended for this worker.
    Left {
        run: String,
        /// Its state, or why it was given up.
        what: String,
    },
    /// A budget of a job is nearly used up.
    Warns {
        run: String,
        /// Which budget, and how much is used.
        text: String,
    },
    /// It takes no jobs, for this reason.
    NoRoom(String),
    /// The store does not answer or reports an error.
    Trouble(String),
}

/// Takes and runs jobs.
pub struct FleetWorker {
    pub(crate) store: FleetStore,
    pub(crate) settings: WorkerSettings,
    pub(crate) sessions: Arc<dyn JobSessions>,
    pub(crate) keys: Arc<RateLimiter>,
    pub(crate) leases: Leases,
    news: mpsc::UnboundedSender<WorkerEvent>,
}

/// Maximum time of one request for jobs.
const TAKE_WAIT: Duration = Duration::from_secs(1);
/// How often due schedules are fired.
const TICK: Duration = Duration::from_secs(1);

impl FleetWorker {
    /// Creates a worker; its events go to the receiver.
    pub fn new(
        store: FleetStore,
        settings: WorkerSettings,
        sessions: Arc<dyn JobSessions>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<WorkerEvent>) {
        let (news, receiver) = mpsc::unbounded_channel();
        let keys = RateLimiter::new(&store, settings.key_limits.clone());
        let leases = Leases::new(store.clone(), settings.name.clone(), settings.lease);
        (Arc::new(Self { store, settings, sessions, keys, leases, news }), receiver)
    }

    pub(crate) fn tell(&self, news: WorkerEvent) {
        // The receiver is optional.
        self.news.send(news).ok();
    }

    /// Runs until `drain` is cancelled. Then running calls may finish, and running jobs return to the
    /// queue, to be continued by other workers.
    pub async fn run(self: Arc<Self>, drain: CancellationToken) -> Result<(), StoreError> {
        let over = CancellationToken::new();
        let renewing = tokio::spawn(Arc::clone(&self).renew_leases(over.clone()));
        let ticking = tokio::spawn(Arc::clone(&self).tick(over.clone()));
        let mut running: JoinSet<()> = JoinSet::new();
        let ended = self.take_jobs(&mut running, &drain).await;
        while running.join_next().await.is_some() {}
        over.cancel();
        renewing.await.ok();
        ticking.await.ok();
        let left = self.store.queue.leave(self.settings.name.clone()).await;
        ended.and(left)
    }

    async fn take_jobs(
        self: &Arc<Self>,
        running: &mut JoinSet<()>,
        drain: &CancellationToken,
    ) -> Result<(), StoreError> {
        let mut told_no_room = false;
        let mut is_registered = false;
        loop {
            let free = self.settings.slots.saturating_sub(u32::try_from(running.len()).unwrap_or(u32::MAX));
            let room = capacity::look(&self.settings);
            if let Err(why) = &room
                && !std::mem::replace(&mut told_no_room, true)
            {
                self.tell(WorkerEvent::NoRoom(why.clone()));
            }
            told_no_room &= room.is_err();
            if free == 0 || room.is_err() {
                tokio::select! {
                    () = drain.cancelled() => return Ok(()),
                    Some(_) = running.join_next() => (),
                    () = tokio::time::sleep(Duration::from_secs(1)), if room.is_err() => (),
                }
                continue;
            }
            // The first claim registers the worker with the store and does not wait for a job.
            let wait = if !is_registered {
                Duration::ZERO
            } else if self.settings.until_empty {
                Duration::from_millis(200)
            } else {
                self.settings.patience
            };
            let ask = ClaimJobs {
                worker: self.settings.name.clone(),
                pool: self.settings.pool.clone(),
                most: free,
                machine: self.settings.machine,
                lease: self.settings.lease,
                wait,
            };
            // Spawned, because dropping a request halfway could lose the jobs it was granted.
            let taking = self.store.queue.take(ask);
            tokio::pin!(taking);
            let taken = loop {
                tokio::select! {
                    taken = &mut taking => break taken,
                    Some(_) = running.join_next() => (),
                }
            };
            if taken.is_ok() && !std::mem::replace(&mut is_registered, true) {
                self.tell(WorkerEvent::Ready);
            }
            match taken {
                Ok(leases) if leases.is_empty() => {
                    if drain.is_cancelled()
                        || self.settings.until_empty && running.is_empty() && self.is_empty().await
                    {
                        return Ok(());
                    }
                }
                Ok(leases) => leases.into_iter().for_each(|lease| self.begin(lease, running, drain)),
                Err(err) if err.is_passing() => {
                    self.tell(WorkerEvent::Trouble(err.to_string()));
                    tokio::select! {
                        () = drain.cancelled() => return Ok(()),
                        () = tokio::time::sleep(Duration::from_secs(1)) => (),
                    }
                }
                Err(err) => return Err(err),
            }
            if drain.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Whether no job waits that this worker could take now or soon.
    async fn is_empty(&self) -> bool {
        let filter = haft_fleet_store::JobFilter {
            pool: Some(self.settings.pool.clone()),
            states: vec![haft_fleet_store::JobState::Queued],
            ..haft_fleet_store::JobFilter::default()
        };
        self.store.queue.counts(filter).await.is_ok_and(|it| it.all() <= it.paused)
    }

    fn begin(self: &Arc<Self>, lease: Lease, running: &mut JoinSet<()>, drain: &CancellationToken) {
        let held = self.leases.hold(lease.key.clone());
        self.tell(WorkerEvent::Took { run: lease.key.run.to_string(), epoch: lease.key.epoch });
        let (worker, drain) = (Arc::clone(self), drain.clone());
        running.spawn(async move {
            let run = lease.key.run.to_string();
            let what = leased_job::work(&worker, lease, &held, &drain).await;
            worker.leases.let_go(&held);
            worker.tell(WorkerEvent::Left { run, what });
        });
    }

    async fn renew_leases(self: Arc<Self>, over: CancellationToken) {
        let trouble = |text: String| self.tell(WorkerEvent::Trouble(text));
        self.leases.keep(&over, &trouble).await;
    }

    async fn tick(self: Arc<Self>, over: CancellationToken) {
        loop {
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(TICK) => (),
            }
            // Errors are ignored: other workers fire schedules too.
            self.store.clockwork.tick().await.ok();
        }
    }
}
