//! Read-only queries of a ledger.

use std::collections::BTreeMap;

use super::{JobLedger, LedgerJob, PLACE_BITS, StoredSchedule, StoredValue, schedule_state::moment};
use crate::{
    FleetName, JobCounts, JobFilter, JobRecord, JobState, LimitScope, PageOfJobs, ResourceRequest, RunId,
    ScopeLimits, WorkerRecord,
};

/// Whether a worker of a pool would get a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolReadiness {
    /// Yes.
    Now,
    /// At this time of the engine's clock, if nothing else changes.
    At(i64),
    /// Not before something changes.
    Nothing,
}

impl JobLedger {
    /// Returns whether a worker with this machine would get a job at a time.
    pub(crate) fn readiness(
        &self,
        worker: &FleetName,
        pool: &FleetName,
        machine: ResourceRequest,
        now: i64,
    ) -> PoolReadiness {
        let left = if self.does_know_worker(worker) { self.machine_left(worker) } else { machine };
        if self.best(pool, left).is_some() {
            return PoolReadiness::Now;
        }
        // A delayed job may have become due since the last command.
        let due = self.delayed.iter().find(|(_, order)| {
            self.jobs.get(order).is_some_and(|it| it.head.pool == *pool && it.head.needs.machine.fits(left))
        });
        let paced = self.pace_of(pool);
        match due.map(|it| it.0).into_iter().chain(paced).min() {
            Some(at) if at <= now => PoolReadiness::Now,
            Some(at) => PoolReadiness::At(at),
            None => PoolReadiness::Nothing,
        }
    }

    /// Returns when the next rate-limited scope may start a job.
    fn pace_of(&self, pool: &FleetName) -> Option<i64> {
        let paced = self.limits.all().into_iter().filter(|(_, limits)| limits.starts_per_1000s.is_some());
        let paced = paced.filter(|(scope, _)| match scope {
            LimitScope::Pool(it) => it == pool,
            LimitScope::Tenant(_) | LimitScope::Batch(..) => true,
        });
        paced.filter_map(|(scope, _)| self.limits.free_at(&scope, self.now)).filter(|at| *at > self.now).min()
    }

    pub(crate) fn job_number(&self) -> u64 {
        self.jobs.len() as u64
    }

    /// Returns the number of the last applied entry.
    pub(crate) fn entry_number(&self) -> u64 {
        self.position >> PLACE_BITS
    }

    pub(crate) fn job(&self, run: &RunId) -> Option<&LedgerJob> {
        self.jobs.get(self.order_of.get(run)?)
    }

    /// Returns a page of jobs in order of submission with their summaries (possibly stored elsewhere),
    /// and whether there are more.
    pub(crate) fn page(
        &self,
        filter: &JobFilter,
        page: &PageOfJobs,
    ) -> (Vec<(JobRecord, StoredValue)>, bool) {
        let after = page.after.as_ref().and_then(|it| self.order_of.get(it)).map_or(0, |it| it + 1);
        let mut found = self.matching(filter, after);
        let jobs =
            found.by_ref().take(page.most).map(|job| (self.record(job), job.summary.clone())).collect();
        let is_more = found.next().is_some();
        (jobs, is_more)
    }

    fn matching<'a>(
        &'a self,
        filter: &'a JobFilter,
        from: u64,
    ) -> Box<dyn Iterator<Item = &'a LedgerJob> + 'a> {
        if let Some(ids) = &filter.ids {
            let mut orders: Vec<u64> = ids.iter().filter_map(|it| self.order_of.get(it).copied()).collect();
            orders.sort_unstable();
            orders.dedup();
            let orders = orders.into_iter().filter(move |order| *order >= from);
            return Box::new(orders.filter_map(|it| self.jobs.get(&it)).filter(|it| does_match(it, filter)));
        }
        Box::new(self.jobs.range(from..).map(|it| it.1).filter(|it| does_match(it, filter)))
    }

    fn record(&self, job: &LedgerJob) -> JobRecord {
        JobRecord {
            head: job.head.clone(),
            state: job.state,
            paused: self.is_paused(job),
            cancel_asked: job.is_cancel_asked && job.state.is_held(),
            epoch: job.epoch,
            deliveries: job.deliveries,
            lost: job.lost,
            worker: job.worker.clone(),
            submitted_at: moment(job.submitted_at),
            started_at: job.started_at.map(moment),
            changed_at: moment(job.changed_at),
            not_before: job.not_before.map(moment),
            reason: self.unmet_need(job).or_else(|| job.reason.clone()),
            summary: serde_json::Value::Null,
        }
    }

    fn is_paused(&self, job: &LedgerJob) -> bool {
        let of_batch =
            |batch: &FleetName| self.paused_batches.contains(&(job.head.tenant.clone(), batch.clone()));
        job.is_paused || job.head.batch.as_ref().is_some_and(of_batch)
    }

    pub(crate) fn counts(&self, filter: &JobFilter, now: i64) -> JobCounts {
        let mut by_state: BTreeMap<JobState, u64> = BTreeMap::new();
        let (mut paused, mut ended_last_minute) = (0, 0);
        for job in self.matching(filter, 0) {
            *by_state.entry(job.state).or_default() += 1;
            paused += u64::from(job.state == JobState::Queued && self.is_paused(job));
            ended_last_minute += u64::from(job.state.is_ended() && job.changed_at > now - 60_000);
        }
        JobCounts { by_state, paused, ended_last_minute }
    }

    pub(crate) fn workers(&self) -> Vec<WorkerRecord> {
        let workers = self.workers.iter().map(|(name, it)| WorkerRecord {
            worker: name.clone(),
            pool: it.pool.clone(),
            holds: it.holds.len() as u64,
            lease_ms: it.lease_ms,
        });
        workers.collect()
    }

    pub(crate) fn does_know_worker(&self, worker: &FleetName) -> bool {
        self.workers.contains_key(worker)
    }

    /// Returns the number of idle workers in a pool.
    pub(crate) fn idle_workers(&self, pool: &FleetName) -> u64 {
        self.workers.values().filter(|it| it.pool == *pool && it.holds.is_empty()).count() as u64
    }

    /// Returns workers with the position of their last renewal, their lease and boot id.
    pub(crate) fn beats(&self) -> impl Iterator<Item = (&FleetName, u64, u64, Option<&str>)> {
        self.workers.iter().map(|(name, it)| (name, it.beat, it.lease_ms, it.boot.as_deref()))
    }

    pub(crate) fn all_limits(&self) -> Vec<(LimitScope, ScopeLimits)> {
        self.limits.all()
    }

    pub(crate) fn schedules(&self) -> impl Iterator<Item = &StoredSchedule> {
        self.clocks.schedules()
    }

    pub(crate) fn counters(&self, prefix: &str) -> Vec<(String, i64)> {
        self.clocks.counters(prefix)
    }

    pub(crate) fn frozen_until(&self, key: &str) -> i64 {
        self.clocks.frozen_until(key)
    }
}

fn does_match(job: &LedgerJob, filter: &JobFilter) -> bool {
    let head = &job.head;
    filter.id_prefix.as_ref().is_none_or(|it| head.id.as_str().starts_with(it.as_str()))
        && filter.tenant.as_ref().is_none_or(|it| *it == head.tenant)
        && filter.batch.as_ref().is_none_or(|it| head.batch.as_ref() == Some(it))
        && filter.pool.as_ref().is_none_or(|it| *it == head.pool)
        && (filter.states.is_empty() || filter.states.contains(&job.state))
        && filter.labels.iter().all(|(key, value)| head.labels.get(key) == Some(value))
}
