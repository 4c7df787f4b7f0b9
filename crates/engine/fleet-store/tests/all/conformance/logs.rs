//! Logs, control entries and blobs.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use haft_fleet_store::{BlobHash, FleetStore, JobState, LeaseKey, LogLine, NewControl, RunId, StoreError};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{jobs::*, servers::Rig};

pub async fn all(rig: &Rig) {
    let (store, other) = (rig.open().await, rig.open().await);
    lines_come_back(&store, &other).await;
    big_lines_come_back(&store, &other).await;
    followers_see_the_same(&store, &other).await;
    what_is_said_is_ordered_and_once(&store, &other).await;
    live_text_is_heard(&store, &other).await;
    blobs_are_what_they_are_named(&store, &other).await;
    logs_can_be_moved_in(&store, &other).await;
    many_writers_keep_apart(&store, &other).await;
}

async fn held(store: &FleetStore) -> LeaseKey {
    let pool = fresh("log");
    submit(store, &[job(&pool)]).await;
    take(store, &fresh("w"), &pool, 1).await.remove(0).key
}

fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|it| it.text.as_str()).collect()
}

fn strings(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|it| (*it).to_owned()).collect()
}

async fn lines_come_back(store: &FleetStore, other: &FleetStore) {
    let key = held(store).await;
    assert!(other.log.read(key.run.clone(), 0, 10).await.unwrap().is_empty());
    assert_eq!(store.log.append(key.clone(), strings(&["a", "", "{\"c\":1}"])).await.unwrap(), 3);
    assert_eq!(store.log.append(key.clone(), strings(&["\u{1}odd", "ü\t"])).await.unwrap(), 5);
    assert_eq!(store.log.append(key.clone(), Vec::new()).await.unwrap(), 5);
    let lines = other.log.read(key.run.clone(), 0, 10).await.unwrap();
    assert_eq!(texts(&lines), ["a", "", "{\"c\":1}", "\u{1}odd", "ü\t"]);
    assert!(lines.iter().enumerate().all(|(at, it)| it.number == at as u64 && it.epoch == key.epoch));
    assert_eq!(texts(&other.log.read(key.run.clone(), 1, 2).await.unwrap()), ["", "{\"c\":1}"]);
    assert_eq!(texts(&other.log.read(key.run.clone(), 4, 2).await.unwrap()), ["ü\t"]);
    assert!(other.log.read(key.run.clone(), 5, 2).await.unwrap().is_empty());
    let end = other.log.end(key.run.clone()).await.unwrap();
    assert_eq!((end.lines, end.epoch), (5, key.epoch));
    let broken = store.log.append(key, strings(&["a\nb"])).await;
    assert!(matches!(broken, Err(StoreError::Refused(_))), "{broken:?}");
}

async fn big_lines_come_back(store: &FleetStore, other: &FleetStore) {
    let key = held(store).await;
    let sizes = [400_000, 700_000, 1_100_000, 5_000_000, 3];
    let lines: Vec<String> = sizes.iter().map(|size| "x".repeat(*size)).collect();
    assert_eq!(store.log.append(key.clone(), lines.clone()).await.unwrap(), 5);
    let many: Vec<String> = (0..40).map(|it| format!("{it}{}", "y".repeat(50_000))).collect();
    assert_eq!(store.log.append(key.clone(), many.clone()).await.unwrap(), 45);
    let back = other.log.read(key.run.clone(), 0, 100).await.unwrap();
    assert!(texts(&back).iter().zip(lines.iter().chain(&many)).all(|(back, line)| back == line));
    assert_eq!(back.len(), 45);
}

async fn followers_see_the_same(store: &FleetStore, other: &FleetStore) {
    let key = held(store).await;
    let run = key.run.clone();
    let want: Vec<String> = (0..30).map(|it| format!("line {it}")).collect();
    let follow = |from: u64| {
        let (lines, want) = (other.log.follow(run.clone(), from), want[from as usize..].to_vec());
        tokio::spawn(async move {
            let lines: Vec<LogLine> = lines.take(want.len()).map(|it| it.unwrap()).collect().await;
            assert_eq!(texts(&lines), want);
            assert_eq!(lines[0].number, from);
        })
    };
    let mut followers = vec![follow(0), follow(15)];
    for (at, line) in want.iter().enumerate() {
        store.log.append(key.clone(), vec![line.clone()]).await.unwrap();
        if at == 10 {
            followers.push(follow(5));
        }
    }
    store.queue.end(key.clone(), JobState::Done, None, Value::Null).await.unwrap();
    followers.push(follow(0));
    followers.push(follow(29));
    for follower in followers {
        timeout(WAITS, follower).await.expect("a follower hangs").unwrap();
    }
}

async fn what_is_said_is_ordered_and_once(store: &FleetStore, other: &FleetStore) {
    let run = held(store).await.run;
    let say = |store: &FleetStore, id: &str| {
        let entry = NewControl { id: id.to_owned(), body: json!({ "say": id }) };
        let (log, run) = (store.log.clone(), run.clone());
        async move { log.control(run, entry).await.unwrap() }
    };
    let mut heard = other.log.follow_controls(run.clone(), 1);
    assert_eq!(say(store, "a").await, 0);
    assert_eq!(say(other, "b").await, 1);
    assert_eq!(say(store, "a").await, 0);
    assert_eq!(say(other, "c").await, 2);
    for want in ["b", "c"] {
        let entry = timeout(WAITS, heard.next()).await.unwrap().unwrap().unwrap();
        assert_eq!((entry.id.as_str(), &entry.body["say"]), (want, &json!(want)));
    }
    // Concurrent entries: all are stored, with unique numbers.
    let ids: Vec<String> = (0..20).map(|it| format!("m{it}")).collect();
    let numbers = futures_util::future::join_all(ids.iter().map(|id| say(store, id))).await;
    let all = other.log.controls(run.clone(), 0).await.unwrap();
    assert_eq!(all.len(), 23);
    assert!(all.iter().enumerate().all(|(at, it)| it.number == at as u64));
    for (id, number) in ids.iter().zip(numbers) {
        assert_eq!(all[number as usize].id, *id);
    }
    assert_eq!(other.log.controls(run, 22).await.unwrap().len(), 1);
}

async fn live_text_is_heard(store: &FleetStore, other: &FleetStore) {
    let key = held(store).await;
    let mut heard = other.log.follow_live(key.run.clone());
    let told = tokio::spawn({
        let (log, run) = (store.log.clone(), key.run.clone());
        async move {
            for number in 0..u32::MAX {
                log.live(run.clone(), format!("part {number}")).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let first = timeout(WAITS, heard.next()).await.expect("nothing was heard").unwrap().unwrap();
    let second = timeout(WAITS, heard.next()).await.expect("nothing more").unwrap().unwrap();
    let number = |text: &str| text.strip_prefix("part ").unwrap().parse::<u32>().unwrap();
    // Live text may be lost, but stays in order.
    assert!(number(&first) < number(&second), "{first} before {second}");
    told.abort();
    assert!(other.log.read(key.run, 0, 5).await.unwrap().is_empty(), "live text is kept nowhere");
}

async fn blobs_are_what_they_are_named(store: &FleetStore, other: &FleetStore) {
    let tenant = name("t");
    for size in [0, 1, 1_000, 524_288, 524_289, 4_000_000] {
        let bytes = Bytes::from((0..size).map(|it| (it % 251) as u8).collect::<Vec<u8>>());
        let hash = store.blobs.put(tenant.clone(), bytes.clone(), None).await.unwrap();
        assert_eq!(hash, BlobHash::hash(&bytes));
        assert_eq!(store.blobs.put(tenant.clone(), bytes.clone(), None).await.unwrap(), hash);
        assert_eq!(other.blobs.get(tenant.clone(), hash).await.unwrap(), bytes, "{size}");
        let absent = BlobHash::hash(b"nobody has this");
        assert_eq!(other.blobs.has(tenant.clone(), vec![hash, absent]).await.unwrap(), [true, false]);
        let elsewhere = other.blobs.get(name("u"), hash).await;
        assert!(matches!(elsewhere, Err(StoreError::Unknown { .. })), "{elsewhere:?}");
    }
    let key = held(store).await;
    store.blobs.put(tenant, Bytes::from_static(b"result"), Some(key)).await.unwrap();
}

async fn logs_can_be_moved_in(store: &FleetStore, other: &FleetStore) {
    let pool = fresh("moved");
    let new = job(&pool);
    assert_eq!(store.log.import(id(&new), strings(&["a", "b"])).await.unwrap(), 2);
    let twice = other.log.import(id(&new), strings(&["c"])).await;
    assert!(matches!(twice, Err(StoreError::Refused(_))), "{twice:?}");
    let another = other.log.import(id(&new), strings(&["a", "x", "c"])).await;
    assert!(matches!(another, Err(StoreError::Refused(_))), "{another:?}");
    // An interrupted import continues, and a complete one is a no-op.
    assert_eq!(other.log.import(id(&new), strings(&["a", "b"])).await.unwrap(), 2);
    let (rest, broken) = (job(&pool), strings(&["a", "b", "c"]));
    assert_eq!(store.log.import(id(&rest), strings(&["a"])).await.unwrap(), 1);
    assert_eq!(store.log.import(id(&rest), broken.clone()).await.unwrap(), 3);
    assert_eq!(texts(&store.log.read(id(&rest), 0, 9).await.unwrap()), broken);
    submit(store, std::slice::from_ref(&new)).await;
    let lease = take(other, &fresh("w"), &pool, 1).await.remove(0);
    assert_eq!(lease.log_end, 2);
    assert_eq!(other.log.append(lease.key, strings(&["c"])).await.unwrap(), 3);
    assert_eq!(texts(&store.log.read(id(&new), 0, 9).await.unwrap()), ["a", "b", "c"]);
}

async fn many_writers_keep_apart(store: &FleetStore, other: &FleetStore) {
    let pool = fresh("writers");
    let jobs: Vec<_> = (0..32).map(|_| job(&pool)).collect();
    submit(store, &jobs).await;
    let leases = take(store, &fresh("w"), &pool, 32).await;
    let writers = leases.iter().map(|lease| async {
        for line in 0..10 {
            store.log.append(lease.key.clone(), vec![format!("{} {line}", lease.key.run)]).await.unwrap();
        }
    });
    futures_util::future::join_all(writers).await;
    for lease in leases {
        let run: RunId = lease.key.run;
        let lines = other.log.read(run.clone(), 0, 100).await.unwrap();
        assert_eq!(texts(&lines), (0..10).map(|line| format!("{run} {line}")).collect::<Vec<_>>());
    }
}
