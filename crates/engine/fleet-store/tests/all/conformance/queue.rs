//! Submitting, taking and ending jobs; fencing.

use std::time::{Duration, Instant};

use bytes::Bytes;
use haft_fleet_store::{
    CancelledJob, ClaimJobs, FleetStore, JobState, LeaseRenewal, PageOfJobs, Requeue, StoreError, Submitted,
};
use serde_json::{Value, json};

use crate::support::{jobs::*, servers::Rig};

pub async fn all(rig: &Rig) {
    let (store, other) = (rig.open().await, rig.open().await);
    a_job_lives(&store, &other).await;
    the_same_is_known(&store, &other).await;
    bodies_come_back(&store, &other).await;
    stale_keys_do_nothing(&store, &other).await;
    signs_of_life_keep_jobs(&store, &other).await;
    forgotten_jobs_come_back(&store).await;
    released_jobs_wait(&store).await;
    leaving_gives_back(&store, &other).await;
    cancel_in_every_state(&store, &other).await;
    requeued_jobs_begin_where_asked(&store).await;
    stalled_takeovers_are_counted(&store).await;
    waiting_takers_are_woken(&store, &other).await;
    waiting_takers_outlive_their_lease(&store, &other).await;
    ended_jobs_can_be_forgotten(&store, &other).await;
}

async fn a_job_lives(store: &FleetStore, other: &FleetStore) {
    let (pool, worker) = (fresh("lives"), fresh("w"));
    let new = with(job(&pool), |it| {
        it.labels.insert(String::from("repo"), String::from("x"));
    });
    submit(store, std::slice::from_ref(&new)).await;
    assert_eq!(record(other, &id(&new)).await.state, JobState::Queued);
    let lease = take(other, &worker, &pool, 5).await.remove(0);
    assert_eq!((lease.head.clone(), lease.body.clone()), (new.head.clone(), new.body.clone()));
    assert_eq!((lease.deliveries, lease.lost, lease.stalled, lease.log_end), (1, 0, 0, 0));
    assert!(take(store, &fresh("w"), &pool, 5).await.is_empty(), "a job was given out twice");
    other.queue.report(lease.key.clone(), JobState::Running, json!({ "turn": 1 })).await.unwrap();
    let running = record(store, &id(&new)).await;
    assert_eq!(
        (running.state, running.summary, running.worker),
        (JobState::Running, json!({ "turn": 1 }), Some(worker))
    );
    other.queue.end(lease.key.clone(), JobState::Done, None, json!("well")).await.unwrap();
    // A retry, as after a lost acknowledgement.
    other.queue.end(lease.key.clone(), JobState::Done, None, json!("well")).await.unwrap();
    let done = record(store, &id(&new)).await;
    assert_eq!((done.state, done.summary, done.epoch), (JobState::Done, json!("well"), lease.key.epoch));
    let late = other.queue.end(lease.key.clone(), JobState::Failed, None, Value::Null).await;
    assert!(matches!(late, Err(StoreError::Stale { .. })), "{late:?}");
}

async fn the_same_is_known(store: &FleetStore, other: &FleetStore) {
    let pool = fresh("known");
    let words = |words: &str| with(job(&pool), |it| it.dedup = Some(words.to_owned()));
    let (a, b) = (words("a"), words("b"));
    submit(store, &[a.clone(), b.clone()]).await;
    let again =
        [words("a"), words("c"), words("c"), b.clone(), with(words("a"), |it| it.tenant = name("another"))];
    let answers = other.queue.submit(again.to_vec()).await.unwrap();
    let want = [
        Submitted::Known(id(&a)),
        Submitted::Queued,
        Submitted::Known(id(&again[1])),
        Submitted::Known(id(&b)),
        Submitted::Queued,
    ];
    assert_eq!(answers, want);
    assert_eq!(take(store, &fresh("w"), &pool, 50).await.len(), 4);
}

async fn bodies_come_back(store: &FleetStore, other: &FleetStore) {
    let pool = fresh("bodies");
    for size in [0, 100, 5_000, 700_000, 3_000_000] {
        let mut new = job(&pool);
        new.body = json!({ "text": "ä".repeat(size / 2) });
        submit(store, std::slice::from_ref(&new)).await;
        assert_eq!(other.queue.body(id(&new)).await.unwrap(), new.body);
        let lease = take(other, &fresh("w"), &pool, 1).await.remove(0);
        assert_eq!(lease.body, new.body, "{size}");
        other.queue.end(lease.key, JobState::Done, None, new.body.clone()).await.unwrap();
        assert_eq!(record(store, &id(&new)).await.summary, new.body);
    }
    let unknown = store.queue.body(haft_fleet_store::RunId::random()).await;
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
}

async fn stale_keys_do_nothing(store: &FleetStore, other: &FleetStore) {
    let (stale, lease) = taken_over(store, other).await;
    assert_eq!((lease.deliveries, lease.lost), (2, 1));
    other.log.append(lease.key.clone(), vec![String::from("mine")]).await.unwrap();
    let before = record(other, &stale.run).await;
    let queue = &store.queue;
    let blob = Bytes::from_static(b"late");
    let answers = [
        ("append", store.log.append(stale.clone(), vec![String::from("late")]).await.err()),
        ("report", queue.report(stale.clone(), JobState::Running, Value::Null).await.err()),
        ("end", queue.end(stale.clone(), JobState::Done, None, Value::Null).await.err()),
        ("park", queue.park(stale.clone(), String::from("x"), Value::Null).await.err()),
        ("release", queue.release(stale.clone(), Duration::ZERO, String::new()).await.err()),
        ("upload", store.blobs.put(name("t"), blob, Some(stale.clone())).await.err()),
        ("count", store.clockwork.count(String::from("spent"), 5, Some(stale.clone())).await.err()),
        ("reserve", store.clockwork.reserve(5, Vec::new(), Some(stale.clone())).await.err()),
    ];
    for (what, answer) in answers {
        assert!(matches!(answer, Some(StoreError::Stale { .. })), "{what}: {answer:?}");
    }
    let renewed =
        queue.renew(before.worker.clone().unwrap(), vec![stale.clone(), lease.key.clone()], LEASE).await;
    assert_eq!(renewed.unwrap(), [LeaseRenewal::Lost, LeaseRenewal::Held { cancel_asked: false }]);
    assert_eq!(record(other, &stale.run).await, before);
    assert!(store.clockwork.counters(String::from("spent")).await.unwrap().is_empty());
    let lines = store.log.read(stale.run, 0, 10).await.unwrap();
    assert_eq!(lines.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), ["mine"]);
    other.queue.end(lease.key, JobState::Done, None, Value::Null).await.unwrap();
}

async fn signs_of_life_keep_jobs(store: &FleetStore, other: &FleetStore) {
    let lease = Duration::from_millis(800);
    let eager = fresh("w");
    // Retry until the machine was fast enough for all renewals to be in time.
    let (pool, worker, held) = loop {
        let (pool, worker) = (fresh("renewed"), fresh("w"));
        submit(store, &[job(&pool)]).await;
        let mut sign = Instant::now();
        let held = store.queue.take(ClaimJobs { lease, ..room(&worker, &pool, 1) }).await.unwrap().remove(0);
        let waiting = other.queue.take(ClaimJobs { wait: lease * 3, ..room(&eager, &pool, 1) });
        let renewing = async {
            let (mut longest, begin) = (Duration::ZERO, sign);
            let mut is_held = true;
            while begin.elapsed() < lease * 3 && is_held {
                tokio::time::sleep(lease / 8).await;
                let now = Instant::now();
                let answer = store.queue.renew(worker.clone(), vec![held.key.clone()], lease).await.unwrap();
                is_held = answer == [LeaseRenewal::Held { cancel_asked: false }];
                longest = longest.max(sign.elapsed());
                sign = now;
            }
            (is_held, longest)
        };
        let (taken, (is_held, longest)) = tokio::join!(waiting, renewing);
        if is_held && taken.unwrap().is_empty() {
            break (pool, worker, held);
        }
        // A waiting worker may check once more after the last renewal.
        let longest = longest.max(sign.elapsed());
        assert!(longest >= lease, "a lease that was renewed within {longest:?} was given away");
    };
    // Without renewals the lease expires.
    let next = take_within(other, &eager, &pool, WAITS).await;
    assert_eq!(next.key.run, held.key.run);
    let answer = store.queue.renew(worker, vec![held.key], lease).await.unwrap();
    assert_eq!(answer, [LeaseRenewal::Lost]);
    other.queue.end(next.key, JobState::Done, None, Value::Null).await.unwrap();
}

async fn forgotten_jobs_come_back(store: &FleetStore) {
    let (pool, worker) = (fresh("forgotten"), fresh("w"));
    submit(store, &[job(&pool), job(&pool)]).await;
    let taken = take(store, &worker, &pool, 2).await;
    for _ in 0..3 {
        store.queue.renew(worker.clone(), vec![taken[1].key.clone()], LEASE).await.unwrap();
    }
    let again = take(store, &worker, &pool, 2).await;
    assert_eq!(again.iter().map(|it| &it.key.run).collect::<Vec<_>>(), [&taken[0].key.run]);
    assert_eq!(again[0].lost, 1);
}

async fn released_jobs_wait(store: &FleetStore) {
    let (pool, worker) = (fresh("released"), fresh("w"));
    submit(store, &[job(&pool)]).await;
    let lease = take(store, &worker, &pool, 1).await.remove(0);
    store.queue.release(lease.key.clone(), Duration::from_secs(3_600), String::from("limit")).await.unwrap();
    let waits = record(store, &lease.key.run).await;
    assert_eq!((waits.state, waits.reason.as_deref(), waits.lost), (JobState::Queued, Some("limit"), 0));
    assert!(waits.not_before.is_some());
    assert!(take(store, &worker, &pool, 1).await.is_empty());
    let pool = fresh("released");
    submit(store, &[job(&pool)]).await;
    let lease = take(store, &worker, &pool, 1).await.remove(0);
    store.queue.release(lease.key.clone(), Duration::from_millis(200), String::from("limit")).await.unwrap();
    let again = take_within(store, &worker, &pool, WAITS).await;
    assert_eq!((again.key.run, again.deliveries), (lease.key.run, 2));
}

async fn leaving_gives_back(store: &FleetStore, other: &FleetStore) {
    let (pool, worker) = (fresh("leaving"), fresh("w"));
    submit(store, &[job(&pool), job(&pool)]).await;
    let held = take(store, &worker, &pool, 2).await;
    let known =
        |workers: Vec<haft_fleet_store::WorkerRecord>| workers.into_iter().find(|it| it.worker == worker);
    assert_eq!(known(other.queue.workers().await.unwrap()).unwrap().holds, 2);
    store.queue.leave(worker.clone()).await.unwrap();
    assert!(known(other.queue.workers().await.unwrap()).is_none());
    let next = take(other, &fresh("w"), &pool, 2).await;
    assert_eq!((next.len(), next[0].lost), (held.len(), 0));
    let late = store.log.append(held[0].key.clone(), vec![String::from("late")]).await;
    assert!(matches!(late, Err(StoreError::Stale { .. })), "{late:?}");
}

async fn cancel_in_every_state(store: &FleetStore, other: &FleetStore) {
    let (pool, worker) = (fresh("cancel"), fresh("w"));
    let cancel = |run: &haft_fleet_store::RunId| other.queue.cancel(run.clone(), String::from("enough"));
    // State queued.
    let queued = job(&pool);
    submit(store, std::slice::from_ref(&queued)).await;
    assert_eq!(cancel(&id(&queued)).await.unwrap(), CancelledJob::AtOnce);
    assert_eq!(cancel(&id(&queued)).await.unwrap(), CancelledJob::Already(JobState::Cancelled));
    assert!(take(store, &worker, &pool, 1).await.is_empty());
    assert_eq!(record(store, &id(&queued)).await.reason.as_deref(), Some("enough"));
    for state in [JobState::Starting, JobState::Running, JobState::Waiting] {
        submit(store, &[job(&pool)]).await;
        let lease = take(store, &worker, &pool, 1).await.remove(0);
        store.queue.report(lease.key.clone(), state, Value::Null).await.unwrap();
        assert_eq!(cancel(&lease.key.run).await.unwrap(), CancelledJob::Asked);
        assert_eq!(cancel(&lease.key.run).await.unwrap(), CancelledJob::Asked);
        let said = store.log.controls(lease.key.run.clone(), 0).await.unwrap();
        assert_eq!(said.len(), 1, "the cancel is said once");
        let id = haft_fleet_store::cancel_control(lease.key.epoch);
        assert_eq!((&said[0].id, &said[0].body["reason"]), (&id, &json!("enough")));
        let renewed = store.queue.renew(worker.clone(), vec![lease.key.clone()], LEASE).await.unwrap();
        assert_eq!(renewed, [LeaseRenewal::Held { cancel_asked: true }]);
        // The worker ends the job before it sees the cancellation: done, and not cancelled in addition.
        let end = if state == JobState::Waiting { JobState::Done } else { JobState::Cancelled };
        store.queue.end(lease.key.clone(), end, None, Value::Null).await.unwrap();
        assert_eq!(cancel(&lease.key.run).await.unwrap(), CancelledJob::Already(end));
        assert_eq!(record(store, &lease.key.run).await.state, end);
    }
    // Cancellation requested and then released by its worker: cancelled.
    submit(store, &[job(&pool)]).await;
    let lease = take(store, &worker, &pool, 1).await.remove(0);
    cancel(&lease.key.run).await.unwrap();
    store.queue.release(lease.key.clone(), Duration::ZERO, String::from("drained")).await.unwrap();
    assert_eq!(record(store, &lease.key.run).await.state, JobState::Cancelled);
    // State parked.
    submit(store, &[job(&pool)]).await;
    let lease = take(store, &worker, &pool, 1).await.remove(0);
    store.queue.park(lease.key.clone(), String::from("poison"), json!(["last words"])).await.unwrap();
    let parked = record(other, &lease.key.run).await;
    assert_eq!((parked.state, parked.reason.as_deref()), (JobState::Parked, Some("poison")));
    assert_eq!(cancel(&lease.key.run).await.unwrap(), CancelledJob::AtOnce);
    let unknown = cancel(&haft_fleet_store::RunId::random()).await;
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
}

async fn requeued_jobs_begin_where_asked(store: &FleetStore) {
    let (pool, worker) = (fresh("requeue"), fresh("w"));
    submit(store, &[job(&pool)]).await;
    let mut begins = Vec::new();
    for how in [Requeue::Resume, Requeue::Fresh] {
        let lease = take(store, &worker, &pool, 1).await.remove(0);
        begins.push((lease.log_begin, lease.log_end));
        let held = store.queue.requeue(lease.key.run.clone(), how).await;
        assert!(matches!(held, Err(StoreError::Refused(_))), "{held:?}");
        store.log.append(lease.key.clone(), vec![String::from("a"), String::from("b")]).await.unwrap();
        store
            .queue
            .end(lease.key.clone(), JobState::Failed, Some(String::from("x")), Value::Null)
            .await
            .unwrap();
        store.queue.requeue(lease.key.run.clone(), how).await.unwrap();
        assert_eq!(record(store, &lease.key.run).await.state, JobState::Queued);
    }
    let lease = take(store, &worker, &pool, 1).await.remove(0);
    begins.push((lease.log_begin, lease.log_end));
    assert_eq!(begins, [(0, 0), (0, 2), (4, 4)]);
}

async fn stalled_takeovers_are_counted(store: &FleetStore) {
    let pool = fresh("stalled");
    submit(store, &[job(&pool)]).await;
    let mut stalled = Vec::new();
    for has_line in [false, false, true, true, false, false] {
        let worker = fresh("w");
        let lease = take(store, &worker, &pool, 1).await.remove(0);
        stalled.push(lease.stalled);
        if has_line {
            store.log.append(lease.key, vec![String::from("a line")]).await.unwrap();
        }
        store.queue.leave(worker).await.unwrap();
    }
    assert_eq!(stalled, [0, 1, 2, 0, 0, 1]);
}

async fn waiting_takers_are_woken(store: &FleetStore, other: &FleetStore) {
    let (pool, worker) = (fresh("woken"), fresh("w"));
    let late = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        submit(store, &[job(&pool)]).await;
    };
    let begin = Instant::now();
    let (lease, ()) = tokio::join!(take_within(other, &worker, &pool, WAITS * 2), late);
    assert!(begin.elapsed() < WAITS, "woken after {:?}", begin.elapsed());
    assert_eq!(lease.deliveries, 1);
    let nothing =
        other.queue.take(ClaimJobs { wait: Duration::from_millis(100), ..room(&worker, &pool, 1) }).await;
    assert!(nothing.unwrap().is_empty());
}

async fn waiting_takers_outlive_their_lease(store: &FleetStore, other: &FleetStore) {
    let (pool, worker) = (fresh("waits"), fresh("w"));
    let lease = Duration::from_millis(200);
    let wait = WAITS;
    let late = async {
        tokio::time::sleep(lease * 5).await;
        submit(other, &[job(&pool)]).await;
    };
    let waiting = store.queue.take(ClaimJobs { lease, wait, ..room(&worker, &pool, 1) });
    let (taken, ()) = tokio::join!(waiting, late);
    assert_eq!(taken.unwrap().len(), 1);
}

async fn ended_jobs_can_be_forgotten(store: &FleetStore, other: &FleetStore) {
    let (pool, worker) = (fresh("forget"), fresh("w"));
    let (old, young) = (job(&pool), job(&pool));
    submit(store, std::slice::from_ref(&old)).await;
    let lease = take(store, &worker, &pool, 1).await.remove(0);
    store.log.append(lease.key.clone(), vec![String::from("x")]).await.unwrap();
    store.queue.end(lease.key, JobState::Done, None, Value::Null).await.unwrap();
    let moment = record(store, &id(&old)).await.changed_at + Duration::from_millis(1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    submit(store, std::slice::from_ref(&young)).await;
    assert!(store.queue.forget(moment).await.unwrap() >= 1);
    let filter = haft_fleet_store::JobFilter { pool: Some(pool), ..Default::default() };
    let left = other.queue.jobs(filter, PageOfJobs::default()).await.unwrap().jobs;
    assert_eq!(left.iter().map(|it| &it.head.id).collect::<Vec<_>>(), [&id(&young)]);
    assert!(other.log.read(id(&old), 0, 10).await.unwrap().is_empty());
}
