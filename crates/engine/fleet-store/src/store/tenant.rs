//! A store restricted to one tenant.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::Value;

use super::job_queue::unknown_job;
use crate::{
    BlobHash, BlobStore, BucketDraw, CancelledJob, ClaimJobs, ControlEntry, CounterLimit, FiredSlot,
    FleetName, FleetStore, JobCounts, JobFilter, JobPage, JobQueue, JobState, Lease, LeaseKey, LeaseRenewal,
    LimitScope, LogEnd, LogLine, LogStore, NewControl, NewJob, NewSchedule, PageOfJobs, PauseScope, Requeue,
    ReserveOutcome, Revision, RunId, ScheduleRecord, ScheduleStore, ScopeLimits, StoreError, StoreFuture,
    StoreStream, Submitted, TokenBucket, WorkerRecord,
};

/// Returns a store in which only one tenant exists.
pub(crate) fn scoped(store: &FleetStore, tenant: FleetName) -> FleetStore {
    let view = Arc::new(TenantView { store: store.clone(), tenant });
    FleetStore {
        queue: view.clone(),
        log: view.clone(),
        blobs: view.clone(),
        clockwork: view,
        engine: store.engine.clone(),
    }
}

struct TenantView {
    store: FleetStore,
    tenant: FleetName,
}

fn not_for_tenants<'a, T: Send + 'a>(what: &str) -> StoreFuture<'a, T> {
    let refusal = StoreError::Refused(format!("{what} is for those who run the fleet"));
    Box::pin(async move { Err(refusal) })
}

impl TenantView {
    /// Checks that a run belongs to the tenant; another tenant's run gives the same error as one that
    /// does not exist.
    async fn own_run(&self, run: &RunId) -> Result<(), StoreError> {
        let filter = JobFilter {
            ids: Some(vec![run.clone()]),
            tenant: Some(self.tenant.clone()),
            ..JobFilter::default()
        };
        match self.store.queue.counts(filter).await?.all() {
            0 => Err(unknown_job(run)),
            _ => Ok(()),
        }
    }

    fn own_tenant(&self, tenant: &FleetName) -> Result<(), StoreError> {
        if *tenant == self.tenant {
            Ok(())
        } else {
            Err(StoreError::Refused(format!("this is the store of tenant {}", self.tenant)))
        }
    }

    /// Restricts a filter to the tenant; `None` if it asks for another one.
    fn own_filter(&self, mut filter: JobFilter) -> Option<JobFilter> {
        let is_other = filter.tenant.as_ref().is_some_and(|it| *it != self.tenant);
        filter.tenant = Some(self.tenant.clone());
        (!is_other).then_some(filter)
    }

    fn own_keys<'a>(&self, mut keys: impl Iterator<Item = &'a String>) -> Result<(), StoreError> {
        let prefix = format!("tenant/{}/", self.tenant);
        match keys.find(|key| !key.starts_with(&prefix)) {
            Some(_) => Err(StoreError::Refused(format!("counters of this store begin with {prefix}"))),
            None => Ok(()),
        }
    }

    async fn own_scope(&self, scope: &PauseScope) -> Result<(), StoreError> {
        match scope {
            PauseScope::Run(run) => self.own_run(run).await,
            PauseScope::Batch(tenant, _) => self.own_tenant(tenant),
        }
    }

    /// Opens a stream of a run after checking that it belongs to the tenant.
    fn own_stream<T: Send + 'static>(
        &self,
        run: RunId,
        open: impl FnOnce(&FleetStore, RunId) -> StoreStream<T> + Send + 'static,
    ) -> StoreStream<T> {
        let view = Self { store: self.store.clone(), tenant: self.tenant.clone() };
        let opened = async move {
            match view.own_run(&run).await {
                Ok(()) => open(&view.store, run),
                Err(err) => stream::once(async move { Err(err) }).boxed(),
            }
        };
        stream::once(opened).flatten().boxed()
    }
}

impl JobQueue for TenantView {
    fn submit(&self, jobs: Vec<NewJob>) -> StoreFuture<'_, Vec<Submitted>> {
        Box::pin(async move {
            jobs.iter().try_for_each(|job| self.own_tenant(&job.head.tenant))?;
            self.store.queue.submit(jobs).await
        })
    }

    fn take(&self, _room: ClaimJobs) -> StoreFuture<'_, Vec<Lease>> {
        not_for_tenants("taking jobs")
    }

    fn renew(
        &self,
        _worker: FleetName,
        _keys: Vec<LeaseKey>,
        _lease: Duration,
    ) -> StoreFuture<'_, Vec<LeaseRenewal>> {
        not_for_tenants("renewing leases")
    }

    fn report(&self, _key: LeaseKey, _state: JobState, _summary: Value) -> StoreFuture<'_, ()> {
        not_for_tenants("reporting")
    }

    fn release(&self, _key: LeaseKey, _delay: Duration, _reason: String) -> StoreFuture<'_, ()> {
        not_for_tenants("releasing jobs")
    }

    fn end(&self, _: LeaseKey, _: JobState, _: Option<String>, _: Value) -> StoreFuture<'_, ()> {
        not_for_tenants("ending jobs")
    }

    fn park(&self, _key: LeaseKey, _reason: String, _summary: Value) -> StoreFuture<'_, ()> {
        not_for_tenants("parking jobs")
    }

    fn leave(&self, _worker: FleetName) -> StoreFuture<'_, ()> {
        not_for_tenants("leaving")
    }

    fn cancel(&self, run: RunId, reason: String) -> StoreFuture<'_, CancelledJob> {
        Box::pin(async move {
            self.own_run(&run).await?;
            self.store.queue.cancel(run, reason).await
        })
    }

    fn requeue(&self, run: RunId, how: Requeue) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.own_run(&run).await?;
            self.store.queue.requeue(run, how).await
        })
    }

    fn pause(&self, scope: PauseScope) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.own_scope(&scope).await?;
            self.store.queue.pause(scope).await
        })
    }

    fn resume(&self, scope: PauseScope) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.own_scope(&scope).await?;
            self.store.queue.resume(scope).await
        })
    }

    fn set_limits(&self, scope: LimitScope, limits: ScopeLimits) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            match &scope {
                LimitScope::Batch(tenant, _) => self.own_tenant(tenant)?,
                _ => return not_for_tenants("setting limits of tenants and pools").await,
            }
            self.store.queue.set_limits(scope, limits).await
        })
    }

    fn limits(&self) -> StoreFuture<'_, Vec<(LimitScope, ScopeLimits)>> {
        Box::pin(async move {
            let mut limits = self.store.queue.limits().await?;
            limits.retain(|(scope, _)| match scope {
                LimitScope::Tenant(tenant) | LimitScope::Batch(tenant, _) => *tenant == self.tenant,
                LimitScope::Pool(_) => false,
            });
            Ok(limits)
        })
    }

    fn jobs(&self, filter: JobFilter, page: PageOfJobs) -> StoreFuture<'_, JobPage> {
        Box::pin(async move {
            let Some(filter) = self.own_filter(filter) else { return Ok(JobPage::default()) };
            if let Some(after) = &page.after {
                self.own_run(after).await?;
            }
            self.store.queue.jobs(filter, page).await
        })
    }

    fn counts(&self, filter: JobFilter) -> StoreFuture<'_, JobCounts> {
        Box::pin(async move {
            match self.own_filter(filter) {
                Some(filter) => self.store.queue.counts(filter).await,
                None => Ok(JobCounts::default()),
            }
        })
    }

    fn body(&self, run: RunId) -> StoreFuture<'_, Value> {
        Box::pin(async move {
            self.own_run(&run).await?;
            self.store.queue.body(run).await
        })
    }

    fn workers(&self) -> StoreFuture<'_, Vec<WorkerRecord>> {
        not_for_tenants("the list of workers")
    }

    fn changed(&self, since: Revision, wait: Duration) -> StoreFuture<'_, Revision> {
        self.store.queue.changed(since, wait)
    }

    fn forget(&self, _ended_before: Timestamp) -> StoreFuture<'_, u64> {
        not_for_tenants("forgetting jobs")
    }
}

impl LogStore for TenantView {
    fn append(&self, _key: LeaseKey, _lines: Vec<String>) -> StoreFuture<'_, u64> {
        not_for_tenants("writing logs")
    }

    fn read(&self, run: RunId, from: u64, most: usize) -> StoreFuture<'_, Vec<LogLine>> {
        Box::pin(async move {
            self.own_run(&run).await?;
            self.store.log.read(run, from, most).await
        })
    }

    fn end(&self, run: RunId) -> StoreFuture<'_, LogEnd> {
        Box::pin(async move {
            self.own_run(&run).await?;
            self.store.log.end(run).await
        })
    }

    fn follow(&self, run: RunId, from: u64) -> StoreStream<LogLine> {
        self.own_stream(run, move |store, run| store.log.follow(run, from))
    }

    fn control(&self, run: RunId, entry: NewControl) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            self.own_run(&run).await?;
            self.store.log.control(run, entry).await
        })
    }

    fn controls(&self, run: RunId, from: u64) -> StoreFuture<'_, Vec<ControlEntry>> {
        Box::pin(async move {
            self.own_run(&run).await?;
            self.store.log.controls(run, from).await
        })
    }

    fn follow_controls(&self, run: RunId, from: u64) -> StoreStream<ControlEntry> {
        self.own_stream(run, move |store, run| store.log.follow_controls(run, from))
    }

    fn live(&self, _run: RunId, _text: String) -> StoreFuture<'_, ()> {
        not_for_tenants("live text")
    }

    fn follow_live(&self, run: RunId) -> StoreStream<String> {
        self.own_stream(run, |store, run| store.log.follow_live(run))
    }

    fn import(&self, _run: RunId, _lines: Vec<String>) -> StoreFuture<'_, u64> {
        not_for_tenants("importing logs")
    }
}

impl BlobStore for TenantView {
    fn put(&self, tenant: FleetName, bytes: Bytes, by: Option<LeaseKey>) -> StoreFuture<'_, BlobHash> {
        Box::pin(async move {
            self.own_tenant(&tenant)?;
            self.store.blobs.put(tenant, bytes, by).await
        })
    }

    fn get(&self, tenant: FleetName, hash: BlobHash) -> StoreFuture<'_, Bytes> {
        Box::pin(async move {
            self.own_tenant(&tenant)?;
            self.store.blobs.get(tenant, hash).await
        })
    }

    fn has(&self, tenant: FleetName, hashes: Vec<BlobHash>) -> StoreFuture<'_, Vec<bool>> {
        Box::pin(async move {
            self.own_tenant(&tenant)?;
            self.store.blobs.has(tenant, hashes).await
        })
    }
}

impl ScheduleStore for TenantView {
    fn schedule(&self, schedule: NewSchedule) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.own_tenant(&schedule.head.tenant)?;
            self.store.clockwork.schedule(schedule).await
        })
    }

    fn unschedule(&self, tenant: FleetName, name: FleetName) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            self.own_tenant(&tenant)?;
            self.store.clockwork.unschedule(tenant, name).await
        })
    }

    fn schedules(&self) -> StoreFuture<'_, Vec<ScheduleRecord>> {
        Box::pin(async move {
            let mut all = self.store.clockwork.schedules().await?;
            all.retain(|it| it.schedule.head.tenant == self.tenant);
            Ok(all)
        })
    }

    fn tick(&self) -> StoreFuture<'_, Vec<FiredSlot>> {
        not_for_tenants("the clock")
    }

    fn count(&self, key: String, add: i64, by: Option<LeaseKey>) -> StoreFuture<'_, i64> {
        Box::pin(async move {
            self.own_keys([&key].into_iter())?;
            self.store.clockwork.count(key, add, by).await
        })
    }

    fn counters(&self, prefix: String) -> StoreFuture<'_, Vec<(String, i64)>> {
        Box::pin(async move {
            self.own_keys([&prefix].into_iter())?;
            self.store.clockwork.counters(prefix).await
        })
    }

    fn reserve(
        &self,
        amount: i64,
        of: Vec<CounterLimit>,
        by: Option<LeaseKey>,
    ) -> StoreFuture<'_, ReserveOutcome> {
        Box::pin(async move {
            self.own_keys(of.iter().map(|it| &it.key))?;
            self.store.clockwork.reserve(amount, of, by).await
        })
    }

    fn draw(&self, _key: String, _want: u64, _bucket: TokenBucket) -> StoreFuture<'_, BucketDraw> {
        not_for_tenants("drawing from buckets")
    }

    fn settle(&self, _key: String, _amount: i64) -> StoreFuture<'_, ()> {
        not_for_tenants("settling buckets")
    }

    fn freeze(&self, _key: String, _time: Duration) -> StoreFuture<'_, ()> {
        not_for_tenants("freezing buckets")
    }

    fn frozen(&self, _key: String) -> StoreFuture<'_, Option<Duration>> {
        not_for_tenants("looking at buckets")
    }
}
