//! Schedules, counters and token buckets.

use std::time::Duration;

use haft_fleet_store::{
    CounterLimit, FiringTime, FleetStore, JobFilter, MissedSlots, NewSchedule, PageOfJobs, ReserveOutcome,
    StoreError, TokenBucket,
};
use jiff::Timestamp;
use serde_json::json;

use crate::support::{jobs::*, servers::Rig};

pub async fn all(rig: &Rig) {
    let (store, other) = (rig.open().await, rig.open().await);
    slots_fire_once(&store, &other).await;
    schedules_are_kept(&store, &other).await;
    counters_are_shared(&store, &other).await;
    ceilings_hold(&store, &other).await;
    buckets_fill(&store, &other).await;
    frozen_for_all(&store, &other).await;
}

async fn slots_fire_once(store: &FleetStore, other: &FleetStore) {
    let now = Timestamp::now();
    for (missed, want) in [(MissedSlots::All, 10), (MissedSlots::Once, 1), (MissedSlots::Skip, 0)] {
        let pool = fresh("slots");
        // Half an hour before the next slot, so that a slow machine does not reach it.
        let from = now - Duration::from_secs(9 * 3_600 + 1_800);
        let schedule = NewSchedule {
            name: fresh("hourly"),
            when: FiringTime::Every { from, seconds: 3_600 },
            missed,
            head: job(&pool).head,
            body: json!({ "prompt": "x" }),
        };
        store.clockwork.schedule(schedule.clone()).await.unwrap();
        // Declared again, as at every start of a fleet: keeps its position.
        other.clockwork.schedule(schedule.clone()).await.unwrap();
        let ticks =
            (0..6).map(|it| if it % 2 == 0 { store.clockwork.tick() } else { other.clockwork.tick() });
        let fired: Vec<_> = futures_util::future::try_join_all(ticks).await.unwrap().concat();
        let mine = fired.iter().filter(|it| it.name == schedule.name).count();
        assert_eq!(mine, want, "{missed:?}");
        let filter = JobFilter { pool: Some(pool.clone()), ..JobFilter::default() };
        let jobs = other.queue.jobs(filter, PageOfJobs::default()).await.unwrap().jobs;
        assert_eq!(jobs.len(), want, "{missed:?}");
        let mut words: Vec<_> = jobs.iter().map(|it| it.head.dedup.clone().unwrap()).collect();
        words.dedup();
        assert_eq!(words.len(), want);
        assert!(words.iter().all(|it| it.starts_with(schedule.name.as_str())), "{words:?}");
        let known = store.clockwork.schedules().await.unwrap();
        let known = known.iter().find(|it| it.schedule.name == schedule.name).unwrap();
        assert!(known.next.unwrap() > now);
        if want > 0 {
            let lease = take(store, &fresh("w"), &pool, 1).await.remove(0);
            assert_eq!(lease.body, schedule.body);
        }
    }
}

async fn schedules_are_kept(store: &FleetStore, other: &FleetStore) {
    let pool = fresh("kept");
    let of = |when| NewSchedule {
        name: fresh("s"),
        when,
        missed: MissedSlots::Once,
        head: job(&pool).head,
        body: json!(null),
    };
    let once = of(FiringTime::At(Timestamp::now() - Duration::from_secs(5)));
    store.clockwork.schedule(once.clone()).await.unwrap();
    assert_eq!(other.clockwork.tick().await.unwrap().iter().filter(|it| it.name == once.name).count(), 1);
    let known = other.clockwork.schedules().await.unwrap();
    assert_eq!(known.iter().find(|it| it.schedule == once).unwrap().next, None);
    assert!(store.clockwork.unschedule(name("t"), once.name.clone()).await.unwrap());
    assert!(!other.clockwork.unschedule(name("t"), once.name).await.unwrap());
    let cron = |expression: &str, zone: &str| {
        of(FiringTime::Cron { expression: expression.into(), zone: zone.into() })
    };
    let good = cron("30 3 * * 1-5", "Europe/Berlin");
    store.clockwork.schedule(good.clone()).await.unwrap();
    assert!(
        other.clockwork.schedules().await.unwrap().iter().any(|it| it.schedule == good && it.next.is_some())
    );
    for bad in [
        cron("often", ""),
        cron("* * * * *", "Nowhere/None"),
        of(FiringTime::Every { from: Timestamp::now(), seconds: 0 }),
    ] {
        let refused = store.clockwork.schedule(bad).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
}

async fn counters_are_shared(store: &FleetStore, other: &FleetStore) {
    let key = fresh("counter").to_string();
    let adds =
        (0..40).map(|it| (if it % 2 == 0 { store } else { other }).clockwork.count(key.clone(), 3, None));
    let mut seen = futures_util::future::try_join_all(adds).await.unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (1..=40).map(|it| it * 3).collect::<Vec<i64>>(), "no add is lost or seen twice");
    assert_eq!(other.clockwork.counters(key.clone()).await.unwrap(), [(key.clone(), 120)]);
    assert_eq!(store.clockwork.count(key.clone(), -120, None).await.unwrap(), 0);
}

async fn ceilings_hold(store: &FleetStore, other: &FleetStore) {
    let (tenant, batch) = (fresh("tenant").to_string(), fresh("batch").to_string());
    let of = || {
        vec![
            CounterLimit { key: tenant.clone(), at_most: 1_000 },
            CounterLimit { key: batch.clone(), at_most: 100 },
        ]
    };
    let asks = (0..50).map(|it| (if it % 2 == 0 { store } else { other }).clockwork.reserve(7, of(), None));
    let answers = futures_util::future::try_join_all(asks).await.unwrap();
    assert_eq!(answers.iter().filter(|it| matches!(it, ReserveOutcome::Yes(_))).count(), 14);
    let no = answers.iter().find(|it| matches!(it, ReserveOutcome::No { .. })).unwrap();
    assert_eq!(*no, ReserveOutcome::No { key: batch.clone(), is: 98, at_most: 100 });
    assert_eq!(store.clockwork.counters(tenant.clone()).await.unwrap(), [(tenant, 98)], "all or none");
}

async fn buckets_fill(store: &FleetStore, other: &FleetStore) {
    let key = fresh("bucket").to_string();
    // One token per minute: the level hardly changes during the test.
    let bucket = TokenBucket { capacity: 100, per_minute: 1 };
    let first = store.clockwork.draw(key.clone(), 60, bucket).await.unwrap();
    assert_eq!((first.granted, first.retry_after), (60, None));
    let second = other.clockwork.draw(key.clone(), 60, bucket).await.unwrap();
    assert!((40..60).contains(&second.granted), "{second:?}");
    let wait = second.retry_after.expect("says when");
    assert!(wait <= Duration::from_secs(61 * 60), "{wait:?}");
    // Unused tokens are returned, excess usage makes the bucket negative.
    other.clockwork.settle(key.clone(), 50).await.unwrap();
    let third = store.clockwork.draw(key.clone(), 50, bucket).await.unwrap();
    assert_eq!(third.granted, 50);
    store.clockwork.settle(key.clone(), -1_000).await.unwrap();
    let owed = other.clockwork.draw(key.clone(), 1, bucket).await.unwrap();
    assert_eq!(owed.granted, 0);
    assert!(owed.retry_after.unwrap() > Duration::from_secs(60), "{owed:?}");
}

async fn frozen_for_all(store: &FleetStore, other: &FleetStore) {
    let key = fresh("frozen").to_string();
    let bucket = TokenBucket { capacity: 10, per_minute: 60 };
    assert_eq!(store.clockwork.frozen(key.clone()).await.unwrap(), None);
    store.clockwork.freeze(key.clone(), Duration::from_secs(600)).await.unwrap();
    store.clockwork.freeze(key.clone(), Duration::from_millis(10)).await.unwrap();
    let draw = other.clockwork.draw(key.clone(), 1, bucket).await.unwrap();
    assert_eq!(draw.granted, 0);
    assert!(draw.retry_after.unwrap() > Duration::from_secs(100), "{draw:?}");
    assert!(other.clockwork.frozen(key).await.unwrap().is_some());
    let key = fresh("frozen").to_string();
    store.clockwork.freeze(key.clone(), Duration::from_millis(300)).await.unwrap();
    until("the freeze ends", || async { other.clockwork.frozen(key.clone()).await.unwrap().is_none() }).await;
    assert_eq!(other.clockwork.draw(key, 1, bucket).await.unwrap().granted, 1);
}
