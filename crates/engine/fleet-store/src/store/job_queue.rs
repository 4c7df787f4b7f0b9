//! The job queue on top of the ledger.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{StoreCore, unexpected};
use crate::{
    CancelledJob, ClaimJobs, FleetName, JobCounts, JobFilter, JobPage, JobQueue, JobState, Lease, LeaseKey,
    LeaseRenewal, LimitScope, NewControl, NewJob, PageOfJobs, PauseScope, Requeue, Revision, RunId,
    ScopeLimits, StoreError, StoreFuture, Submitted, WorkerRecord,
    engine::stale,
    ledger::{LedgerCommand, LedgerOutcome, StoredValue, SubmitJob},
};

/// Number of jobs in a call above which all bodies are stored as blobs.
const FEW_JOBS: usize = 8;

/// Maximum bytes of a job's text fields.
const WORDS: usize = 512;

/// Maximum bytes of all labels of a job together.
const LABELS: usize = 8_192;

/// Returns the id of the control entry that asks the owner with this epoch to end a run; a later owner
/// ignores it.
pub fn cancel_control(epoch: u64) -> String {
    format!("cancel-{epoch}")
}

pub(super) fn unknown_job(run: &RunId) -> StoreError {
    StoreError::Unknown { what: "job", name: run.to_string() }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Validates the sizes of a job's fields.
fn check(job: &NewJob) -> Result<(), StoreError> {
    let head = &job.head;
    let words = [head.dedup.as_ref(), head.concurrency_key.as_ref()];
    if words.into_iter().flatten().any(|it| it.len() > WORDS) {
        return Err(StoreError::Refused(format!(
            "job {}: dedup and concurrency_key have at most {WORDS} bytes",
            head.id
        )));
    }
    let labels: usize = head.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    if labels > LABELS {
        return Err(StoreError::Refused(format!("job {}: labels have at most {LABELS} bytes", head.id)));
    }
    Ok(())
}

impl StoreCore {
    /// Stores the bodies of jobs; returns the jobs in the same order.
    async fn stored_jobs(&self, jobs: Vec<NewJob>) -> Result<Vec<SubmitJob>, StoreError> {
        let inline = if jobs.len() > FEW_JOBS { 64 } else { super::packed_values::INLINE };
        let mut by_tenant: BTreeMap<FleetName, Vec<(usize, Value)>> = BTreeMap::new();
        let mut stored = Vec::with_capacity(jobs.len());
        for (index, job) in jobs.into_iter().enumerate() {
            by_tenant.entry(job.head.tenant.clone()).or_default().push((index, job.body));
            let not_before = job.not_before.map(Timestamp::as_millisecond);
            stored.push(SubmitJob { head: job.head, body: StoredValue::default(), not_before });
        }
        for (tenant, bodies) in by_tenant {
            let (indexes, bodies): (Vec<usize>, Vec<Value>) = bodies.into_iter().unzip();
            let bodies = self.values.store_all(&tenant, bodies, inline).await?;
            indexes.into_iter().zip(bodies).for_each(|(index, body)| stored[index].body = body);
        }
        Ok(stored)
    }

    /// Returns the tenant of a leased job; `Stale` if there is none.
    async fn tenant_of_lease(&self, key: &LeaseKey) -> Result<FleetName, StoreError> {
        let find =
            |mirror: &super::Mirror| mirror.read(|it| it.job(&key.run).map(|job| job.head.tenant.clone()));
        if let Some(tenant) = find(&self.mirror) {
            return Ok(tenant);
        }
        find(self.up_to_date().await?).ok_or_else(|| stale(key))
    }

    async fn finish(
        &self,
        key: LeaseKey,
        state: JobState,
        reason: Option<String>,
        summary: Value,
    ) -> Result<(), StoreError> {
        let tenant = self.tenant_of_lease(&key).await?;
        let summary = self.values.store(&tenant, summary).await?;
        self.fenced(&key.clone(), LedgerCommand::End { key, state, reason, summary }).await?;
        Ok(())
    }

    async fn named(&self, run: &RunId, command: LedgerCommand) -> Result<LedgerOutcome, StoreError> {
        match self.ask(command).await? {
            LedgerOutcome::Unknown => Err(unknown_job(run)),
            LedgerOutcome::Refused(reason) => Err(StoreError::Refused(reason)),
            outcome => Ok(outcome),
        }
    }

    async fn scope_order(&self, scope: PauseScope, is_paused: bool) -> Result<(), StoreError> {
        let run = if let PauseScope::Run(run) = &scope { Some(run.clone()) } else { None };
        let command =
            if is_paused { LedgerCommand::Pause { scope } } else { LedgerCommand::Resume { scope } };
        match run {
            Some(run) => self.named(&run, command).await.map(drop),
            None => self.order(command).await,
        }
    }
}

/// [`JobQueue`] on a ledger.
pub(crate) struct LedgerQueue(pub(crate) Arc<StoreCore>);

impl JobQueue for LedgerQueue {
    fn submit(&self, jobs: Vec<NewJob>) -> StoreFuture<'_, Vec<Submitted>> {
        Box::pin(async move {
            jobs.iter().try_for_each(check)?;
            if jobs.is_empty() {
                return Ok(Vec::new());
            }
            let jobs = self.0.stored_jobs(jobs).await?;
            match self.0.ask(LedgerCommand::Submit { jobs }).await? {
                LedgerOutcome::Submitted(answers) => Ok(answers),
                LedgerOutcome::Refused(reason) => Err(StoreError::Refused(reason)),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn take(&self, room: ClaimJobs) -> StoreFuture<'_, Vec<Lease>> {
        Box::pin(super::claim_jobs::take(&self.0, room))
    }

    fn renew(
        &self,
        worker: FleetName,
        keys: Vec<LeaseKey>,
        lease: Duration,
    ) -> StoreFuture<'_, Vec<LeaseRenewal>> {
        Box::pin(async move {
            self.0.become_undertaker();
            match self.0.ask(LedgerCommand::Renew { worker, keys, lease_ms: ms(lease) }).await? {
                LedgerOutcome::Renewed(answers) => Ok(answers),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn report(&self, key: LeaseKey, state: JobState, summary: Value) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let tenant = self.0.tenant_of_lease(&key).await?;
            let summary = self.0.values.store(&tenant, summary).await?;
            self.0.fenced(&key.clone(), LedgerCommand::Report { key, state, summary }).await.map(drop)
        })
    }

    fn release(&self, key: LeaseKey, delay: Duration, reason: String) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let delay_ms = ms(delay);
            self.0.fenced(&key.clone(), LedgerCommand::Release { key, delay_ms, reason }).await.map(drop)
        })
    }

    fn end(
        &self,
        key: LeaseKey,
        state: JobState,
        reason: Option<String>,
        summary: Value,
    ) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if state == JobState::Parked {
                return Err(StoreError::Refused(String::from("a job is parked by park, with a reason")));
            }
            self.0.finish(key, state, reason, summary).await
        })
    }

    fn park(&self, key: LeaseKey, reason: String, summary: Value) -> StoreFuture<'_, ()> {
        Box::pin(self.0.finish(key, JobState::Parked, Some(reason), summary))
    }

    fn leave(&self, worker: FleetName) -> StoreFuture<'_, ()> {
        Box::pin(self.0.order(LedgerCommand::Leave { worker }))
    }

    fn cancel(&self, run: RunId, reason: String) -> StoreFuture<'_, CancelledJob> {
        Box::pin(async move {
            let outcome = self
                .0
                .named(&run, LedgerCommand::Cancel { run: run.clone(), reason: reason.clone() })
                .await?;
            let LedgerOutcome::Cancelled(cancelled) = outcome else { return Err(unexpected(&outcome)) };
            if cancelled == CancelledJob::Asked {
                let body = json!({ "type": "cancel", "reason": reason });
                let epoch = self.0.mirror.read(|it| it.job(&run).map(|job| job.epoch)).unwrap_or_default();
                self.0.engine.control(run, NewControl { id: cancel_control(epoch), body }).await?;
            }
            Ok(cancelled)
        })
    }

    fn requeue(&self, run: RunId, how: Requeue) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let log_begin = match how {
                Requeue::Resume => None,
                Requeue::Fresh => Some(self.0.engine.end(run.clone()).await?.lines),
            };
            self.0.named(&run.clone(), LedgerCommand::Requeue { run, log_begin }).await.map(drop)
        })
    }

    fn pause(&self, scope: PauseScope) -> StoreFuture<'_, ()> {
        Box::pin(self.0.scope_order(scope, true))
    }

    fn resume(&self, scope: PauseScope) -> StoreFuture<'_, ()> {
        Box::pin(self.0.scope_order(scope, false))
    }

    fn set_limits(&self, scope: LimitScope, limits: ScopeLimits) -> StoreFuture<'_, ()> {
        Box::pin(self.0.order(LedgerCommand::SetLimits { scope, limits }))
    }

    fn limits(&self) -> StoreFuture<'_, Vec<(LimitScope, ScopeLimits)>> {
        Box::pin(async move { Ok(self.0.up_to_date().await?.read(|it| it.all_limits())) })
    }

    fn jobs(&self, filter: JobFilter, page: PageOfJobs) -> StoreFuture<'_, JobPage> {
        Box::pin(async move {
            let (found, more) = self.0.up_to_date().await?.read(|it| it.page(&filter, &page));
            let jobs = found.into_iter().map(|(mut record, summary)| async move {
                record.summary = self.0.values.load(&record.head.tenant, summary).await?;
                Ok::<_, StoreError>(record)
            });
            Ok(JobPage { jobs: try_join_all(jobs).await?, more })
        })
    }

    fn counts(&self, filter: JobFilter) -> StoreFuture<'_, JobCounts> {
        Box::pin(async move {
            let mirror = self.0.up_to_date().await?;
            let now = mirror.engine_now();
            Ok(mirror.read(|it| it.counts(&filter, now)))
        })
    }

    fn body(&self, run: RunId) -> StoreFuture<'_, Value> {
        Box::pin(async move {
            let mirror = self.0.up_to_date().await?;
            let found = mirror.read(|it| it.job(&run).map(|job| (job.head.tenant.clone(), job.body.clone())));
            let (tenant, body) = found.ok_or_else(|| unknown_job(&run))?;
            self.0.values.load(&tenant, body).await
        })
    }

    fn workers(&self) -> StoreFuture<'_, Vec<WorkerRecord>> {
        Box::pin(async move { Ok(self.0.up_to_date().await?.read(|it| it.workers())) })
    }

    fn changed(&self, since: Revision, wait: Duration) -> StoreFuture<'_, Revision> {
        Box::pin(async move {
            let mirror = self.0.up_to_date().await?;
            let _ = timeout(wait, mirror.reached(since.0 + 1)).await;
            Ok(Revision(mirror.number()))
        })
    }

    fn forget(&self, ended_before: Timestamp) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            match self.0.ask(LedgerCommand::Forget { before: ended_before.as_millisecond() }).await? {
                LedgerOutcome::Forgotten(runs) => {
                    let number = runs.len() as u64;
                    self.0.engine.remove(runs).await?;
                    Ok(number)
                }
                other => Err(unexpected(&other)),
            }
        })
    }
}
