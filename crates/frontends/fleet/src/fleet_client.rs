//! Client operations on a fleet: submit, list, follow, send messages, cancel.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    time::Duration,
};

use futures_util::{Stream, StreamExt as _};
use haft_fleet_store::{
    BlobHash, CancelledJob, FleetName, FleetStore, JobClass, JobCounts, JobFilter, JobHead, JobRecord,
    JobState, LimitScope, NewControl, NewJob, PageOfJobs, PauseScope, Requeue, Revision, RunId, ScopeLimits,
    StoreError, Submitted,
};
use serde_json::{Value, json};

use crate::{
    job_file::{JobPlan, PlannedJob},
    pack_tree::pack_tree,
};

/// Maximum jobs submitted in one call.
const SUBMIT_STEP: usize = 500;

/// A fleet as seen by one tenant.
#[derive(Clone, Debug)]
pub struct FleetClient {
    store: FleetStore,
    tenant: FleetName,
}

/// Why an operation failed, worded for the user.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct JobFailure(pub String);

impl From<StoreError> for JobFailure {
    fn from(err: StoreError) -> Self {
        Self(err.to_string())
    }
}

impl From<String> for JobFailure {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Result of a submission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubmitReport {
    /// Ids of all jobs, in order.
    pub ids: Vec<RunId>,
    /// Number of new jobs.
    pub queued: usize,
    /// Number of jobs that already existed.
    pub known: usize,
}

/// What a name on the command line refers to.
#[derive(Clone, Debug, PartialEq)]
pub enum SubmitTarget {
    Run(Box<JobRecord>),
    /// All jobs of a batch.
    Batch(FleetName),
}

/// A line of a followed run.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowedLine {
    pub number: u64,
    pub text: String,
}

/// A job and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    pub record: JobRecord,
}

/// How the awaited jobs ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitedCounts {
    /// Counts by state.
    pub counts: JobCounts,
}

impl WaitedCounts {
    /// Whether all of them succeeded.
    pub fn all_done(&self) -> bool {
        self.counts.of(JobState::Done) == self.counts.all()
    }
}

/// Whether the next rollout stage may start.
#[derive(Clone, Debug, PartialEq)]
pub enum StageVerdict {
    /// All jobs of the stage succeeded.
    GoOn,
    /// These jobs did not.
    Stop(Vec<RunId>),
}

impl RunResult {
    /// Returns JSON for programs; the same on every engine except for ids and times.
    pub fn to_json(&self) -> Value {
        let JobRecord { head, state, reason, summary, lost, deliveries, .. } = &self.record;
        json!({
            "id": head.id, "batch": head.batch, "labels": head.labels, "state": state, "reason": reason,
            "exit_code": summary["exit_code"], "usd": summary["usd"], "requests": summary["requests"],
            "result": summary["result"], "check": summary["check"], "patch": summary["patch"],
            "branch": summary["branch"], "files": summary["files"], "problems": summary["problems"],
            "deliveries": deliveries, "lost": lost, "owners": summary["owners"],
        })
    }

    /// Returns the blob with the patch, if there is one.
    pub fn patch(&self) -> Option<BlobHash> {
        BlobHash::parse(self.record.summary["patch"]["blob"].as_str()?).ok()
    }
}

impl FleetClient {
    /// Creates a client for a tenant.
    pub fn new(store: FleetStore, tenant: FleetName) -> Self {
        Self { store, tenant }
    }

    pub fn store(&self) -> &FleetStore {
        &self.store
    }

    pub fn tenant(&self) -> &FleetName {
        &self.tenant
    }

    /// Submits jobs of a plan, after setting the limits of its batch. Files that jobs refer to are
    /// resolved relative to `dir`, packed and uploaded.
    pub async fn submit(
        &self,
        plan: &JobPlan,
        jobs: &[PlannedJob],
        dir: &Path,
    ) -> Result<SubmitReport, JobFailure> {
        let batch = if plan.batch.is_empty() {
            None
        } else {
            Some(FleetName::parse(&plan.batch).map_err(|err| JobFailure(err.to_string()))?)
        };
        if let Some(batch) = &batch {
            self.set_batch_limits(batch, plan).await?;
        }
        let mut packed: HashMap<String, String> = HashMap::new();
        let mut report = SubmitReport::default();
        for step in jobs.chunks(SUBMIT_STEP) {
            let mut new = Vec::with_capacity(step.len());
            for job in step {
                new.push(self.new_job(plan, batch.as_ref(), job, dir, &mut packed).await?);
            }
            let ids: Vec<RunId> = new.iter().map(|it| it.head.id.clone()).collect();
            for (id, submitted) in ids.into_iter().zip(self.store.queue.submit(new).await?) {
                match submitted {
                    Submitted::Queued => {
                        report.queued += 1;
                        report.ids.push(id);
                    }
                    Submitted::Known(known) => {
                        report.known += 1;
                        report.ids.push(known);
                    }
                    Submitted::Full { scope, waiting, bound, retry_after } => {
                        return Err(JobFailure(format!(
                            "{scope} has {waiting} jobs waiting and takes {bound}; {} of {} were queued. Submit the same \
                             again in {} s: what is queued is not queued twice",
                            report.queued,
                            jobs.len(),
                            retry_after.as_secs().max(1)
                        )));
                    }
                }
            }
        }
        Ok(report)
    }

    async fn set_batch_limits(&self, batch: &FleetName, plan: &JobPlan) -> Result<(), JobFailure> {
        let rate = plan.rate;
        if rate.max_running.is_none() && rate.start.is_none() {
            return Ok(());
        }
        let limits = ScopeLimits {
            max_running: rate.max_running.map(u64::from),
            max_waiting: None,
            starts_per_1000s: rate.start.map(|it| u64::from(it.most) * 1_000 / u64::from(it.seconds.max(1))),
        };
        let scope = LimitScope::Batch(self.tenant.clone(), batch.clone());
        Ok(self.store.queue.set_limits(scope, limits).await?)
    }

    async fn new_job(
        &self,
        plan: &JobPlan,
        batch: Option<&FleetName>,
        job: &PlannedJob,
        dir: &Path,
        packed: &mut HashMap<String, String>,
    ) -> Result<NewJob, JobFailure> {
        let wrong = |err: haft_fleet_store::NameError| JobFailure(err.to_string());
        let mut body = job.body.clone();
        for source in [&mut body.workspace.bundle, &mut body.workspace.tar] {
            let Some(name) = source.as_ref().filter(|it| !it.starts_with("blob:")).cloned() else { continue };
            let known = match packed.get(&name) {
                Some(known) => known.clone(),
                None => {
                    let tree = pack_tree(&self.store, &self.tenant, &dir.join(&name)).await?.0;
                    packed.insert(name, tree.clone());
                    tree
                }
            };
            *source = Some(known);
        }
        let class = match job.class.as_str() {
            "urgent" => JobClass::Urgent,
            "bulk" => JobClass::Bulk,
            _ => JobClass::Normal,
        };
        let head = JobHead {
            id: RunId::parse(&job.id).map_err(wrong)?,
            tenant: self.tenant.clone(),
            pool: FleetName::parse(&job.pool).map_err(wrong)?,
            class,
            batch: batch.cloned(),
            dedup: Some(job.dedup.clone()),
            concurrency_key: job.concurrency_key.clone(),
            labels: job.labels.clone(),
            needs: job.needs.clone(),
        };
        let body = json!({
            "v": 1, "haft": env!("CARGO_PKG_VERSION"), "job": body, "batch_usd": plan.budget.usd,
        });
        Ok(NewJob { head, not_before: None, body })
    }

    /// Resolves a run id, a unique id prefix, or a batch name.
    pub async fn find(&self, name: &str) -> Result<SubmitTarget, JobFailure> {
        let of_batch = FleetName::parse(name).ok();
        if let Some(batch) = of_batch {
            let filter = JobFilter { batch: Some(batch.clone()), ..self.filter() };
            if 0 < self.store.queue.counts(filter).await?.all() {
                return Ok(SubmitTarget::Batch(batch));
            }
        }
        let filter = JobFilter { id_prefix: Some(name.to_owned()), ..self.filter() };
        let page = self.store.queue.jobs(filter, PageOfJobs { after: None, most: 2 }).await?;
        let mut jobs = page.jobs.into_iter();
        match (jobs.next(), jobs.next()) {
            (Some(job), None) => Ok(SubmitTarget::Run(Box::new(job))),
            (Some(first), Some(_)) if first.head.id.as_str() == name => {
                Ok(SubmitTarget::Run(Box::new(first)))
            }
            (Some(_), Some(_)) => {
                Err(JobFailure(format!("several jobs begin with {name}; write more of the id")))
            }
            (None, _) => {
                Err(JobFailure(format!("there is no job or batch {name}; `haft fleet status` shows them")))
            }
        }
    }

    /// Resolves a name that must refer to a single job.
    pub async fn run(&self, name: &str) -> Result<JobRecord, JobFailure> {
        match self.find(name).await? {
            SubmitTarget::Run(record) => Ok(*record),
            SubmitTarget::Batch(batch) => {
                Err(JobFailure(format!("{batch} is a batch; `haft fleet status {batch}` shows its jobs")))
            }
        }
    }

    /// Returns a filter for all jobs of this tenant.
    pub fn filter(&self) -> JobFilter {
        JobFilter { tenant: Some(self.tenant.clone()), ..JobFilter::default() }
    }

    /// Returns a filter for the jobs of a target.
    pub fn filter_of(&self, target: &SubmitTarget) -> JobFilter {
        match target {
            SubmitTarget::Run(record) => {
                JobFilter { ids: Some(vec![record.head.id.clone()]), ..self.filter() }
            }
            SubmitTarget::Batch(batch) => JobFilter { batch: Some(batch.clone()), ..self.filter() },
        }
    }

    /// Returns all matching jobs.
    pub async fn jobs(&self, filter: &JobFilter) -> Result<Vec<JobRecord>, JobFailure> {
        let (mut all, mut page) = (Vec::new(), PageOfJobs::default());
        loop {
            let found = self.store.queue.jobs(filter.clone(), page.clone()).await?;
            let last = found.jobs.last().map(|it| it.head.id.clone());
            all.extend(found.jobs);
            match (found.more, last) {
                (true, Some(last)) => page.after = Some(last),
                _ => return Ok(all),
            }
        }
    }

    /// Waits until all matching jobs have ended; calls `tell` on changes.
    pub async fn wait(
        &self,
        filter: &JobFilter,
        mut tell: impl FnMut(&JobCounts),
    ) -> Result<WaitedCounts, JobFailure> {
        let mut seen = Revision::default();
        loop {
            let counts = self.store.queue.counts(filter.clone()).await?;
            tell(&counts);
            let open: u64 =
                JobState::ALL.iter().filter(|it| !it.is_ended()).map(|state| counts.of(*state)).sum();
            if open == 0 {
                return Ok(WaitedCounts { counts });
            }
            seen = self.store.queue.changed(seen, Duration::from_secs(5)).await?;
        }
    }

    /// Whether the jobs of a stage allow the next one to start.
    pub async fn verdict(&self, ids: &[RunId]) -> Result<StageVerdict, JobFailure> {
        let filter = JobFilter { ids: Some(ids.to_vec()), ..self.filter() };
        self.wait(&filter, |_| ()).await?;
        let jobs = self.jobs(&filter).await?;
        let bad: Vec<RunId> =
            jobs.into_iter().filter(|it| it.state != JobState::Done).map(|it| it.head.id).collect();
        Ok(if bad.is_empty() { StageVerdict::GoOn } else { StageVerdict::Stop(bad) })
    }

    /// Streams the lines of a run from a number on. With `follows`, includes future ones until the run
    /// has ended.
    pub async fn lines(
        &self,
        run: &RunId,
        from: u64,
        follows: bool,
    ) -> Result<impl Stream<Item = Result<FollowedLine, JobFailure>> + Send + Unpin + use<>, JobFailure> {
        let (desk, run) = (self.clone(), run.clone());
        let (sender, receiver) = tokio::sync::mpsc::channel(256);
        tokio::spawn(async move {
            let ended = desk.send_lines(&run, from, follows, &sender).await;
            if let Err(err) = ended {
                sender.send(Err(err)).await.ok();
            }
        });
        Ok(Box::pin(futures_util::stream::unfold(receiver, async |mut receiver| {
            let line = receiver.recv().await?;
            Some((line, receiver))
        })))
    }

    async fn send_lines(
        &self,
        run: &RunId,
        from: u64,
        follows: bool,
        sender: &tokio::sync::mpsc::Sender<Result<FollowedLine, JobFailure>>,
    ) -> Result<(), JobFailure> {
        let mut next = from;
        let mut lines = self.store.log.follow(run.clone(), from);
        loop {
            let has_ended = !follows || self.has_ended(run).await?;
            let end = if has_ended { Some(self.store.log.end(run.clone()).await?.lines) } else { None };
            if end.is_some_and(|end| end <= next) {
                return Ok(());
            }
            // A run may end without another line.
            let patience = tokio::time::sleep(Duration::from_secs(1));
            tokio::select! {
                line = lines.next() => match line {
                    Some(Ok(line)) => {
                        next = line.number + 1;
                        let line = FollowedLine { number: line.number, text: line.text };
                        if sender.send(Ok(line)).await.is_err() {
                            return Ok(());
                        }
                        while end.is_some_and(|end| next < end) {
                            let Some(line) = lines.next().await else { break };
                            let line = line?;
                            next = line.number + 1;
                            let line = FollowedLine { number: line.number, text: line.text };
                            if sender.send(Ok(line)).await.is_err() {
                                return Ok(());
                            }
                        }
                    }
                    // Resume an interrupted stream.
                    Some(Err(err)) if err.is_passing() => {
                        tokio::time::sleep(Duration::from_millis(300)).await;
                        lines = self.store.log.follow(run.clone(), next);
                    }
                    Some(Err(err)) => return Err(err.into()),
                    None => lines = self.store.log.follow(run.clone(), next),
                },
                () = patience => (),
            }
        }
    }

    async fn has_ended(&self, run: &RunId) -> Result<bool, JobFailure> {
        let filter = JobFilter { ids: Some(vec![run.clone()]), ..self.filter() };
        let page = self.store.queue.jobs(filter, PageOfJobs { after: None, most: 1 }).await?;
        Ok(page.jobs.first().is_none_or(|it| it.state.is_ended()))
    }

    /// Sends a message to a run. The agent gets it with its next request, exactly once.
    pub async fn say(&self, run: &RunId, text: &str) -> Result<(), JobFailure> {
        if self.has_ended(run).await? {
            return Err(JobFailure(format!("{run} has ended; `haft fleet retry` goes on with it")));
        }
        let id = uuid::Uuid::new_v4().to_string();
        let entry = NewControl { id, body: json!({"kind": "say", "text": text}) };
        self.store.log.control(run.clone(), entry).await?;
        Ok(())
    }

    /// Sends a message to a run: as the answer if it waits for one, oldest question first. Returns
    /// whether it was an answer. If several clients answer a question, the first answer counts.
    pub async fn send_or_answer(&self, run: &RunId, text: &str) -> Result<bool, JobFailure> {
        let filter = JobFilter { ids: Some(vec![run.clone()]), ..self.filter() };
        let page = self.store.queue.jobs(filter, PageOfJobs { after: None, most: 1 }).await?;
        let record = page.jobs.first().filter(|it| it.state == JobState::Waiting);
        let questions = record.map(|it| it.summary["questions"].clone()).unwrap_or_default();
        let answered: HashSet<String> =
            self.store.log.controls(run.clone(), 0).await?.into_iter().map(|it| it.id).collect();
        let calls = questions.as_array().into_iter().flatten().filter_map(|it| it["call"].as_str());
        let open = calls.map(|call| (call, format!("answer/{call}"))).find(|it| !answered.contains(&it.1));
        let Some((call, id)) = open else {
            self.say(run, text).await?;
            return Ok(false);
        };
        let entry = NewControl { id, body: json!({"kind": "answer", "call": call, "text": text}) };
        self.store.log.control(run.clone(), entry).await?;
        Ok(true)
    }

    /// Cancels jobs; returns what happened to each, for display.
    pub async fn cancel(&self, filter: &JobFilter) -> Result<Vec<(RunId, String)>, JobFailure> {
        let mut told = Vec::new();
        for job in self.jobs(filter).await? {
            let id = job.head.id;
            let what = match self.store.queue.cancel(id.clone(), String::from("cancelled")).await? {
                CancelledJob::AtOnce => String::from("cancelled"),
                CancelledJob::Asked => String::from("its worker was told"),
                CancelledJob::Already(state) => format!("was {} already", state.as_str()),
            };
            told.push((id, what));
        }
        Ok(told)
    }

    /// Returns ended jobs to the queue, either resumed or (`fresh`) from the start. Returns their ids.
    pub async fn retry(&self, filter: &JobFilter, fresh: bool) -> Result<Vec<RunId>, JobFailure> {
        let how = if fresh { Requeue::Fresh } else { Requeue::Resume };
        let mut again = Vec::new();
        for job in self.jobs(filter).await?.into_iter().filter(|it| it.state.is_ended()) {
            self.store.queue.requeue(job.head.id.clone(), how).await?;
            again.push(job.head.id);
        }
        Ok(again)
    }

    /// Pauses or resumes a batch, including jobs added to it later. Returns the number of its queued
    /// jobs.
    pub async fn pause_batch(&self, batch: &FleetName, pauses: bool) -> Result<u64, JobFailure> {
        let scope = PauseScope::Batch(self.tenant.clone(), batch.clone());
        let filter =
            JobFilter { batch: Some(batch.clone()), states: vec![JobState::Queued], ..self.filter() };
        let waited = self.store.queue.counts(filter.clone()).await?.all();
        self.pause_scope(scope, pauses).await?;
        if pauses { Ok(self.store.queue.counts(filter).await?.all()) } else { Ok(waited) }
    }

    /// Pauses or resumes single jobs that have not ended. Returns each with its current state (`true` =
    /// paused).
    pub async fn pause_jobs(
        &self,
        filter: &JobFilter,
        pauses: bool,
    ) -> Result<Vec<(RunId, bool)>, JobFailure> {
        let mut ids = Vec::new();
        for job in self.jobs(filter).await?.into_iter().filter(|it| !it.state.is_ended()) {
            self.pause_scope(PauseScope::Run(job.head.id.clone()), pauses).await?;
            ids.push(job.head.id);
        }
        let filter = JobFilter { ids: Some(ids), ..self.filter() };
        Ok(self.jobs(&filter).await?.into_iter().map(|it| (it.head.id, it.paused)).collect())
    }

    async fn pause_scope(&self, scope: PauseScope, pauses: bool) -> Result<(), StoreError> {
        if pauses { self.store.queue.pause(scope).await } else { self.store.queue.resume(scope).await }
    }

    /// Returns a blob of this tenant.
    pub async fn blob(&self, hash: BlobHash) -> Result<bytes::Bytes, JobFailure> {
        Ok(self.store.blobs.get(self.tenant.clone(), hash).await?)
    }

    /// Sums the cost of jobs, grouped by labels or by `model`, `state`, `batch`. Returns key, US dollars
    /// and number of jobs. Grouped by model, a job counts once per model.
    pub fn costs(jobs: &[JobRecord], by: &[String]) -> Vec<(Vec<String>, f64, u64)> {
        let mut sums: BTreeMap<Vec<String>, (f64, u64)> = BTreeMap::new();
        for job in jobs {
            let models = job.summary["result"]["modelUsage"].as_object();
            let parts: Vec<(Option<&str>, f64)> = match models
                .filter(|it| by.iter().any(|by| by == "model") && !it.is_empty())
            {
                Some(models) => models
                    .iter()
                    .map(|(name, used)| (Some(name.as_str()), used["costUSD"].as_f64().unwrap_or_default()))
                    .collect(),
                None => vec![(None, job.summary["usd"].as_f64().unwrap_or_default())],
            };
            for (model, usd) in parts {
                let key = by.iter().map(|by| match by.as_str() {
                    "model" => model.unwrap_or("-").to_owned(),
                    "state" => job.state.as_str().to_owned(),
                    "batch" => job.head.batch.as_ref().map_or("-", FleetName::as_str).to_owned(),
                    label => job.head.labels.get(label).cloned().unwrap_or_else(|| String::from("-")),
                });
                let sum = sums.entry(key.collect()).or_default();
                sum.0 += usd;
                sum.1 += 1;
            }
        }
        sums.into_iter().map(|(key, (usd, jobs))| (key, usd, jobs)).collect()
    }
}
