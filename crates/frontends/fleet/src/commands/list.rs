//! `haft fleet status` and `show`.

use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use haft_console::{
    stdout::{CliError, CommandExit, print_bytes, print_line, print_untrusted},
    style,
};
use haft_fleet_store::{BlobHash, JobCounts, JobFilter, JobRecord, JobState, PageOfJobs, Revision};
use haft_types::text::one_line;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::FleetContext;
use crate::FleetClient;

/// Maximum number of slowest jobs, and of recent failures, shown.
const MAX_SHOWN: usize = 5;

pub(super) async fn status(
    desk: &FleetClient,
    filter: &JobFilter,
    watch: bool,
    context: &FleetContext,
) -> CommandExit {
    let is_seen = std::io::stdout().is_terminal() && !context.options.json;
    let (mut seen, mut drawn, mut last) = (Revision::default(), 0, String::new());
    loop {
        let counts = desk.store().queue.counts(filter.clone()).await.map_err(|err| err.to_string())?;
        if is_seen {
            let table = table(desk, filter, &counts).await?;
            if watch && 0 < drawn {
                print_bytes(format!("\x1b[{drawn}A\x1b[J").as_bytes())?;
            }
            drawn = table.lines().count();
            print_bytes(style::clean(&table).as_bytes())?;
        } else {
            let line = counts_json(&counts).to_string();
            if line != last {
                print_line(&line)?;
                last = line;
            }
            if !watch {
                print_jobs(desk, filter).await?;
            }
        }
        let open: u64 = JobState::ALL.iter().filter(|it| !it.is_ended()).map(|state| counts.of(*state)).sum();
        if !watch || open == 0 {
            std::io::stdout().flush().ok();
            return Ok(ExitCode::SUCCESS);
        }
        let wait = Duration::from_millis(1_000);
        seen = desk.store().queue.changed(seen, wait).await.map_err(|err| err.to_string())?;
    }
}

fn counts_json(counts: &JobCounts) -> Value {
    let states: serde_json::Map<String, Value> =
        JobState::ALL.iter().map(|state| (state.as_str().to_owned(), json!(counts.of(*state)))).collect();
    json!({"type": "counts", "jobs": counts.all(), "states": states, "paused": counts.paused})
}

/// Prints one line per job.
async fn print_jobs(desk: &FleetClient, filter: &JobFilter) -> Result<(), CliError> {
    let mut page = PageOfJobs::default();
    loop {
        let found =
            desk.store().queue.jobs(filter.clone(), page.clone()).await.map_err(|err| err.to_string())?;
        let mut text = String::new();
        for job in &found.jobs {
            text.push_str(&job_json(job).to_string());
            text.push('\n');
        }
        print_bytes(text.as_bytes())?;
        match (found.more, found.jobs.last()) {
            (true, Some(last)) => page.after = Some(last.head.id.clone()),
            _ => return Ok(()),
        }
    }
}

/// A job as JSON; equal for every store engine.
fn job_json(job: &JobRecord) -> Value {
    json!({
        "type": "job", "id": job.head.id, "batch": job.head.batch, "pool": job.head.pool, "class": job.head.class,
        "labels": job.head.labels, "state": job.state, "paused": job.paused, "reason": job.reason,
        "worker": job.worker, "epoch": job.epoch, "deliveries": job.deliveries, "lost": job.lost,
        "usd": job.summary["usd"], "requests": job.summary["requests"], "last": job.summary["last"],
        "warning": job.summary["warning"], "questions": job.summary["questions"],
        "submitted_at": job.submitted_at, "started_at": job.started_at, "changed_at": job.changed_at,
    })
}

async fn table(desk: &FleetClient, filter: &JobFilter, counts: &JobCounts) -> Result<String, CliError> {
    let mut text = String::new();
    let states: Vec<String> = JobState::ALL
        .iter()
        .filter(|state| 0 < counts.of(**state))
        .map(|state| format!("{} {}", counts.of(*state), state.as_str()))
        .collect();
    text.push_str(&format!("{} jobs: {}\n", counts.all(), states.join(", ")));
    if 0 < counts.paused {
        text.push_str(&format!("{} of the queued are paused\n", counts.paused));
    }
    let open: u64 = JobState::ALL.iter().filter(|it| !it.is_ended()).map(|state| counts.of(*state)).sum();
    if 0 < counts.ended_last_minute {
        let minutes = open.div_ceil(counts.ended_last_minute);
        text.push_str(&format!(
            "{} ended in the last minute; about {minutes} min left\n",
            counts.ended_last_minute
        ));
    }
    let running = jobs_in(desk, filter, &[JobState::Starting, JobState::Running, JobState::Waiting]).await?;
    let usd = running.iter().filter_map(|it| it.summary["usd"].as_f64()).fold(0.0, |sum, usd| sum + usd);
    if 0.0 < usd {
        text.push_str(&format!("${usd:.2} spent by what runs\n"));
    }
    let mut slowest = running;
    slowest.sort_by_key(|it| it.started_at);
    for job in slowest.iter().take(MAX_SHOWN) {
        let last = job.summary["last"].as_str().unwrap_or_default();
        text.push_str(&format!(
            "  {}  {:>8}  {:>7}  {}\n",
            short(job),
            job.state.as_str(),
            since(job.started_at),
            one_line(last, 80)
        ));
    }
    for job in slowest.iter().take(MAX_SHOWN) {
        for asked in job.summary["questions"].as_array().into_iter().flatten() {
            let asked = one_line(asked["text"].as_str().unwrap_or_default(), 100);
            text.push_str(&format!("  {}      asks  {asked}\n", short(job)));
        }
    }
    for job in slowest.iter().filter(|it| it.summary["warning"].is_string()).take(MAX_SHOWN) {
        let warning = one_line(job.summary["warning"].as_str().unwrap_or_default(), 100);
        text.push_str(&format!("  {}   warning  {warning}\n", short(job)));
    }
    let mut bad = jobs_in(desk, filter, &[JobState::Failed, JobState::Denied, JobState::Parked]).await?;
    bad.sort_by_key(|it| std::cmp::Reverse(it.changed_at));
    for job in bad.iter().take(MAX_SHOWN) {
        let reason = one_line(job.reason.as_deref().unwrap_or_default(), 100);
        text.push_str(&format!("  {}  {:>8}  {reason}\n", short(job), job.state.as_str()));
    }
    Ok(text)
}

async fn jobs_in(
    desk: &FleetClient,
    filter: &JobFilter,
    states: &[JobState],
) -> Result<Vec<JobRecord>, CliError> {
    let wanted: Vec<JobState> =
        states.iter().copied().filter(|it| filter.states.is_empty() || filter.states.contains(it)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let filter = JobFilter { states: wanted, ..filter.clone() };
    let page = desk.store().queue.jobs(filter, PageOfJobs { after: None, most: 500 }).await;
    Ok(page.map_err(|err| err.to_string())?.jobs)
}

fn short(job: &JobRecord) -> String {
    job.head.id.as_str().chars().take(12).collect()
}

fn since(at: Option<Timestamp>) -> String {
    let Some(at) = at else { return String::new() };
    let seconds = Timestamp::now().as_second().saturating_sub(at.as_second()).max(0);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

/// Prints all details of a job. An id `blob:HASH` prints that stored result instead.
pub(super) async fn show(desk: &FleetClient, id: &str) -> CommandExit {
    if let Some(hash) = id.strip_prefix("blob:") {
        let hash = BlobHash::parse(hash).map_err(|err| err.to_string())?;
        let bytes = desk.blob(hash).await?;
        print_untrusted(&String::from_utf8_lossy(&bytes))?;
        return Ok(ExitCode::SUCCESS);
    }
    let record = desk.run(id).await?;
    let body = desk.store().queue.body(record.head.id.clone()).await.map_err(|err| err.to_string())?;
    let mut shown = json!(record);
    shown["job"] = body["job"].clone();
    print_line(&format!("{shown:#}"))?;
    Ok(ExitCode::SUCCESS)
}
