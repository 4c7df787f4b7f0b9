use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use haft_lsp::{CheckState, LspClient, LspError, PoolLimits, ServerPool, spots, uri_of};
use serde_json::{Value, json};

use crate::support::{Starter, plan};

const LONG: Duration = Duration::from_secs(120);
const SHORT: Duration = Duration::from_millis(700);

async fn client(root: &Path, words: &[&str]) -> Arc<LspClient> {
    LspClient::start(plan(root, words), &Starter::default()).await.unwrap()
}

fn at(path: &Path, line: u32, character: u32) -> Value {
    json!({"textDocument": {"uri": uri_of(path)}, "position": {"line": line, "character": character}})
}

#[tokio::test]
async fn references_use_the_negotiated_column_encoding() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.x");
    let text = "🦀ü def größe\ncall größe\n";
    for (encoding, columns) in [("utf-8", (11, 5)), ("utf-16", (8, 5)), ("utf-32", (7, 5))] {
        let client = client(dir.path(), &["--encoding", encoding, "--asks"]).await;
        client.know(&file, "text", text).await.unwrap();
        let answer = client.ask("textDocument/references", &at(&file, 1, 5), LONG).await.unwrap();
        let (found, _) = spots(&answer).unwrap();
        assert_eq!(
            found.iter().map(|it| it.column).collect::<Vec<_>>(),
            [columns.0, columns.1],
            "{encoding}"
        );
        client.stop().await;
        assert!(matches!(client.ask("x", &Value::Null, LONG).await, Err(LspError::Ended { .. })));
    }
}

#[tokio::test]
async fn faulty_server_reports_reason_and_fails_only_its_requests() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.x");
    for (words, want) in [
        (
            &["--die-on", "textDocument/hover"][..],
            "fake ended while it was asked (it ended with Some(3)); the next call starts it anew",
        ),
        (
            &["--garbage"],
            "fake ended while it was asked (it sent something that is no message: it printed I am not a message); the next call starts it anew",
        ),
        (
            &["--huge"],
            "fake ended while it was asked (it sent something that is no message: a message of 999999999999 bytes is too large); the next call starts it anew",
        ),
        (&["--cut"], "fake ended while it was asked (it ended with Some(0)); the next call starts it anew"),
        (
            &["--no-json", "textDocument/hover"],
            "fake ended while it was asked (it sent something that is no JSON: EOF while parsing a value at line 1 column 9); the next call starts it anew",
        ),
        (
            &["--parts", "textDocument/hover"],
            "fake ended while it was asked (it sent something that is no message: a message of 3000004 parts is too large); the next call starts it anew",
        ),
        (
            &["--lengths", "textDocument/hover"],
            "fake ended while it was asked (it sent something that is no JSON: EOF while parsing a string at line 1 column 5); the next call starts it anew",
        ),
    ] {
        let client = client(dir.path(), words).await;
        // A server that has already exited may also refuse the text.
        let known = client.know(&file, "text", "a").await;
        let got = match known {
            Ok(_) => client.ask("textDocument/hover", &at(&file, 0, 0), LONG).await.unwrap_err(),
            Err(fault) => fault,
        };
        assert_eq!(got.to_string(), want, "{words:?}");
        assert!(client.end().is_some());
    }
    let hung = client(dir.path(), &["--hang-on", "textDocument/hover"]).await;
    // Diagnostics that it sends arrive before its hang is counted.
    let (version, since) = hung.know(&file, "text", "a").await.unwrap();
    assert_eq!(hung.check(&file, version, since, LONG).await, Ok(CheckState::Now(Vec::new())));
    let got = hung.ask("textDocument/hover", &at(&file, 0, 0), SHORT).await.unwrap_err();
    assert_eq!(got.to_string(), "fake did not answer textDocument/hover within 0 s");
    // One timeout is tolerated; a second one stops the server.
    assert_eq!(hung.end(), None);
    for _ in 0..2 {
        hung.ask("textDocument/hover", &at(&file, 0, 0), SHORT).await.unwrap_err();
    }
    assert_eq!(hung.end().as_deref(), Some("it answered nothing and said nothing"));
    let unsupported = client(dir.path(), &["--lie", "x/y", "3"]).await;
    assert_eq!(unsupported.ask("x/y", &Value::Null, LONG).await, Ok(json!(3)));
    assert!(!unsupported.offers("implementationProvider") && unsupported.offers("hoverProvider"));
}

/// A server that floods, and reports about texts it was not sent, is still understood; its made-up
/// diagnostics are ignored.
#[tokio::test]
async fn server_flood_and_unrelated_responses_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.x");
    std::fs::write(&file, "def a\nERR b\n").unwrap();
    let flooding = client(dir.path(), &["--flood", "textDocument/hover"]).await;
    for round in 0..2 {
        let (version, since) = flooding.know(&file, "text", &format!("def a\nERR {round}\n")).await.unwrap();
        let answer = flooding.ask("textDocument/hover", &at(&file, 0, 4), LONG).await.unwrap();
        assert_eq!(answer["contents"]["value"], "`a` is a name");
        let CheckState::Now(items) = flooding.check(&file, version, since, LONG).await.unwrap() else {
            panic!("not yet")
        };
        assert_eq!(items.iter().map(|it| it.message.as_str()).collect::<Vec<_>>(), [format!("ERR {round}")]);
    }
    assert!(!flooding.readiness().is_busy());
    assert_eq!(flooding.reports().len(), 301);
    let others = client(dir.path(), &["--others", "textDocument/hover"]).await;
    others.know(&file, "text", "def a").await.unwrap();
    for _ in 0..3 {
        let answer = others.ask("textDocument/hover", &at(&file, 0, 4), LONG).await;
        assert_eq!(answer, Ok(json!("yours")));
    }
    assert_eq!(others.end(), None);
}

#[tokio::test]
async fn server_that_does_not_read_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(dir.path(), &["--deaf"]).await;
    let large = "x".repeat(1 << 20);
    let mut got = Ok(());
    for number in 0..400 {
        got = client.tell("x/y", &json!({"number": number, "text": large})).await;
        if got.is_err() {
            break;
        }
    }
    assert_eq!(
        got.unwrap_err().to_string(),
        "fake ended while it was asked (it does not read what it is told); the next call starts it anew"
    );
}

#[tokio::test]
async fn settle_waits_until_indexing_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let indexed = dir.path().join("indexed");
    let client = client(dir.path(), &["--index", "0", "--index-gate", indexed.to_str().unwrap()]).await;
    let file = dir.path().join("a.x");
    client.know(&file, "text", "def a").await.unwrap();
    // The response to the symbol request arrives after the progress.
    client.ask("textDocument/documentSymbol", &at(&file, 0, 0), LONG).await.unwrap();
    let now = client.settle(Duration::from_millis(10)).await;
    assert!(now.is_busy());
    assert_eq!(now.words(), "Indexing, 40 %");
    let finish = async {
        tokio::time::sleep(SHORT).await;
        std::fs::write(&indexed, "").unwrap();
    };
    let settle = async { (client.settle(LONG).await.is_busy(), indexed.exists()) };
    assert_eq!(tokio::join!(settle, finish).0, (false, true));
    let answer = client.ask("textDocument/definition", &at(&file, 0, 4), LONG).await.unwrap();
    assert_eq!(spots(&answer).unwrap().0.len(), 1);
}

#[tokio::test]
async fn check_ignores_diagnostics_of_earlier_texts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.x");
    std::fs::write(&file, "").unwrap();
    for words in [&["--stale", "--delay", "0.3"][..], &["--no-version"], &["--pull"], &[]] {
        let client = client(dir.path(), words).await;
        for (text, want) in [("ERR one\nHINT", 2), ("fine", 0), ("ERR two", 1)] {
            let (version, since) = client.know(&file, "text", text).await.unwrap();
            let CheckState::Now(items) = client.check(&file, version, since, LONG).await.unwrap() else {
                panic!("{words:?}: not checked")
            };
            assert_eq!(items.len(), want, "{words:?} {text}");
        }
    }
    let slow = client(dir.path(), &["--delay", "9"]).await;
    let (version, since) = slow.know(&file, "text", "ERR").await.unwrap();
    assert_eq!(slow.check(&file, version, since, SHORT).await, Ok(CheckState::NotYet));
}

#[tokio::test]
async fn check_all_requests_workspace_diagnostics() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("a.x", "ERR one"), ("b.x", "fine"), ("c.x", "WARN two\nERR three")] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let asked = client(dir.path(), &["--pull-all"]).await;
    assert_eq!(asked.check_all(LONG).await, Ok(true));
    let counted: Vec<usize> = asked.reports().iter().map(|it| it.1.items.len()).collect();
    assert_eq!(counted, [1, 0, 2]);
    // A server without pull diagnostics is not asked.
    let log = dir.path().join("heard");
    let silent = client(dir.path(), &["--pull", "--log", log.to_str().unwrap()]).await;
    assert_eq!(silent.check_all(LONG).await, Ok(false));
    silent.stop().await;
    assert!(!std::fs::read_to_string(&log).unwrap().contains("workspace/diagnostic"));
    // A server that holds back the workspace diagnostics is not hung.
    let waits = client(dir.path(), &["--pull-all", "--hang-on", "workspace/diagnostic"]).await;
    for _ in 0..4 {
        assert_eq!(waits.check_all(Duration::from_millis(20)).await, Ok(false));
    }
    assert_eq!(waits.end(), None);
    for lie in ["7", "{\"items\": [3, {\"uri\": \"x:y\"}, {\"uri\": 3, \"items\": {}}]}"] {
        let lying = client(dir.path(), &["--pull-all", "--lie", "workspace/diagnostic", lie]).await;
        lying.check_all(LONG).await.unwrap();
        assert_eq!(lying.reports().len(), 0, "{lie}");
    }
}

#[tokio::test]
async fn changes_on_disk_are_sent_before_the_next_request() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("a.x"), dir.path().join("b.x"));
    std::fs::write(&file, "def a").unwrap();
    std::fs::write(&other, "a a").unwrap();
    let client = client(dir.path(), &[]).await;
    client.know(&other, "text", "a a").await.unwrap();
    std::fs::write(&other, "a a a a").unwrap();
    client.know(&file, "text", "def a").await.unwrap();
    let answer = client.ask("textDocument/references", &at(&file, 0, 4), LONG).await.unwrap();
    assert_eq!(spots(&answer).unwrap().0.len(), 5);
}

#[tokio::test]
async fn pool_starts_one_server_and_gives_up_after_repeated_exits() {
    let dir = tempfile::tempdir().unwrap();
    let pool = ServerPool::new(PoolLimits { most: 2, ..PoolLimits::default() });
    let starter = Starter::default();
    let good = plan(dir.path(), &[]);
    let asking = (0..10).map(|_| pool.get(&good, "", &starter));
    let mut all = Vec::new();
    for one in asking {
        all.push(one.await.unwrap());
    }
    assert_eq!(starter.started.load(Ordering::SeqCst), 1);
    // In another sandbox it is another server.
    pool.get(&good, "walls", &starter).await.unwrap();
    assert_eq!(starter.started.load(Ordering::SeqCst), 2);
    let file = dir.path().join("a.x");
    let bad = plan(dir.path(), &["--die-on", "textDocument/didOpen"]);
    for _ in 0..3 {
        let client = pool.get(&bad, "", &starter).await.unwrap();
        client.know(&file, "text", "").await.ok();
        while client.end().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let Err(fault) = pool.get(&bad, "", &starter).await else { panic!("it started again") };
    assert!(fault.to_string().starts_with("fake ended three times within five minutes"), "{fault}");
    // Other servers can start, but never more than the pool's limit.
    assert!(pool.get(&good, "walls", &starter).await.is_ok());
    assert!(pool.all().len() <= 2);
    pool.stop(None).await;
    assert_eq!(pool.all().len(), 0);
    let missing = haft_lsp::ServerPlan { program: "/no/such/program".into(), ..good };
    let Err(fault) = pool.get(&missing, "", &starter).await else { panic!("it started") };
    assert!(fault.to_string().starts_with("fake did not start: No such file"), "{fault}");
}
