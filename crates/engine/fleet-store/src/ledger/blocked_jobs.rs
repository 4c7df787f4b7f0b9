//! Jobs that depend on other jobs or on machine resources.

use super::{JobLedger, LedgerJob};
use crate::{FleetName, JobHead, JobState, ResourceRequest, RunId};

impl JobLedger {
    /// Returns why a job cannot be queued: it depends on a job that neither exists nor comes before it
    /// in the call. This rules out cycles.
    pub(super) fn missing_need(&self, head: &JobHead, before: &[&JobHead]) -> Option<String> {
        let is_there = |run: &RunId| {
            self.job(run).is_some_and(|it| it.head.tenant == head.tenant)
                || before.iter().any(|it| it.id == *run && it.tenant == head.tenant)
        };
        let missing = head.needs.runs.iter().find(|run| !is_there(run))?;
        Some(format!("job {} needs {missing}, and there is no such job", head.id))
    }

    /// Whether a job waits for another. A deleted dependency counts as done.
    pub(super) fn is_blocked(&self, job: &LedgerJob) -> bool {
        job.head.needs.runs.iter().any(|run| self.job(run).is_some_and(|it| it.state != JobState::Done))
    }

    pub(super) fn block(&mut self, order: u64, job: &LedgerJob) {
        for run in &job.head.needs.runs {
            self.blocked.entry(run.clone()).or_default().insert(order);
        }
    }

    pub(super) fn remove_blocked(&mut self, order: u64, needs: &[RunId]) {
        for run in needs {
            if let Some(waiting) = self.blocked.get_mut(run) {
                waiting.remove(&order);
                if waiting.is_empty() {
                    self.blocked.remove(run);
                }
            }
        }
    }

    /// Returns the first dependency that has failed, and its state.
    pub(super) fn failed_need(&self, head: &JobHead) -> Option<String> {
        head.needs.runs.iter().find_map(|run| {
            let state = self.job(run)?.state;
            is_bad_end(state).then(|| format!("it needs {run}, which is {}", state.as_str()))
        })
    }

    /// Updates the dependents of an ended job: they become ready, or are cancelled transitively.
    pub(super) fn settle_waiting(&mut self, ended: u64) {
        let mut ended = vec![ended];
        while let Some(order) = ended.pop() {
            let Some(job) = self.jobs.get(&order) else { continue };
            let (id, state) = (job.head.id.clone(), job.state);
            if state != JobState::Done && !is_bad_end(state) {
                continue;
            }
            let waiting: Vec<u64> = self.blocked.get(&id).into_iter().flatten().copied().collect();
            for order in waiting {
                if state == JobState::Done {
                    self.reindex(order);
                    continue;
                }
                let why = format!("it needs {id}, which is {}", state.as_str());
                self.alter(order, |job| {
                    job.state = JobState::Cancelled;
                    job.reason = Some(why);
                });
                ended.push(order);
            }
        }
    }

    /// Returns the free resources of a worker's machine.
    pub(super) fn machine_left(&self, worker: &FleetName) -> ResourceRequest {
        let Some(entry) = self.workers.get(worker) else { return ResourceRequest::default() };
        let held = entry.holds.iter().filter_map(|order| self.jobs.get(order));
        held.fold(entry.machine, |left, job| left.without(job.head.needs.machine))
    }

    /// Returns why a queued job cannot start because of its needs.
    pub(super) fn unmet_need(&self, job: &LedgerJob) -> Option<String> {
        if job.state != JobState::Queued || job.head.needs.is_empty() {
            return None;
        }
        let waits = |run: &&RunId| self.job(run).is_some_and(|it| it.state != JobState::Done);
        if let Some(run) = job.head.needs.runs.iter().find(waits) {
            return Some(format!("waits for {run}"));
        }
        let mut workers = self.workers.values().filter(|it| it.pool == job.head.pool);
        let machine = job.head.needs.machine;
        (!workers.any(|it| machine.fits(it.machine)))
            .then(|| format!("no worker of pool {} has {}", job.head.pool, machine.in_words()))
    }
}

/// Whether dependents of a job in this state can never start. A parked job may still succeed.
fn is_bad_end(state: JobState) -> bool {
    matches!(state, JobState::Failed | JobState::Denied | JobState::Cancelled)
}
