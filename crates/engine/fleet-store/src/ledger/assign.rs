//! Assigning jobs to workers, and declaring workers dead.

use super::{JobLedger, LedgerOutcome, LedgerWorker, TakenJob};
use crate::{FleetName, JobClass, JobState, LeaseKey, LeaseRenewal, LimitScope, ResourceRequest};

/// Consecutive renewals without a job after which it goes back to the queue.
const UNNAMED_AT_MOST: u32 = 3;

impl JobLedger {
    /// Records a renewal of a worker and its properties.
    pub(super) fn greet(
        &mut self,
        worker: &FleetName,
        pool: &FleetName,
        lease_ms: u64,
        boot: Option<&String>,
        machine: ResourceRequest,
    ) {
        let beat = self.position;
        let entry = self.workers.entry(worker.clone()).or_insert_with(|| LedgerWorker {
            pool: pool.clone(),
            lease_ms,
            beat,
            boot: None,
            machine,
            holds: Default::default(),
        });
        entry.pool = pool.clone();
        entry.lease_ms = lease_ms;
        entry.beat = beat;
        entry.boot = boot.cloned();
        entry.machine = machine;
    }

    pub(super) fn take(&mut self, worker: &FleetName, pool: &FleetName, most: u32) -> LedgerOutcome {
        let mut taken = Vec::new();
        while taken.len() < most as usize {
            let Some(order) = self.best(pool, self.machine_left(worker)) else { break };
            let Some(job) = self.give(order, worker) else { break };
            taken.push(job);
        }
        LedgerOutcome::Taken(taken)
    }

    /// Returns the next job of a pool: by class, then the tenant that was served least, then the oldest
    /// job that fits the machine.
    pub(super) fn best(&self, pool: &FleetName, machine: ResourceRequest) -> Option<u64> {
        if !self.is_free(&LimitScope::Pool(pool.clone())) {
            return None;
        }
        [JobClass::Urgent, JobClass::Normal, JobClass::Bulk].into_iter().find_map(|class| {
            let tenants = self.ready.tenants(pool, class);
            let tenants = tenants.filter(|it| self.is_free(&LimitScope::Tenant((*it).clone())));
            let firsts = tenants.filter_map(|tenant| {
                let order = self.first_of(pool, class, tenant, machine)?;
                let served = self.limits.served(pool, tenant, self.now);
                Some((served, self.limits.running_of(tenant), order))
            });
            firsts.min().map(|(_, _, order)| order)
        })
    }

    fn first_of(
        &self,
        pool: &FleetName,
        class: JobClass,
        tenant: &FleetName,
        machine: ResourceRequest,
    ) -> Option<u64> {
        let is_batch_free = |batch: &FleetName| {
            !self.paused_batches.contains(&(tenant.clone(), batch.clone()))
                && self.is_free(&LimitScope::Batch(tenant.clone(), batch.clone()))
        };
        let is_key_free = |key: &str| self.limits.is_key_free(tenant, key);
        self.ready.first(pool, class, tenant, machine, is_batch_free, is_key_free)
    }

    fn is_free(&self, scope: &LimitScope) -> bool {
        self.limits.free_at(scope, self.now).is_some_and(|at| at <= self.now)
    }

    fn give(&mut self, order: u64, worker: &FleetName) -> Option<TakenJob> {
        let job = self.jobs.get_mut(&order)?;
        self.ready.remove(&job.head, order);
        self.limits.count_waiting(&job.head, false);
        self.limits.count_running(&job.head, true);
        self.limits.started(&job.head, self.now);
        job.state = JobState::Starting;
        job.epoch = self.position;
        job.deliveries += 1;
        job.unnamed = 0;
        job.worker = Some(worker.clone());
        job.started_at.get_or_insert(self.now);
        job.changed_at = self.now;
        job.not_before = None;
        job.reason = None;
        if let Some(worker) = self.workers.get_mut(worker) {
            worker.holds.insert(order);
        }
        Some(TakenJob {
            key: LeaseKey { run: job.head.id.clone(), epoch: job.epoch },
            head: job.head.clone(),
            body: job.body.clone(),
            deliveries: job.deliveries,
            lost: job.lost,
            log_begin: job.log_begin,
        })
    }

    pub(super) fn renew(&mut self, worker: &FleetName, keys: &[LeaseKey], lease_ms: u64) -> LedgerOutcome {
        let beat = self.position;
        let answers = keys.iter().map(|key| match self.held(key) {
            Some(order) if self.jobs[&order].worker.as_ref() == Some(worker) => {
                LeaseRenewal::Held { cancel_asked: self.jobs[&order].is_cancel_asked }
            }
            _ => LeaseRenewal::Lost,
        });
        let answers: Vec<LeaseRenewal> = answers.collect();
        let Some(entry) = self.workers.get_mut(worker) else { return LedgerOutcome::Renewed(answers) };
        entry.beat = beat;
        entry.lease_ms = lease_ms;
        let holds: Vec<u64> = entry.holds.iter().copied().collect();
        for order in holds {
            let Some(job) = self.jobs.get_mut(&order) else { continue };
            let is_named = keys.iter().any(|it| it.epoch == job.epoch && it.run == job.head.id);
            job.unnamed = if is_named { 0 } else { job.unnamed + 1 };
            if job.unnamed >= UNNAMED_AT_MOST {
                self.lose(order, "its worker forgot it");
            }
        }
        LedgerOutcome::Renewed(answers)
    }

    pub(super) fn expire_worker(&mut self, worker: &FleetName, beat: u64) -> LedgerOutcome {
        if self.workers.get(worker).is_none_or(|it| it.beat != beat) {
            return LedgerOutcome::Flag(false);
        }
        let Some(dead) = self.workers.remove(worker) else { return LedgerOutcome::Flag(false) };
        let reason = format!("worker {worker} gave no sign of life");
        dead.holds.into_iter().for_each(|order| self.lose(order, &reason));
        LedgerOutcome::Flag(true)
    }

    pub(super) fn leave(&mut self, worker: &FleetName) -> LedgerOutcome {
        let Some(gone) = self.workers.remove(worker) else { return LedgerOutcome::Done };
        for order in gone.holds {
            self.put_back(order, None, "its worker left");
        }
        LedgerOutcome::Done
    }

    fn lose(&mut self, order: u64, reason: &str) {
        if let Some(job) = self.jobs.get_mut(&order) {
            job.lost += 1;
        }
        self.put_back(order, None, reason);
    }
}
