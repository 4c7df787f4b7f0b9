//! Moves jobs to another store.

use std::collections::{BTreeSet, HashSet};

use haft_fleet_store::{BlobHash, FleetStore, JobFilter, JobRecord, JobState, NewJob, PauseScope, RunId};
use serde_json::Value;

use crate::{
    fleet_client::{FleetClient, JobFailure},
    large_results::blobs_in,
    limits::money_of,
    run_log_lines::FleetState,
};

/// Reason with which a moved job ends in the old store.
const MOVED: &str = "moved to another store";

/// Result of a move.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MoveReport {
    /// Number of jobs moved.
    pub moved: usize,
    /// Number of open jobs that stay, because they are running, paused or parked.
    pub stayed: usize,
}

impl FleetClient {
    /// Moves queued jobs to another store, with their logs, control entries, and the money spent by them
    /// and their batches. A job is paused during its move and cancelled here when it is complete there.
    /// Paused jobs stay. An interrupted move can be repeated; the one job it left paused must be resumed
    /// by the user. `whole` is the unrestricted store behind this client.
    pub async fn move_to(&self, whole: &FleetStore, to: &FleetStore) -> Result<MoveReport, JobFailure> {
        let filter = JobFilter { states: vec![JobState::Queued], ..self.filter() };
        let mut report = MoveReport::default();
        let mut batches = BTreeSet::new();
        for job in self.jobs(&filter).await? {
            let id = job.head.id.clone();
            let is_there = JobFilter { ids: Some(vec![id.clone()]), ..JobFilter::default() };
            if 0 < to.queue.counts(is_there).await?.all() {
                // An earlier, interrupted move got this far.
                self.store().queue.cancel(id, String::from(MOVED)).await?;
                report.moved += 1;
                continue;
            }
            if job.paused || self.needs_what_stays(to, &job).await? {
                continue;
            }
            self.store().queue.pause(PauseScope::Run(id.clone())).await?;
            // A worker may have taken it just before.
            let is_here = JobFilter { ids: Some(vec![id.clone()]), ..filter.clone() };
            if self.store().queue.counts(is_here).await?.all() == 0 {
                self.store().queue.resume(PauseScope::Run(id)).await?;
                continue;
            }
            batches.extend(job.head.batch.clone());
            self.move_one(whole, to, job).await?;
            report.moved += 1;
        }
        for batch in batches {
            move_money(whole, to, &money_of(self.tenant(), Some(&batch), None)).await?;
        }
        let open = JobState::ALL.into_iter().filter(|it| !it.is_ended() || *it == JobState::Parked);
        let left = JobFilter { states: open.collect(), ..self.filter() };
        report.stayed = usize::try_from(self.store().queue.counts(left).await?.all()).unwrap_or(usize::MAX);
        Ok(report)
    }

    async fn move_one(&self, whole: &FleetStore, to: &FleetStore, job: JobRecord) -> Result<(), JobFailure> {
        let id = job.head.id.clone();
        let body = self.store().queue.body(id.clone()).await?;
        let lines = self.all_lines(&id).await?;
        self.move_blobs(to, &body, &lines).await?;
        if !lines.is_empty() {
            to.log.import(id.clone(), lines).await?;
        }
        for entry in self.store().log.controls(id.clone(), 0).await? {
            let entry = haft_fleet_store::NewControl { id: entry.id, body: entry.body };
            to.log.control(id.clone(), entry).await?;
        }
        move_money(whole, to, &money_of(self.tenant(), None, Some(&id))).await?;
        let mut head = job.head;
        // Dependencies that are done here do not exist there and are dropped.
        let done =
            JobFilter { ids: Some(head.needs.runs.clone()), states: vec![JobState::Done], ..self.filter() };
        let done: HashSet<RunId> = self.jobs(&done).await?.into_iter().map(|it| it.head.id).collect();
        head.needs.runs.retain(|it| !done.contains(it));
        let new = NewJob { head, not_before: job.not_before, body };
        to.queue.submit(vec![new]).await?;
        self.store().queue.cancel(id, String::from(MOVED)).await?;
        Ok(())
    }

    /// Whether a job depends on one that is neither done nor moved.
    async fn needs_what_stays(&self, to: &FleetStore, job: &JobRecord) -> Result<bool, JobFailure> {
        let needed = &job.head.needs.runs;
        if needed.is_empty() {
            return Ok(false);
        }
        let of = |states: Vec<JobState>| JobFilter { ids: Some(needed.clone()), states, ..self.filter() };
        let done = self.store().queue.counts(of(vec![JobState::Done])).await?.all();
        let there = JobFilter { ids: Some(needed.clone()), ..JobFilter::default() };
        let there = to.queue.counts(there).await?.all();
        Ok(done + there < needed.len() as u64)
    }

    async fn all_lines(&self, id: &RunId) -> Result<Vec<String>, JobFailure> {
        let mut lines = Vec::new();
        let end = self.store().log.end(id.clone()).await?.lines;
        while (lines.len() as u64) < end {
            let more = self.store().log.read(id.clone(), lines.len() as u64, 2_000).await?;
            if more.is_empty() {
                return Err(JobFailure(format!("the log of {id} ends before its end")));
            }
            lines.extend(more.into_iter().map(|it| it.text));
        }
        Ok(lines)
    }

    /// Copies the blobs named in a job or its log.
    async fn move_blobs(&self, to: &FleetStore, body: &Value, lines: &[String]) -> Result<(), JobFailure> {
        let mut seen = HashSet::new();
        let mut waiting: Vec<BlobHash> = hashes_in(&body["job"]["workspace"].to_string()).collect();
        for line in lines {
            match FleetState::parse(line) {
                Some(_) => waiting.extend(hashes_in(line)),
                None => waiting.extend(blobs_in(line)),
            }
        }
        while let Some(hash) = waiting.pop() {
            if !seen.insert(hash) {
                continue;
            }
            let Ok(bytes) = self.store().blobs.get(self.tenant().clone(), hash).await else { continue };
            // A manifest names further blobs.
            if let Ok(text) = std::str::from_utf8(&bytes)
                && text.starts_with("{\"cwd\"")
            {
                waiting.extend(hashes_in(text));
            }
            to.blobs.put(self.tenant().clone(), bytes, None).await?;
        }
        Ok(())
    }
}

/// Returns texts that look like blob names.
fn hashes_in(text: &str) -> impl Iterator<Item = BlobHash> + '_ {
    text.split(|it: char| !it.is_ascii_hexdigit())
        .filter(|it| it.len() == 64)
        .filter_map(|it| BlobHash::parse(it).ok())
}

/// Transfers the amount spent, unless the other store already has one.
async fn move_money(from: &FleetStore, to: &FleetStore, key: &str) -> Result<(), JobFailure> {
    let is = async |store: &FleetStore| {
        let found = store.clockwork.counters(key.to_owned()).await?;
        Ok::<_, JobFailure>(found.into_iter().find(|(name, _)| name == key).map_or(0, |it| it.1))
    };
    let (here, there) = (is(from).await?, is(to).await?);
    if 0 < here && there == 0 {
        to.clockwork.count(key.to_owned(), here, None).await?;
    }
    Ok(())
}
