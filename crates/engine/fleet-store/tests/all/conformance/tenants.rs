//! Isolation of tenants.

use bytes::Bytes;
use futures_util::StreamExt;
use haft_fleet_store::{
    ClaimJobs, FleetStore, JobFilter, NewControl, PageOfJobs, PauseScope, Requeue, RunId, StoreError,
};
use serde_json::json;

use crate::support::{jobs::*, servers::Rig};

pub async fn all(rig: &Rig) {
    let store = rig.open().await;
    strangers_find_nothing(&store).await;
}

/// Formats a result, or the error for a job that never existed, without the id.
fn words<T: std::fmt::Debug>(answer: Result<T, StoreError>, run: &RunId) -> String {
    format!("{answer:?}").replace(run.as_str(), "ID")
}

async fn strangers_find_nothing(store: &FleetStore) {
    let (pool, a, b) = (fresh("apart"), fresh("a"), fresh("b"));
    let new = with(job(&pool), |it| {
        it.tenant = a.clone();
        it.dedup = Some(String::from("same words"));
    });
    let (mine, theirs) = (store.for_tenant(a.clone()), store.for_tenant(b.clone()));
    submit(&mine, std::slice::from_ref(&new)).await;
    let blob = mine.blobs.put(a.clone(), Bytes::from_static(b"mine"), None).await.unwrap();
    mine.log.control(id(&new), NewControl { id: String::from("x"), body: json!(1) }).await.unwrap();
    let (real, never) = (id(&new), RunId::random());
    let mut answers = [Vec::new(), Vec::new()];
    for (run, answers) in [&real, &never].into_iter().zip(&mut answers) {
        let entry = NewControl { id: String::from("y"), body: json!(2) };
        *answers = vec![
            words(theirs.queue.cancel(run.clone(), String::new()).await, run),
            words(theirs.queue.requeue(run.clone(), Requeue::Resume).await, run),
            words(theirs.queue.pause(PauseScope::Run(run.clone())).await, run),
            words(theirs.queue.resume(PauseScope::Run(run.clone())).await, run),
            words(theirs.queue.body(run.clone()).await, run),
            words(theirs.log.read(run.clone(), 0, 9).await, run),
            words(theirs.log.end(run.clone()).await, run),
            words(theirs.log.control(run.clone(), entry).await, run),
            words(theirs.log.controls(run.clone(), 0).await, run),
            words(theirs.log.follow(run.clone(), 0).next().await.unwrap(), run),
            words(theirs.log.follow_controls(run.clone(), 0).next().await.unwrap(), run),
            words(theirs.log.follow_live(run.clone()).next().await.unwrap(), run),
            words(
                theirs
                    .queue
                    .jobs(JobFilter::default(), PageOfJobs { after: Some(run.clone()), most: 9 })
                    .await,
                run,
            ),
        ];
    }
    assert_eq!(answers[0], answers[1], "another's job can be told from none");
    assert!(answers[0].iter().all(|it| it.contains("Err")), "{answers:?}");
    for filter in [
        JobFilter::default(),
        JobFilter { tenant: Some(a.clone()), ..JobFilter::default() },
        JobFilter { ids: Some(vec![real.clone()]), ..JobFilter::default() },
    ] {
        assert!(theirs.queue.jobs(filter.clone(), PageOfJobs::default()).await.unwrap().jobs.is_empty());
        assert_eq!(theirs.queue.counts(filter).await.unwrap().all(), 0);
    }
    assert!(theirs.blobs.get(a.clone(), blob).await.is_err());
    assert!(theirs.blobs.get(b.clone(), blob).await.is_err());
    assert!(theirs.queue.submit(vec![with(job(&pool), |it| it.tenant = a.clone())]).await.is_err());
    assert!(theirs.clockwork.counters(String::new()).await.is_err());
    assert!(theirs.clockwork.count(format!("tenant/{a}/spent"), 1, None).await.is_err());
    assert!(theirs.queue.take(ClaimJobs { ..room(&fresh("w"), &pool, 1) }).await.is_err());
    assert!(theirs.queue.workers().await.is_err());
    // The same deduplication key of another tenant is another job.
    submit(
        &theirs,
        &[with(job(&pool), |it| {
            it.tenant = b.clone();
            it.dedup = Some(String::from("same words"));
        })],
    )
    .await;
    assert_eq!(mine.queue.counts(JobFilter::default()).await.unwrap().all(), 1);
    assert_eq!(mine.log.controls(real.clone(), 0).await.unwrap().len(), 1);
    mine.queue.cancel(real, String::from("mine")).await.unwrap();
}
