//! The session of a job: opened, followed, interrupted, handed back.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use haft_agent::AgentEvent;
use haft_fleet_store::{ControlEntry, JobState, Lease, StoreError, StoreStream, cancel_control};
use haft_model::{ModelEvent, Provider};
use haft_session::{
    ApproverSpec, CloseMode, Command, EventStream, LocationSpec, LogDestination, LogStart, OpenError, Prompt,
    Session, SessionEventKind, SessionHandle, TurnEnded,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    FleetWorker, JobSession, WorkerEvent, blob_reads, capacity,
    leased_job::{JobStopped, ReadyJob},
    leases::ActiveLease,
    outcome::JobOutcome,
    questions::RunApprover,
    run_mail::RunMail,
    takeover,
};
use crate::{
    job_file::{CheckpointWhen, OnQuestion, WorkspaceSource},
    limits::{LimitWait, LimitedProvider},
    run_log_lines::FleetState,
};

/// How often a run that is to be handed back is looked at.
const LOOKS: Duration = Duration::from_millis(50);
/// A job whose tool host cannot be reached is tried again after this time.
const HOST_PAUSE: Duration = Duration::from_secs(15);
/// How often a worker tells the store how far a run is.
const TELLS: Duration = Duration::from_secs(1);

/// How a session ended.
pub(super) struct EndedRun {
    pub(super) session: haft_types::SessionId,
    pub(super) turn: Option<Box<TurnEnded>>,
    pub(super) allow_denials: bool,
    pub(super) denied: bool,
    pub(super) usd: f64,
    pub(super) requests: u64,
    pub(super) cancelled: bool,
    /// So long nobody may ask the provider.
    pub(super) waits: Option<Duration>,
    /// The last warning about money.
    pub(super) warning: Option<String>,
}

/// What is known of a session while it works.
struct Watched<'a> {
    worker: &'a Arc<FleetWorker>,
    lease: &'a Lease,
    job: &'a mut ReadyJob,
    handle: SessionHandle,
    ended: EndedRun,
    live: String,
    last: String,
    told_at: Option<tokio::time::Instant>,
    state: JobState,
    kept_calls: u64,
    /// Whether it ends because its workspace grew too large.
    is_over_disk: bool,
    questions: RunApprover,
    /// Calls whose question is in the log.
    asked: std::collections::HashSet<String>,
}

/// The session of a job, to its end.
pub(super) async fn run(
    worker: &Arc<FleetWorker>,
    lease: &Lease,
    held: &ActiveLease,
    drain: &CancellationToken,
    job: &mut ReadyJob,
) -> Result<EndedRun, JobStopped> {
    let (waits, mut wait_news) = mpsc::unbounded_channel();
    let (questions, mut asked) = RunApprover::new();
    let (handle, events, allow_denials) = open(worker, lease, job, waits, &questions)?;
    let has_begun = job.history.has_begun;
    if has_begun {
        handle.prompt(takeover::notice(&job.history, &job.workspace, lease.key.epoch));
        handle.send(Command::GoOn);
    } else {
        let prompt = job.results.with_files(&worker.store, &job.body.prompt).await?;
        handle.prompt(Prompt { is_named: true, ..Prompt::text(prompt) });
    }
    let controls = worker.store.log.follow_controls(lease.key.run.clone(), 0);
    // Earlier workers of this try asked, too.
    let (requests, usd) = if has_begun { haft_session::logged_requests(&session_log(job)) } else { (0, 0.0) };
    let ended = EndedRun {
        session: handle.id().clone(),
        turn: None,
        allow_denials,
        denied: false,
        usd,
        requests,
        cancelled: false,
        waits: None,
        warning: None,
    };
    let mut watched = Watched {
        worker,
        lease,
        job,
        handle,
        ended,
        live: String::new(),
        last: String::new(),
        told_at: None,
        state: JobState::Running,
        kept_calls: 0,
        is_over_disk: false,
        questions,
        asked: std::collections::HashSet::new(),
    };
    watched.tell_store();
    watched.follow(events, controls, (&mut wait_news, &mut asked), held, drain).await?;
    Ok(watched.ended)
}

/// The log of the session of a job.
fn session_log(job: &ReadyJob) -> std::path::PathBuf {
    job.dirs.state().join("session.jsonl")
}

fn open(
    worker: &Arc<FleetWorker>,
    lease: &Lease,
    job: &ReadyJob,
    waits: mpsc::UnboundedSender<LimitWait>,
    questions: &RunApprover,
) -> Result<(SessionHandle, EventStream, bool), JobStopped> {
    let wrong = |why: String| JobStopped::Ends(JobOutcome::failed(2, why, None));
    let state = job.dirs.state();
    let failed = |err: std::io::Error| wrong(format!("{}: {err}", state.display()));
    std::fs::create_dir_all(&state).map_err(failed)?;
    lend_keys(&state);
    let place = LocationSpec {
        variables: job.variables.clone(),
        secret_names: job.body.secrets.clone(),
        state_dir: Some(state.clone()),
        program: worker.settings.program.clone(),
        ..LocationSpec::new(&job.workspace.dir)
    };
    let JobSession { mut spec, allow_denials } =
        worker.sessions.session(&job.body.flags, place).map_err(wrong)?;
    let log = session_log(job);
    spec.log.id = Some(lease.key.run.as_str().into());
    spec.log.kept = LogDestination::File(log.clone());
    spec.log.fence = Some(Arc::new(job.fence.clone()));
    spec.log.entrypoint = Some(String::from("haft-fleet"));
    if job.body.on_question == OnQuestion::Wait {
        spec.asking = ApproverSpec::Port(Arc::new(questions.clone()));
    }
    spec.hooks.push(blob_reads::hook(&worker.store, &job.results));
    spec.far_post = Some(Arc::new(RunMail {
        store: worker.store.clone(),
        tenant: lease.head.tenant.clone(),
        run: lease.key.run.to_string(),
        mask: job.mask.clone(),
    }));
    if job.history.has_begun {
        job.history.write_to(&log).map_err(failed)?;
        spec.log.start = LogStart::File(log);
    }
    if let Some(model) = &mut spec.model {
        model.limits.max_time = job.body.limits.time.or(model.limits.max_time);
        let (keys, money) = (Arc::clone(&worker.keys), Arc::clone(&job.money));
        model.between = Some(Arc::new(move |inner: Arc<dyn Provider>| -> Arc<dyn Provider> {
            Arc::new(LimitedProvider::new(inner, Arc::clone(&keys), Arc::clone(&money), waits.clone()))
        }));
    }
    if let Ok(WorkspaceSource::Host(host)) = job.body.workspace.source() {
        spec.hosts.named = vec![host.to_owned()];
    }
    // A host that another worker of the run has met refuses this one's earlier turns.
    spec.hosts.epoch = Some(lease.key.epoch);
    let has_hosts = !spec.hosts.named.is_empty();
    // Hosts are waited for, and others have something to do meanwhile.
    let opened =
        if has_hosts { tokio::task::block_in_place(|| Session::open(spec)) } else { Session::open(spec) };
    let (handle, events) = opened.map_err(|err| match err {
        OpenError::Start(why) if has_hosts => JobStopped::Back(HOST_PAUSE, job.mask.masked(&why)),
        other => wrong(other.to_string()),
    })?;
    Ok((handle, events, allow_denials))
}

/// Keys that the person stored for haft are found in the run's own directory too.
fn lend_keys(state: &std::path::Path) {
    let Some(home) = std::env::var_os("HOME").map(std::path::PathBuf::from) else { return };
    let stored = home.join(".haft/credentials.json");
    if stored.is_file() {
        std::os::unix::fs::symlink(stored, state.join("credentials.json")).ok();
    }
}

impl Watched<'_> {
    async fn follow(
        &mut self,
        mut events: EventStream,
        mut controls: StoreStream<ControlEntry>,
        (wait_news, asked): (&mut mpsc::UnboundedReceiver<LimitWait>, &mut mpsc::UnboundedReceiver<()>),
        held: &ActiveLease,
        drain: &CancellationToken,
    ) -> Result<(), JobStopped> {
        let (lost, over_disk) = (self.job.fence.lost(), self.job.disk.over.clone());
        let mut heard_all = false;
        let mut drain_until: Option<tokio::time::Instant> = None;
        let mut looks = tokio::time::interval(LOOKS);
        self.handle.send(Command::Finish);
        loop {
            tokio::select! {
                biased;
                () = lost.cancelled() => return Err(self.abandon(None).await),
                () = held.lost.cancelled() => {
                    return Err(self.abandon(Some("the lease was not renewed in time, or another worker has the run")).await);
                }
                () = held.cancelled.cancelled(), if !self.ended.cancelled => self.cancel(),
                () = over_disk.cancelled(), if !self.is_over_disk => {
                    self.is_over_disk = true;
                    self.handle.interrupt();
                    self.handle.send(Command::EndAfterTurn);
                }
                () = drain.cancelled(), if drain_until.is_none() => {
                    drain_until = Some(tokio::time::Instant::now() + self.worker.settings.grace);
                }
                _ = looks.tick(), if drain_until.is_some() => {
                    let is_late = drain_until.is_some_and(|until| until < tokio::time::Instant::now());
                    if self.job.fence.seal_if_idle() || is_late {
                        return Err(self.hand_back(is_late).await);
                    }
                }
                entry = controls.next(), if !heard_all => match entry {
                    Some(Ok(entry)) => self.hear(&entry).await,
                    Some(Err(_)) | None => heard_all = true,
                },
                Some(news) = wait_news.recv() => self.take_wait(news),
                Some(()) = asked.recv() => self.take_questions(),
                event = events.next() => {
                    let Some(event) = event else { return Ok(()) };
                    if matches!(event.what, SessionEventKind::Closed) {
                        return Ok(());
                    }
                    let is_main = event.agent.is_main();
                    self.take(event.what, is_main, &lost).await;
                }
            }
        }
    }

    async fn take(&mut self, what: SessionEventKind, is_main: bool, lost: &CancellationToken) {
        match what {
            SessionEventKind::Agent(AgentEvent::Model(ModelEvent::Text(piece))) if is_main => {
                self.show(&piece)
            }
            SessionEventKind::Agent(AgentEvent::Model(ModelEvent::Stopped(_))) => {
                self.show("\n");
                self.tell_store();
            }
            SessionEventKind::Agent(AgentEvent::Model(ModelEvent::Started { .. }))
                if is_main && self.job.body.checkpoint == CheckpointWhen::Turn =>
            {
                self.checkpoint(lost).await;
            }
            SessionEventKind::Agent(AgentEvent::Called(call)) => {
                self.last = format!("{} {}", call.name, haft_types::text::one_line(&call.headline, 80));
                self.last = self.job.mask.masked(&self.last);
            }
            SessionEventKind::Agent(AgentEvent::Result(_)) => match self.job.body.checkpoint {
                CheckpointWhen::Call => self.checkpoint(lost).await,
                CheckpointWhen::Turn if self.job.fence.is_idle() => self.checkpoint(lost).await,
                CheckpointWhen::Turn | CheckpointWhen::End => (),
            },
            SessionEventKind::TurnEnded(turn) => {
                self.ended.denied |= !turn.end.denials.is_empty();
                self.ended.turn = Some(turn);
            }
            _ => (),
        }
    }

    /// Text for whoever looks right now, without what may be half a secret.
    fn show(&mut self, piece: &str) {
        self.live.push_str(piece);
        let held_back = if piece == "\n" { 0 } else { self.job.mask.longest() };
        let mut end = self.live.len().saturating_sub(held_back);
        while !self.live.is_char_boundary(end) {
            end -= 1;
        }
        if 0 < end {
            let text: String = self.live.drain(..end).collect();
            self.job.fence.live(&text);
        }
    }

    async fn checkpoint(&mut self, lost: &CancellationToken) {
        let begun = self.job.fence.calls_begun();
        if begun == self.kept_calls || self.is_over_disk {
            return;
        }
        let calls = self.job.fence.take_ended_calls();
        tokio::select! {
            kept = self.job.checkpoints.keep() => match kept {
                Ok(Some(manifest)) => {
                    self.job.fence.note(&FleetState::Checkpoint { manifest, calls });
                    self.kept_calls = begun;
                }
                Ok(None) => self.kept_calls = begun,
                Err(why) => tracing::warn!(run = %self.lease.key.run, why, "files could not be kept"),
            },
            () = lost.cancelled() => (),
        }
    }

    fn take_wait(&mut self, news: LimitWait) {
        match news {
            LimitWait::Spent(usd) => {
                self.ended.usd += usd;
                self.ended.requests += 1;
            }
            LimitWait::Waits(_) => self.change(JobState::Waiting),
            LimitWait::GoesOn => self.change(JobState::Running),
            LimitWait::TooLong(wait) => self.ended.waits = Some(wait),
            LimitWait::Warns(text) => {
                self.job.fence.note(&FleetState::Warning { text: text.clone() });
                self.worker
                    .tell(WorkerEvent::Warns { run: self.lease.key.run.to_string(), text: text.clone() });
                self.ended.warning = Some(text);
                self.told_at = None;
                self.tell_store();
            }
        }
    }

    /// What a person is asked has changed.
    fn take_questions(&mut self) {
        let open = self.questions.open();
        for question in &open {
            if self.asked.insert(question["call"].to_string()) {
                self.job.fence.note(&FleetState::Question { question: question.clone() });
            }
        }
        self.state = if open.is_empty() { JobState::Running } else { JobState::Waiting };
        self.told_at = None;
        self.tell_store();
    }

    fn change(&mut self, state: JobState) {
        if std::mem::replace(&mut self.state, state) != state {
            self.told_at = None;
            self.tell_store();
        }
    }

    /// Tells the store how far the run is, not too often.
    fn tell_store(&mut self) {
        let now = tokio::time::Instant::now();
        if self.told_at.is_some_and(|at| now - at < TELLS) {
            return;
        }
        self.told_at = Some(now);
        let mut summary = json!({
            "worker": self.worker.settings.name, "epoch": self.lease.key.epoch, "usd": self.ended.usd,
            "requests": self.ended.requests, "last": self.last, "memory_peak": capacity::memory_peak(),
            "warning": self.ended.warning, "questions": self.questions.open(),
        });
        self.job.mask.mask_value(&mut summary);
        let (queue, key, state) = (Arc::clone(&self.worker.store.queue), self.lease.key.clone(), self.state);
        let fence = self.job.fence.clone();
        tokio::spawn(async move {
            if let Err(err @ StoreError::Stale { .. }) = queue.report(key, state, summary).await {
                fence.fail(&err.to_string());
            }
        });
    }

    /// Something was said to the run.
    async fn hear(&mut self, entry: &ControlEntry) {
        if entry.id == cancel_control(self.lease.key.epoch) {
            return self.cancel();
        }
        if entry.body["kind"] == "answer" {
            return self.questions.answer(&entry.body);
        }
        let uuid = said_uuid(self.lease.key.run.as_str(), entry.number);
        let is_known = self.job.history.uuids.contains(&uuid);
        if let (Some("say"), Some(text), false) =
            (entry.body["kind"].as_str(), entry.body["text"].as_str(), is_known)
        {
            let files = self.job.results.with_files(&self.worker.store, text).await;
            let text = files.unwrap_or_else(|_| text.to_owned());
            self.handle.prompt(Prompt { uuid, is_named: true, is_verbatim: true, ..Prompt::text(text) });
        }
    }

    fn cancel(&mut self) {
        if !std::mem::replace(&mut self.ended.cancelled, true) {
            self.handle.interrupt();
            self.handle.send(Command::EndAfterTurn);
        }
    }

    /// The run is another's: nothing is written, everything stops.
    async fn abandon(&self, why: Option<&str>) -> JobStopped {
        if let Some(why) = why {
            self.job.fence.fail(why);
        }
        self.stop_session().await;
        JobStopped::Lost(self.job.fence.failure().unwrap_or_else(|| String::from("the run is lost")))
    }

    /// Another worker goes on from here.
    async fn hand_back(&mut self, is_late: bool) -> JobStopped {
        if is_late {
            // A call that does not end is lost with this worker; nobody runs it again.
            self.job.fence.fail("the worker ends and could not wait any longer");
            self.stop_session().await;
            return JobStopped::Back(
                Duration::ZERO,
                String::from("the worker ended while a call was running"),
            );
        }
        self.stop_session().await;
        let calls = self.job.fence.take_ended_calls();
        if let Ok(Some(manifest)) = self.job.checkpoints.keep().await {
            self.job.fence.note(&FleetState::Checkpoint { manifest, calls });
        }
        match self.job.fence.kept().await {
            Ok(()) => JobStopped::Back(Duration::ZERO, String::from("the worker was asked to end")),
            Err(why) => JobStopped::Lost(why),
        }
    }

    async fn stop_session(&self) {
        self.handle.interrupt();
        self.handle.send(Command::Close(CloseMode::AtOnce));
        tokio::time::timeout(Duration::from_secs(2), self.handle.close()).await.ok();
    }
}

/// The name of the line in the log that something said to a run becomes.
pub(crate) fn said_uuid(run: &str, number: u64) -> String {
    let hash = blake3::hash(format!("{run}\0say\0{number}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}
