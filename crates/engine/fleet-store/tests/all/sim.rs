//! Many sessions whose model takes its time: how near to the rate that the model alone
//! would allow, and what is in the way.
//!
//! A step is an answer of the model (two to six seconds) and a call that acts: `started`
//! is acknowledged before it, `done` after it, as in a session.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use haft_fleet_store::{ClaimJobs, FleetStore, JobFilter, JobState, Lease};
use serde_json::Value;

use crate::support::{
    jobs::*,
    servers::{Kind, Rig},
};

/// Processes of workers that the sessions are spread over; here they share one.
const WORKERS: usize = 4;
/// So long nobody gives them up, whatever the load.
const FOR_GOOD: Duration = Duration::from_secs(3_600);

#[derive(Clone, Copy)]
struct Simulated {
    sessions: usize,
    steps: usize,
    /// What an answer takes, in milliseconds.
    model_ms: (u64, u64),
}

/// What came of it.
struct Simulation {
    /// What the model took of all the time, from 0 to 1.
    share: f64,
    appends_per_second: f64,
    append_p50: Duration,
    append_p99: Duration,
    /// Processors that clients and engine used.
    client_cpu: f64,
    engine_cpu: f64,
}

struct SessionTimes {
    model: Duration,
    whole: Duration,
    appends: Vec<Duration>,
}

async fn session(store: Arc<FleetStore>, lease: Lease, simulated: Simulated) -> SessionTimes {
    let mut times = SessionTimes { model: Duration::ZERO, whole: Duration::ZERO, appends: Vec::new() };
    let begin = Instant::now();
    for step in 0..simulated.steps {
        let answer = Duration::from_millis(fastrand::u64(simulated.model_ms.0..=simulated.model_ms.1));
        tokio::time::sleep(answer).await;
        times.model += answer;
        for word in ["started", "done"] {
            let line = format!("{{\"{word}\":{step},\"text\":\"{}\"}}", "x".repeat(1_000));
            let asked = Instant::now();
            store.log.append(lease.key.clone(), vec![line]).await.unwrap();
            times.appends.push(asked.elapsed());
        }
    }
    times.whole = begin.elapsed();
    store.queue.end(lease.key, JobState::Done, None, Value::Null).await.unwrap();
    times
}

async fn simulate(rig: &Rig, simulated: Simulated) -> Simulation {
    let pool = fresh("sim");
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(Arc::new(rig.open().await));
    }
    let jobs: Vec<_> = (0..simulated.sessions).map(|_| job(&pool)).collect();
    for part in jobs.chunks(1_000) {
        submit(&workers[0], part).await;
    }
    let mut leases: Vec<(Arc<FleetStore>, Lease)> = Vec::new();
    for (number, worker) in workers.iter().enumerate() {
        let most = (simulated.sessions - leases.len()) / (WORKERS - number);
        let room = ClaimJobs { lease: FOR_GOOD, ..room(&fresh("w"), &pool, most as u32) };
        let taken = worker.queue.take(room).await.unwrap();
        leases.extend(taken.into_iter().map(|lease| (worker.clone(), lease)));
    }
    assert_eq!(leases.len(), simulated.sessions);
    let (begin, before) = (Instant::now(), cpu_of(rig));
    let sessions = leases.into_iter().map(|(store, lease)| tokio::spawn(session(store, lease, simulated)));
    let times: Vec<SessionTimes> =
        join_all(sessions.collect::<Vec<_>>()).await.into_iter().map(|it| it.unwrap()).collect();
    let (took, after) = (begin.elapsed().as_secs_f64(), cpu_of(rig));
    let counts =
        workers[0].queue.counts(JobFilter { pool: Some(pool), ..JobFilter::default() }).await.unwrap();
    assert_eq!(counts.of(JobState::Done), simulated.sessions as u64);
    let sum = |of: fn(&SessionTimes) -> Duration| times.iter().map(of).sum::<Duration>().as_secs_f64();
    let mut appends: Vec<Duration> = times.iter().flat_map(|it| it.appends.iter().copied()).collect();
    assert_eq!(appends.len(), simulated.sessions * simulated.steps * 2);
    appends.sort_unstable();
    Simulation {
        share: sum(|it| it.model) / sum(|it| it.whole),
        appends_per_second: appends.len() as f64 / took,
        append_p50: appends[appends.len() / 2],
        append_p99: appends[appends.len() * 99 / 100],
        client_cpu: (after.0 - before.0) / took,
        engine_cpu: (after.1 - before.1) / took,
    }
}

/// Seconds of processors that this process and the engine have used.
fn cpu_of(rig: &Rig) -> (f64, f64) {
    let ticks = |pid: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<u64> = text
            .rsplit_once(')')
            .map(|it| it.1.split(' ').filter_map(|it| it.parse().ok()).collect())
            .unwrap_or_default();
        // Of the process, and of children that have ended.
        fields.get(9..13).map_or(0, |it| it.iter().sum::<u64>()) as f64 / 100.0
    };
    let engine = rig.server.as_ref().and_then(|it| it.pid()).map_or(0.0, |pid| ticks(&pid.to_string()));
    (ticks("self"), engine)
}

/// What is in the way, in words.
fn bound(it: &Simulation) -> String {
    let cores = std::thread::available_parallelism().map_or(1.0, |it| it.get() as f64);
    let used = it.client_cpu + it.engine_cpu;
    if it.share >= 0.95 {
        return String::from("nothing yet");
    }
    let whose = if it.client_cpu > it.engine_cpu { "the clients'" } else { "the engine's" };
    if used >= cores * 0.85 {
        format!("the processors of this machine ({used:.1} of {cores:.0} used, mostly {whose})")
    } else {
        format!(
            "waiting for acknowledged writes ({:.0}/s, p50 {:?}); {used:.1} of {cores:.0} processors used here, the \
             rest is the disk's or the neighbours'",
            it.appends_per_second, it.append_p50
        )
    }
}

/// All lines of all sessions are there, and every job ends; the rate is for
/// `cargo xtask fleet-sim`.
async fn few_sessions(kind: Kind) {
    let Some(rig) = Rig::start(kind) else { return };
    let simulated = Simulated { sessions: 60, steps: 3, model_ms: (5, 40) };
    let came = simulate(&rig, simulated).await;
    assert!(came.share > 0.0 && came.share <= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_sessions_on_sqlite() {
    few_sessions(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_sessions_on_nats() {
    few_sessions(Kind::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_sessions_on_postgres() {
    few_sessions(Kind::Postgres).await;
}

/// `cargo xtask fleet-sim [SESSIONS…] [--engine E]`; takes minutes, so only when asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_as_asked() {
    let Ok(asked) = std::env::var("HAFT_FLEET_SIM") else {
        return crate::support::skip("a soak: cargo xtask fleet-sim runs it");
    };
    let engine = std::env::var("HAFT_FLEET_ENGINE").unwrap_or_default();
    for (word, kind) in [("sqlite", Kind::Sqlite), ("nats", Kind::Nats), ("postgres", Kind::Postgres)] {
        if !engine.is_empty() && engine != word {
            continue;
        }
        for sessions in asked.split(',').filter_map(|it| it.parse().ok()) {
            let Some(rig) = Rig::start(kind) else { continue };
            let it = simulate(&rig, Simulated { sessions, steps: 5, model_ms: (2_000, 6_000) }).await;
            eprintln!(
                "{kind:?}: {sessions} sessions at {:.1} % of the ideal rate; {:.0} appends/s, p50 {:?}, p99 {:?}; \
                 processors: clients {:.2}, engine {:.2}; bound by {}",
                it.share * 100.0,
                it.appends_per_second,
                it.append_p50,
                it.append_p99,
                it.client_cpu,
                it.engine_cpu,
                bound(&it)
            );
        }
    }
}
