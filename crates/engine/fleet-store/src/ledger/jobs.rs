//! Transitions of a job: submitted, reported, released, ended, parked.

use std::collections::BTreeSet;

use super::{JobLedger, LedgerJob, LedgerOutcome, StoredValue, SubmitJob};
use crate::{CancelledJob, FiredSlot, FleetName, JobHead, JobState, LeaseKey, PauseScope, RunId, Submitted};

impl JobLedger {
    pub(super) fn submit(&mut self, jobs: &[SubmitJob]) -> LedgerOutcome {
        let mut answers = Vec::new();
        let mut new: Vec<&SubmitJob> = Vec::new();
        let mut new_ids: BTreeSet<&RunId> = BTreeSet::new();
        for job in jobs {
            let head = &job.head;
            if let Some(order) = self.order_of.get(&head.id) {
                if self.jobs[order].head.tenant != head.tenant {
                    return LedgerOutcome::Refused(format!("{} cannot be the id of a new job", head.id));
                }
                answers.push(Submitted::Known(head.id.clone()));
            } else if let Some(known) = self.known_by_words(job, &new) {
                answers.push(Submitted::Known(known));
            } else if new_ids.insert(&head.id) {
                new.push(job);
                answers.push(Submitted::Queued);
            } else {
                answers.push(Submitted::Known(head.id.clone()));
            }
        }
        for (number, job) in new.iter().enumerate() {
            let before: Vec<&JobHead> = if job.head.needs.runs.is_empty() {
                continue;
            } else {
                new[..number].iter().map(|it| &it.head).collect()
            };
            if let Some(why) = self.missing_need(&job.head, &before) {
                return LedgerOutcome::Refused(why);
            }
        }
        if let Some(full) = self.limits.overfull(new.iter().map(|it| &it.head), self.now) {
            let refused = Submitted::Full {
                scope: full.scope,
                waiting: full.waiting,
                bound: full.bound,
                retry_after: full.retry_after,
            };
            return LedgerOutcome::Submitted(vec![refused; jobs.len()]);
        }
        new.into_iter().for_each(|job| self.add(job));
        LedgerOutcome::Submitted(answers)
    }

    /// Returns the tenant's job with the same deduplication key, stored or from this call.
    fn known_by_words(&self, job: &SubmitJob, new: &[&SubmitJob]) -> Option<RunId> {
        let words = job.head.dedup.as_ref()?;
        let stored = self.known.get(&(job.head.tenant.clone(), words.clone()));
        if let Some(order) = stored {
            return Some(self.jobs[order].head.id.clone());
        }
        let same =
            |it: &&&SubmitJob| it.head.tenant == job.head.tenant && it.head.dedup.as_ref() == Some(words);
        new.iter().find(same).map(|it| it.head.id.clone())
    }

    fn add(&mut self, job: &SubmitJob) {
        let order = self.next_order;
        self.next_order += 1;
        let job = LedgerJob {
            head: job.head.clone(),
            body: job.body.clone(),
            state: JobState::Queued,
            is_paused: false,
            is_cancel_asked: false,
            epoch: 0,
            deliveries: 0,
            lost: 0,
            unnamed: 0,
            worker: None,
            submitted_at: self.now,
            started_at: None,
            changed_at: self.now,
            not_before: job.not_before.filter(|moment| *moment > self.now),
            reason: None,
            summary: StoredValue::default(),
            log_begin: 0,
        };
        let failed = self.failed_need(&job.head);
        self.index(order, &job);
        self.jobs.insert(order, job);
        if failed.is_some() {
            self.change(order, |job| {
                job.state = JobState::Cancelled;
                job.reason = failed;
            });
        }
    }

    /// Adds a job to all indexes.
    pub(super) fn index(&mut self, order: u64, job: &LedgerJob) {
        self.order_of.insert(job.head.id.clone(), order);
        if let Some(words) = &job.head.dedup {
            self.known.insert((job.head.tenant.clone(), words.clone()), order);
        }
        if job.state == JobState::Queued {
            self.limits.count_waiting(&job.head, true);
            match job.not_before {
                _ if job.is_paused => {}
                _ if self.is_blocked(job) => self.block(order, job),
                Some(moment) => {
                    self.delayed.insert((moment, order));
                }
                None => self.ready.insert(&job.head, order),
            }
        } else if job.state.is_held() {
            self.limits.count_running(&job.head, true);
            if let Some(worker) = job.worker.as_ref().and_then(|it| self.workers.get_mut(it)) {
                worker.holds.insert(order);
            }
        }
    }

    /// Removes a job from all indexes.
    fn unindex(&mut self, order: u64) {
        let Some(job) = self.jobs.get(&order) else { return };
        if job.state == JobState::Queued {
            self.limits.count_waiting(&job.head, false);
            self.ready.remove(&job.head, order);
            if let Some(moment) = job.not_before {
                self.delayed.remove(&(moment, order));
            }
            let needs = job.head.needs.runs.clone();
            self.remove_blocked(order, &needs);
        } else if job.state.is_held() {
            self.limits.count_running(&job.head, false);
            if let Some(worker) = job.worker.as_ref().and_then(|it| self.workers.get_mut(it)) {
                worker.holds.remove(&order);
            }
        }
    }

    /// Changes a job, its indexes and its dependents.
    fn change(&mut self, order: u64, change: impl FnOnce(&mut LedgerJob)) {
        self.alter(order, change);
        self.settle_waiting(order);
    }

    /// Updates the indexes of a job.
    pub(super) fn reindex(&mut self, order: u64) {
        self.unindex(order);
        let Some(job) = self.jobs.remove(&order) else { return };
        self.index(order, &job);
        self.jobs.insert(order, job);
    }

    /// Changes a job and its indexes.
    pub(super) fn alter(&mut self, order: u64, change: impl FnOnce(&mut LedgerJob)) {
        self.unindex(order);
        let Some(mut job) = self.jobs.remove(&order) else { return };
        change(&mut job);
        job.not_before = job.not_before.filter(|moment| *moment > self.now);
        job.changed_at = self.now;
        self.index(order, &job);
        self.jobs.insert(order, job);
    }

    /// Returns the job of a valid lease.
    pub(super) fn held(&self, key: &LeaseKey) -> Option<u64> {
        let order = *self.order_of.get(&key.run)?;
        let job = &self.jobs[&order];
        (job.state.is_held() && job.epoch == key.epoch).then_some(order)
    }

    /// Whether a lease is valid.
    pub(crate) fn is_held(&self, key: &LeaseKey) -> bool {
        self.held(key).is_some()
    }

    pub(super) fn report(&mut self, key: &LeaseKey, state: JobState, summary: &StoredValue) -> LedgerOutcome {
        if !state.is_held() {
            return LedgerOutcome::Refused(format!(
                "a report says starting, running or waiting, not {}",
                state.as_str()
            ));
        }
        let Some(order) = self.held(key) else { return LedgerOutcome::Stale };
        self.change(order, |job| {
            job.state = state;
            job.summary = summary.clone();
        });
        LedgerOutcome::Done
    }

    pub(super) fn release(&mut self, key: &LeaseKey, delay_ms: u64, reason: &str) -> LedgerOutcome {
        let Some(order) = self.held(key) else { return LedgerOutcome::Stale };
        let until = self.now.saturating_add_unsigned(delay_ms);
        self.put_back(order, (delay_ms > 0).then_some(until), reason);
        LedgerOutcome::Done
    }

    /// Returns a held job to the queue, or cancels it if that was requested.
    pub(super) fn put_back(&mut self, order: u64, not_before: Option<i64>, reason: &str) {
        self.change(order, |job| {
            job.reason = Some(reason.to_owned());
            if job.is_cancel_asked {
                job.state = JobState::Cancelled;
            } else {
                job.state = JobState::Queued;
                job.not_before = not_before;
            }
        });
    }

    pub(super) fn end(
        &mut self,
        key: &LeaseKey,
        state: JobState,
        reason: Option<&str>,
        summary: &StoredValue,
    ) -> LedgerOutcome {
        if !state.is_ended() {
            return LedgerOutcome::Refused(format!("{} is not an end", state.as_str()));
        }
        let Some(order) = self.held(key) else {
            let same =
                |order: &&u64| self.jobs[*order].epoch == key.epoch && self.jobs[*order].state == state;
            return if self.order_of.get(&key.run).filter(same).is_some() {
                LedgerOutcome::Done
            } else {
                LedgerOutcome::Stale
            };
        };
        self.change(order, |job| {
            job.state = state;
            job.reason = reason.map(str::to_owned);
            job.summary = summary.clone();
        });
        LedgerOutcome::Done
    }

    pub(super) fn cancel(&mut self, run: &RunId, reason: &str) -> LedgerOutcome {
        let Some(order) = self.order_of.get(run).copied() else { return LedgerOutcome::Unknown };
        let state = self.jobs[&order].state;
        if state.is_held() {
            self.change(order, |job| {
                job.is_cancel_asked = true;
                job.reason = Some(reason.to_owned());
            });
            return LedgerOutcome::Cancelled(CancelledJob::Asked);
        }
        if state.is_ended() && state != JobState::Parked {
            return LedgerOutcome::Cancelled(CancelledJob::Already(state));
        }
        self.change(order, |job| {
            job.state = JobState::Cancelled;
            job.reason = Some(reason.to_owned());
        });
        LedgerOutcome::Cancelled(CancelledJob::AtOnce)
    }

    pub(super) fn requeue(&mut self, run: &RunId, log_begin: Option<u64>) -> LedgerOutcome {
        let Some(order) = self.order_of.get(run).copied() else { return LedgerOutcome::Unknown };
        let state = self.jobs[&order].state;
        if state.is_held() {
            return LedgerOutcome::Refused(format!("run {run} is {}: cancel it first", state.as_str()));
        }
        if let Some(why) = self.failed_need(&self.jobs[&order].head) {
            return LedgerOutcome::Refused(format!("run {run} cannot start: {why}; retry that first"));
        }
        self.change(order, |job| {
            job.state = JobState::Queued;
            job.is_cancel_asked = false;
            job.not_before = None;
            job.reason = None;
            job.lost = 0;
            job.log_begin = log_begin.unwrap_or(job.log_begin);
        });
        LedgerOutcome::Done
    }

    pub(super) fn pause(&mut self, scope: &PauseScope, is_paused: bool) -> LedgerOutcome {
        match scope {
            PauseScope::Batch(tenant, batch) => {
                let batch = (tenant.clone(), batch.clone());
                let _ = if is_paused {
                    self.paused_batches.insert(batch)
                } else {
                    self.paused_batches.remove(&batch)
                };
            }
            PauseScope::Run(run) => {
                let Some(order) = self.order_of.get(run).copied() else { return LedgerOutcome::Unknown };
                self.change(order, |job| job.is_paused = is_paused);
            }
        }
        LedgerOutcome::Done
    }

    pub(super) fn forget(&mut self, before: i64) -> LedgerOutcome {
        let old = self.jobs.iter().filter(|(_, job)| job.state.is_ended() && job.changed_at < before);
        let old: Vec<u64> = old.map(|(order, _)| *order).collect();
        let gone = old.into_iter().filter_map(|order| {
            let job = self.jobs.remove(&order)?;
            self.order_of.remove(&job.head.id);
            if let Some(words) = job.head.dedup {
                self.known.remove(&(job.head.tenant, words));
            }
            Some(job.head.id)
        });
        LedgerOutcome::Forgotten(gone.collect())
    }

    /// Makes delayed jobs ready whose time has come.
    pub(super) fn release_due_jobs(&mut self) {
        while let Some((moment, order)) =
            self.delayed.first().copied().filter(|(moment, _)| *moment <= self.now)
        {
            self.delayed.remove(&(moment, order));
            if let Some(job) = self.jobs.get_mut(&order) {
                // A snapshot that is loaded later must not treat it as delayed again.
                job.not_before = None;
                self.ready.insert(&job.head, order);
            }
        }
    }

    pub(super) fn fire(
        &mut self,
        tenant: &FleetName,
        name: &FleetName,
        expected: i64,
        slots: &[(i64, RunId)],
        next: Option<i64>,
    ) -> LedgerOutcome {
        let Some(stored) = self.clocks.fire(tenant, name, expected, slots.last().map(|it| it.0), next) else {
            return LedgerOutcome::Fired(Vec::new());
        };
        let jobs = slots.iter().map(|(slot, run)| {
            let mut head = stored.head.clone();
            head.id = run.clone();
            head.dedup = Some(format!("{name}/{}", super::schedule_state::moment(*slot)));
            SubmitJob { head, body: stored.body.clone(), not_before: None }
        });
        let jobs: Vec<SubmitJob> = jobs.collect();
        // A due slot is queued regardless of the limit on waiting jobs.
        let fired = slots.iter().zip(&jobs).filter_map(|((slot, run), job)| {
            if self.known_by_words(job, &[]).is_some() {
                return None;
            }
            self.add(job);
            Some(FiredSlot {
                name: name.clone(),
                slot: super::schedule_state::moment(*slot),
                run: run.clone(),
            })
        });
        LedgerOutcome::Fired(fired.collect())
    }
}
