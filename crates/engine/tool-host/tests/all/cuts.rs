//! Lost connections: each effect happens once, and every call gets its report.

use std::time::Duration;

use haft_tool_runtime::CallReport;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::rig::{Far, FarRules, Wire, mark, near, one, open, setup, text};

/// A hundred calls while the connection is cut every few milliseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_happen_once_despite_connection_cuts() {
    for seed in 0..2 {
        let mut random = fastrand::Rng::with_seed(seed);
        let far = Far::start(FarRules::default()).await;
        let wire = Wire::to(far.address).await;
        let set = open(vec![setup("a", wire.address, "s1")]).await.unwrap();
        let mut session = near(&set, far.dir.path());
        let calls: Vec<_> = (0..50)
            .map(|n| {
                // One call outlasts many cuts, however fast the others are.
                let ms = if n == 0 { 1_500 } else { random.u64(0..30) };
                let size = if n % 9 == 0 { 200_000 } else { 10 };
                mark(&format!("c{n}"), json!({"name": format!("m{n}"), "ms": ms, "size": size}))
            })
            .collect();
        let ids: Vec<_> = calls.iter().map(|it| it.id.clone()).collect();
        let never = CancellationToken::new();
        let running = session.run_message(calls, &never);
        tokio::pin!(running);
        let mut cuts = 0;
        let reports: Vec<CallReport> = loop {
            tokio::select! {
                reports = &mut running => break reports,
                () = tokio::time::sleep(Duration::from_millis(random.u64(5..60))), if cuts < 40 => {
                    cuts += 1;
                    wire.cut();
                }
            }
        };
        let said: Vec<_> = reports.iter().map(|it| it.id.clone()).collect();
        assert_eq!(said, ids);
        for (n, report) in reports.iter().enumerate() {
            assert_eq!(report.error, None, "{}", text(report));
            assert!(text(report).starts_with(&format!("marked m{n} x")), "{}", text(report));
            assert_eq!(text(report).len() > 200_000, n % 9 == 0);
            assert_eq!(report.meta.as_ref().unwrap()["haft/host"], "a");
        }
        let marks = far.marks();
        assert_eq!(marks.len(), 100);
        assert!(marks.values().all(|count| *count == 1), "{marks:?}");
        assert!(3 < *wire.count.lock().unwrap(), "the wire was cut");
    }
}

/// Both sides notice a connection that accepts data but delivers nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_peer_is_detected_within_ping_limit() {
    let far = Far::start(FarRules::default()).await;
    let wire = Wire::to(far.address).await;
    let set = open(vec![setup("a", wire.address, "s1")]).await.unwrap();
    let mut session = near(&set, far.dir.path());
    let never = CancellationToken::new();
    let running = session.run_message(vec![mark("c", json!({"name": "m", "ms": 5_000}))], &never);
    tokio::pin!(running);
    while !far.marks().contains_key("begin m") {
        tokio::select! {
            _ = &mut running => panic!("too early"),
            () = tokio::time::sleep(Duration::from_millis(5)) => (),
        }
    }
    wire.fall_silent(true);
    // After three silent keep-alive intervals the connection is dropped.
    while *wire.count.lock().unwrap() < 2 {
        tokio::select! {
            _ = &mut running => panic!("nothing comes through"),
            () = tokio::time::sleep(Duration::from_millis(5)) => (),
        }
    }
    wire.fall_silent(false);
    wire.cut();
    let reports = tokio::time::timeout(Duration::from_secs(60), running).await.unwrap();
    assert_eq!(text(&reports[0]), "marked m ");
    assert_eq!(far.marks()["end m"], 1);
}

/// After a restart of the host process, started calls have an unknown outcome and never run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_started_by_dead_process_never_reruns() {
    let far = Far::start(FarRules::default()).await;
    let set = open(vec![setup("a", far.address, "s1")]).await.unwrap();
    let mut session = near(&set, far.dir.path());
    assert_eq!(text(&one(&mut session, mark("done", json!({"name": "done"}))).await), "marked done ");
    set.close().await;
    // The `started` line of a process that is gone.
    let runs = far.dir.path().join("state/runs");
    let journal = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    let dir = far.end().await;
    let text_of = std::fs::read_to_string(&journal).unwrap();
    let cut = text_of.lines().filter(|it| !it.contains("\"k\":\"done\"")).map(|it| format!("{it}\n"));
    std::fs::write(&journal, cut.collect::<String>()).unwrap();
    let far = Far::start_in(dir, FarRules::default()).await;
    let set = open(vec![setup("a", far.address, "s1")]).await.unwrap();
    let mut session = near(&set, far.dir.path());
    let report = one(&mut session, mark("done", json!({"name": "done"}))).await;
    assert!(text(&report).contains("outcome unknown"), "{}", text(&report));
    let other = one(&mut session, mark("done", json!({"name": "other"}))).await;
    assert!(text(&other).contains("belongs to another call"), "{}", text(&other));
    assert_eq!(far.marks()["begin done"], 1);
    assert!(!far.marks().contains_key("begin other"));
}

/// An interrupt reaches a running call, also when it is sent while disconnected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupt_reaches_running_call_across_reconnect() {
    for cut_first in [false, true] {
        let far = Far::start(FarRules::default()).await;
        let wire = Wire::to(far.address).await;
        let set = open(vec![setup("a", wire.address, "s1")]).await.unwrap();
        let mut session = near(&set, far.dir.path());
        let cancel = CancellationToken::new();
        let running = session.run_message(vec![mark("c", json!({"name": "m", "ms": 60_000}))], &cancel);
        tokio::pin!(running);
        while !far.marks().contains_key("begin m") {
            tokio::select! {
                _ = &mut running => panic!("too early"),
                () = tokio::time::sleep(Duration::from_millis(5)) => (),
            }
        }
        if cut_first {
            wire.cut();
        }
        cancel.cancel();
        let reports = running.await;
        assert!(reports[0].error.is_some());
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !far.marks().contains_key("stopped m") {
            assert!(std::time::Instant::now() < deadline, "it goes on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What a client left running is stopped after the linger time, and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_run_ends_after_linger() {
    // Longer than a busy machine takes to reconnect.
    let linger = Duration::from_secs(4);
    let mut far = Far::start(FarRules { linger, ..FarRules::default() }).await;
    let wire = Wire::to(far.address).await;
    let set = open(vec![setup("a", wire.address, "s1")]).await.unwrap();
    let mut session = near(&set, far.dir.path());
    let never = CancellationToken::new();
    {
        let running = session.run_message(vec![mark("c", json!({"name": "m", "ms": 60_000}))], &never);
        tokio::pin!(running);
        while !far.marks().contains_key("begin m") {
            tokio::select! {
                _ = &mut running => panic!("too early"),
                () = tokio::time::sleep(Duration::from_millis(5)) => (),
            }
        }
        let stop = far.closed.clone();
        assert_eq!(*stop.borrow(), 0);
    }
    // The client disappears silently: nothing it sends arrives any more.
    wire.fall_silent(true);
    let left = std::time::Instant::now();
    drop(session);
    drop(set);
    wire.cut();
    tokio::time::timeout(Duration::from_secs(60), far.closed.wait_for(|it| *it == 1)).await.unwrap().unwrap();
    // The linger time starts when the client disconnects, however long it was connected before.
    assert!(linger <= left.elapsed(), "{:?}", left.elapsed());
    // The call is cancelled together with the session.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !far.marks().contains_key("stopped m") {
        assert!(std::time::Instant::now() < deadline, "it goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(far.marks()["stopped m"], 1);
}
