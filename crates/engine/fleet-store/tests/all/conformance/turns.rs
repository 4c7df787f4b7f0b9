//! Order of jobs: classes, tenants, concurrency keys, limits, pauses.

use std::time::Duration;

use haft_fleet_store::{
    FleetName, FleetStore, JobClass, JobState, LimitScope, NewJob, PauseScope, RunId, ScopeLimits, Submitted,
};
use serde_json::Value;

use crate::support::{jobs::*, servers::Rig};

pub async fn all(rig: &Rig) {
    let (store, other) = (rig.open().await, rig.open().await);
    classes_come_in_order(&store).await;
    tenants_take_turns(&store, &other).await;
    keys_run_alone(&store, &other).await;
    limits_hold(&store, &other).await;
    starts_are_paced(&store).await;
    paused_jobs_wait(&store, &other).await;
    times_are_waited_for(&store).await;
    too_many_are_refused_with_a_number(&store, &other).await;
}

async fn order(store: &FleetStore, pool: &FleetName, most: u32) -> Vec<RunId> {
    take(store, &fresh("w"), pool, most).await.into_iter().map(|it| it.key.run).collect()
}

fn ids(jobs: &[&NewJob]) -> Vec<RunId> {
    jobs.iter().map(|it| it.head.id.clone()).collect()
}

async fn classes_come_in_order(store: &FleetStore) {
    let pool = fresh("classes");
    let of = |class| with(job(&pool), |it| it.class = class);
    let (bulk, normal, late) = (of(JobClass::Bulk), of(JobClass::Normal), of(JobClass::Normal));
    let urgent = of(JobClass::Urgent);
    for new in [&bulk, &normal, &late, &urgent] {
        submit(store, std::slice::from_ref(new)).await;
    }
    assert_eq!(order(store, &pool, 9).await, ids(&[&urgent, &normal, &late, &bulk]));
}

async fn tenants_take_turns(store: &FleetStore, other: &FleetStore) {
    let pool = fresh("fair");
    let of = |tenant: &str| with(job(&pool), |it| it.tenant = name(tenant));
    let many: Vec<NewJob> = (0..300).map(|_| of("many")).collect();
    submit(store, &many).await;
    assert_eq!(order(store, &pool, 50).await.len(), 50);
    let few: Vec<NewJob> = (0..10).map(|_| of("few")).collect();
    submit(other, &few).await;
    // A tenant that was served little gets all slots until it has caught up.
    assert_eq!(order(store, &pool, 10).await, ids(&few.iter().collect::<Vec<_>>()));
    assert_eq!(order(store, &pool, 5).await, ids(&many[50..55].iter().collect::<Vec<_>>()));
    // Two tenants with the same share alternate.
    let pool = fresh("fair");
    let of = |tenant: &str| with(job(&pool), |it| it.tenant = name(tenant));
    let (a, b): (Vec<NewJob>, Vec<NewJob>) = (0..4).map(|_| (of("a"), of("b"))).unzip();
    submit(store, &a).await;
    submit(store, &b).await;
    let want: Vec<&NewJob> = a.iter().zip(&b).flat_map(|(a, b)| [a, b]).collect();
    assert_eq!(order(store, &pool, 8).await, ids(&want));
}

async fn keys_run_alone(store: &FleetStore, other: &FleetStore) {
    let (pool, worker) = (fresh("keys"), fresh("w"));
    let of = |key: &str| with(job(&pool), |it| it.concurrency_key = Some(key.to_owned()));
    let (a1, a2, b1) = (of("a"), of("a"), of("b"));
    let other_tenant = with(of("a"), |it| it.tenant = name("u"));
    submit(store, &[a1.clone(), a2.clone(), b1.clone(), other_tenant.clone()]).await;
    let taken = take(other, &worker, &pool, 9).await;
    let mut runs: Vec<RunId> = taken.iter().map(|it| it.key.run.clone()).collect();
    let mut want = ids(&[&a1, &b1, &other_tenant]);
    runs.sort();
    want.sort();
    assert_eq!(runs, want);
    let first = taken.into_iter().find(|it| it.key.run == id(&a1)).unwrap();
    other.queue.end(first.key, JobState::Done, None, Value::Null).await.unwrap();
    assert_eq!(order(store, &pool, 9).await, ids(&[&a2]));
}

async fn limits_hold(store: &FleetStore, other: &FleetStore) {
    let scopes: [fn(&FleetName, &FleetName, &FleetName) -> LimitScope; 3] = [
        |tenant, _, _| LimitScope::Tenant(tenant.clone()),
        |_, pool, _| LimitScope::Pool(pool.clone()),
        |tenant, _, batch| LimitScope::Batch(tenant.clone(), batch.clone()),
    ];
    for scope in scopes {
        let (tenant, pool, batch, worker) = (fresh("tenant"), fresh("pool"), fresh("batch"), fresh("w"));
        let of = || {
            with(job(&pool), |it| {
                it.tenant = tenant.clone();
                it.batch = Some(batch.clone());
            })
        };
        let scope = scope(&tenant, &pool, &batch);
        let limits = ScopeLimits { max_running: Some(2), ..ScopeLimits::default() };
        store.queue.set_limits(scope.clone(), limits).await.unwrap();
        assert!(other.queue.limits().await.unwrap().contains(&(scope.clone(), limits)));
        submit(store, &[of(), of(), of(), of()]).await;
        let mut taken = take(other, &worker, &pool, 9).await;
        assert_eq!(taken.len(), 2, "{scope:?}");
        other.queue.end(taken.remove(0).key, JobState::Done, None, Value::Null).await.unwrap();
        assert_eq!(take(other, &worker, &pool, 9).await.len(), 1, "{scope:?}");
        store.queue.set_limits(scope.clone(), ScopeLimits::default()).await.unwrap();
        assert_eq!(take(other, &worker, &pool, 9).await.len(), 1, "{scope:?}");
    }
}

async fn starts_are_paced(store: &FleetStore) {
    let (pool, worker) = (fresh("paced"), fresh("w"));
    let limits = ScopeLimits { starts_per_1000s: Some(4_000), ..ScopeLimits::default() };
    store.queue.set_limits(LimitScope::Pool(pool.clone()), limits).await.unwrap();
    let jobs: Vec<NewJob> = (0..8).map(|_| job(&pool)).collect();
    submit(store, &jobs).await;
    let begin = std::time::Instant::now();
    assert_eq!(take(store, &worker, &pool, 8).await.len(), 4, "a second's worth starts at once");
    for _ in 0..4 {
        take_within(store, &worker, &pool, WAITS).await;
    }
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
}

async fn paused_jobs_wait(store: &FleetStore, other: &FleetStore) {
    let (pool, batch) = (fresh("paused"), fresh("batch"));
    let of_batch = || with(job(&pool), |it| it.batch = Some(batch.clone()));
    let (one, alone) = (of_batch(), job(&pool));
    submit(store, &[one.clone(), alone.clone()]).await;
    let of = PauseScope::Batch(name("t"), batch.clone());
    store.queue.pause(of.clone()).await.unwrap();
    store.queue.pause(PauseScope::Run(id(&alone))).await.unwrap();
    let later = of_batch();
    submit(store, std::slice::from_ref(&later)).await;
    assert!(order(other, &pool, 9).await.is_empty());
    assert!(record(other, &id(&later)).await.paused && record(other, &id(&alone)).await.paused);
    other.queue.resume(PauseScope::Run(id(&alone))).await.unwrap();
    assert_eq!(order(other, &pool, 9).await, ids(&[&alone]));
    other.queue.resume(of).await.unwrap();
    assert_eq!(order(store, &pool, 9).await, ids(&[&one, &later]));
}

async fn times_are_waited_for(store: &FleetStore) {
    let (pool, worker) = (fresh("times"), fresh("w"));
    submit(store, &[job(&pool)]).await;
    let now = take(store, &worker, &pool, 1).await;
    let moment = record(store, &now[0].key.run).await.changed_at;
    let mut never = job(&pool);
    never.not_before = Some(moment + Duration::from_secs(3_600));
    let mut late = job(&pool);
    late.not_before = Some(moment + Duration::from_millis(700));
    submit(store, &[never, late.clone()]).await;
    let lease = take_within(store, &worker, &pool, WAITS).await;
    assert_eq!(lease.key.run, id(&late));
    assert!(take(store, &worker, &pool, 1).await.is_empty());
    assert!(record(store, &lease.key.run).await.changed_at >= late.not_before.unwrap());
}

async fn too_many_are_refused_with_a_number(store: &FleetStore, other: &FleetStore) {
    let pool = fresh("full");
    let limits = ScopeLimits { max_waiting: Some(3), ..ScopeLimits::default() };
    store.queue.set_limits(LimitScope::Pool(pool.clone()), limits).await.unwrap();
    submit(store, &[job(&pool), job(&pool)]).await;
    let answers = other.queue.submit(vec![job(&pool), job(&pool)]).await.unwrap();
    let [Submitted::Full { scope, waiting, bound, retry_after }, second] = answers.as_slice() else {
        panic!("{answers:?}")
    };
    assert_eq!((scope.as_str(), *waiting, *bound), (format!("pool {pool}").as_str(), 2, 3));
    assert!(*retry_after >= Duration::from_secs(1) && *second == answers[0]);
    let held = take(store, &fresh("w"), &pool, 9).await;
    assert_eq!(held.len(), 2, "all or nothing");
    submit(other, &[job(&pool), job(&pool), job(&pool)]).await;
}
