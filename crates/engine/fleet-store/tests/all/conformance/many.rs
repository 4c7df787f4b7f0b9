//! Ten thousand jobs, and clients that join later.

use std::{collections::BTreeSet, time::Instant};

use haft_fleet_store::{FleetStore, JobFilter, JobState, NewJob, PageOfJobs, RunId};
use serde_json::{Value, json};

use crate::support::{jobs::*, servers::Rig};

pub async fn all(rig: &Rig) {
    let store = rig.open().await;
    ten_thousand_wait(rig, &store).await;
    history_is_cut_short(rig, &store).await;
}

async fn ten_thousand_wait(rig: &Rig, store: &FleetStore) {
    let (pool, batch) = (fresh("many"), fresh("batch"));
    let jobs: Vec<NewJob> = (0..10_000)
        .map(|number| {
            let mut new = with(job(&pool), |it| {
                it.batch = Some(batch.clone());
                it.dedup = Some(format!("{batch}/{number}"));
            });
            new.body = json!({ "prompt": "migrate it ".repeat(100), "number": number });
            new
        })
        .collect();
    let begin = Instant::now();
    for part in jobs.chunks(2_500) {
        submit(store, part).await;
    }
    let submitted = begin.elapsed();
    // A new client: opens the store, counts jobs, takes one.
    let begin = Instant::now();
    let late = rig.open().await;
    let opened = begin.elapsed();
    let of_batch = JobFilter { batch: Some(batch.clone()), ..JobFilter::default() };
    let begin = Instant::now();
    assert_eq!(late.queue.counts(of_batch.clone()).await.unwrap().of(JobState::Queued), 10_000);
    let counted = begin.elapsed();
    let begin = Instant::now();
    let lease = take(&late, &fresh("w"), &pool, 1).await.remove(0);
    let started = begin.elapsed();
    assert_eq!(lease.body, jobs[0].body);
    eprintln!("10,000: submit {submitted:?}, open {opened:?}, counts {counted:?}, start {started:?}");
    // Pages: all jobs, once, in order.
    let (mut seen, mut after): (Vec<RunId>, Option<RunId>) = (Vec::new(), None);
    loop {
        let page = store
            .queue
            .jobs(of_batch.clone(), PageOfJobs { after: after.take(), most: 3_000 })
            .await
            .unwrap();
        seen.extend(page.jobs.into_iter().map(|it| it.head.id));
        after = seen.last().cloned();
        if !page.more {
            break;
        }
    }
    assert!(seen.iter().zip(&jobs).all(|(seen, job)| *seen == job.head.id) && seen.len() == jobs.len());
    // Submitting the same jobs again changes nothing.
    let again: Vec<NewJob> =
        jobs[..2_000].iter().map(|it| with(it.clone(), |it| it.id = RunId::random())).collect();
    store.queue.submit(again).await.unwrap();
    assert_eq!(store.queue.counts(of_batch).await.unwrap().all(), 10_000);
}

async fn history_is_cut_short(rig: &Rig, store: &FleetStore) {
    // Long enough that entries are deleted behind a snapshot, also while others follow.
    let (pool, worker, other) = (fresh("history"), fresh("w"), rig.open().await);
    let mut ended = BTreeSet::new();
    for _ in 0..130 {
        let jobs: Vec<NewJob> = (0..8).map(|_| job(&pool)).collect();
        let each = jobs.iter().map(|it| store.queue.submit(vec![it.clone()]));
        futures_util::future::try_join_all(each).await.unwrap();
        let taken = take(store, &worker, &pool, 8).await;
        let ends = taken.iter().map(|it| store.queue.end(it.key.clone(), JobState::Done, None, Value::Null));
        futures_util::future::try_join_all(ends).await.unwrap();
        ended.extend(taken.into_iter().map(|it| it.key.run));
    }
    assert_eq!(ended.len(), 1_040);
    let filter = JobFilter { pool: Some(pool), ..JobFilter::default() };
    for reader in [&other, &rig.open().await, store] {
        let counts = reader.queue.counts(filter.clone()).await.unwrap();
        assert_eq!((counts.of(JobState::Done), counts.all()), (1_040, 1_040));
    }
}
