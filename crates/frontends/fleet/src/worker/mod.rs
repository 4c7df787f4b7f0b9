//! Workers: jobs in, sessions, results out.

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

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Its name: a new one for every process.
    pub name: FleetName,
    /// Jobs of this pool.
    pub pool: FleetName,
    /// So many sessions at once.
    pub slots: u32,
    /// What of its machine it has for jobs that ask for some.
    pub machine: ResourceRequest,
    /// How long others wait for a sign of life.
    pub lease: Duration,
    /// Where workspaces are made.
    pub root: PathBuf,
    /// Whether it ends when nothing waits any more.
    pub until_empty: bool,
    /// How long one question for jobs waits: so long it takes to end, too.
    pub patience: Duration,
    /// How long running calls may take when it is asked to end.
    pub grace: Duration,
    /// Takes nothing while the machine has less memory left.
    pub least_memory: u64,
    /// Takes nothing while there is less room for workspaces.
    pub least_disk: u64,
    /// Whether workspaces of ended jobs stay.
    pub keep_workspaces: bool,
    /// Secrets it gives out.
    pub secrets: SecretRules,
    /// What keys of providers take in a minute.
    pub key_limits: KeyLimits,
    /// What a tenant may spend.
    pub tenant_usd: Option<f64>,
    /// The program `haft`.
    pub program: Option<PathBuf>,
}

impl WorkerSettings {
    /// The usual, for workspaces below a directory.
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

/// What the flags of a job mean.
pub trait JobSessions: Send + Sync {
    /// The session of these flags in this place. The error is for whoever wrote
    /// the job.
    fn session(&self, flags: &Map<String, Value>, place: LocationSpec) -> Result<JobSession, String>;
}

/// A session that a job wants.
pub struct JobSession {
    /// What it is made of.
    pub spec: SessionSpec,
    /// Whether calls that were denied are no failure.
    pub allow_denials: bool,
}

/// What a worker tells whoever started it.
#[derive(Clone, Debug)]
pub enum WorkerEvent {
    /// The store knows the worker; it claims jobs from now on.
    Ready,
    /// It works on a job.
    Took {
        /// The run.
        run: String,
        /// Its epoch.
        epoch: u64,
    },
    /// A job is over for this worker: its state, or why it was given up.
    Left {
        /// The run.
        run: String,
        /// What became of it.
        what: String,
    },
    /// A budget a job draws from comes to its end.
    Warns {
        /// The run.
        run: String,
        /// Which, and how far.
        text: String,
    },
    /// It takes nothing, for this reason.
    NoRoom(String),
    /// The store does not answer, or says something is wrong.
    Trouble(String),
}

/// A worker.
pub struct FleetWorker {
    pub(crate) store: FleetStore,
    pub(crate) settings: WorkerSettings,
    pub(crate) sessions: Arc<dyn JobSessions>,
    pub(crate) keys: Arc<RateLimiter>,
    pub(crate) leases: Leases,
    news: mpsc::UnboundedSender<WorkerEvent>,
}

/// How long one question for jobs waits.
const TAKE_WAIT: Duration = Duration::from_secs(1);
/// How often what is due by the clock is looked for.
const TICK: Duration = Duration::from_secs(1);

impl FleetWorker {
    /// A worker; what it does is told to the receiver.
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
        // Nobody has to listen.
        self.news.send(news).ok();
    }

    /// Works until `drain` fires: then running calls end, what runs goes back to
    /// the queue from where it is, and others go on with it.
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
            // A question that is given up on halfway might lose what it was answered: it goes on alone.
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

    /// Whether nothing waits that this worker could take now or soon.
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
            // Any other worker does it too.
            self.store.clockwork.tick().await.ok();
        }
    }
}
