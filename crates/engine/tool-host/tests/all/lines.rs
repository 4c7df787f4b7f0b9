//! The host against clients that violate the protocol.

use std::{sync::Arc, time::Duration};

use haft_tool_host::{HostLimits, HostRunRegistry, SocketPath, serve_socket};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use crate::rig::MarkLender;

struct FarProcess {
    dir: tempfile::TempDir,
    place: SocketPath,
    task: tokio::task::JoinHandle<()>,
}

impl FarProcess {
    fn start(idle: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lender = MarkLender {
            dir: dir.path().to_owned(),
            deny: Vec::new(),
            ask: Vec::new(),
            closed: watch::Sender::new(0),
        };
        let limits = HostLimits { linger: Duration::from_secs(60), ..HostLimits::default() };
        let runs = HostRunRegistry::new(dir.path().join("state"), Arc::new(lender), "1.2.3", limits);
        let place = SocketPath::below(&dir.path().join("host")).unwrap();
        let at = place.clone();
        let task = tokio::spawn(async move {
            serve_socket(&at, runs, idle, CancellationToken::new()).await.unwrap();
        });
        Self { dir, place, task }
    }

    async fn connect(&self) -> Caller {
        for _ in 0..3_000 {
            if let Ok(stream) = self.place.connect().await {
                let (from, to) = stream.into_split();
                return Caller { from: BufReader::new(from).lines(), to };
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody listens");
    }

    fn count(&self, line: &str) -> usize {
        let marks = std::fs::read_to_string(self.dir.path().join("marks")).unwrap_or_default();
        marks.lines().filter(|it| *it == line).count()
    }
}

struct Caller {
    from: Lines<BufReader<OwnedReadHalf>>,
    to: OwnedWriteHalf,
}

impl Caller {
    async fn say(&mut self, line: &Value) {
        self.to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Returns the next frame other than a ping; `None` when the connection has ended.
    async fn hear(&mut self) -> Option<Value> {
        loop {
            let line = tokio::time::timeout(Duration::from_secs(60), self.from.next_line()).await.unwrap();
            let line: Value = serde_json::from_str(&line.ok()??).unwrap();
            if line["t"] != "ping" && line["t"] != "progress" {
                return Some(line);
            }
        }
    }

    async fn hello(&mut self, instance: &str, epoch: Option<u64>) -> Value {
        self.say(&hello(instance, epoch)).await;
        self.hear().await.unwrap()
    }
}

fn hello(instance: &str, epoch: Option<u64>) -> Value {
    let mut hello = json!({"t": "hello", "protocol": 1, "version": "1", "session": "s", "instance": instance,
        "dir": "", "attended": false, "ping_ms": 60_000});
    if let Some(epoch) = epoch {
        hello["epoch"] = json!(epoch);
    }
    hello
}

fn call(id: &str, epoch: u64, name: &str, ms: u64) -> Value {
    json!({"t": "call", "_meta": {"session": "s", "agent": "main", "call": id, "epoch": epoch},
        "tool": "Mark", "input": {"name": name, "ms": ms}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_call_frame_runs_once() {
    let far = FarProcess::start(Duration::from_secs(60));
    let mut first = far.connect().await;
    assert_eq!(first.hello("a", None).await["epoch"], 1);
    for _ in 0..20 {
        first.say(&call("c", 1, "m", 50)).await;
    }
    let report = first.hear().await.unwrap();
    assert_eq!(report["report"]["content"][0]["text"], "marked m ");
    // The same call again, after its acknowledgement, and over another connection of the same process.
    first.say(&json!({"t": "heard", "key": {"agent": "main", "call": "c"}})).await;
    first.say(&call("c", 1, "m", 50)).await;
    assert_eq!(first.hear().await.unwrap(), report);
    let mut second = far.connect().await;
    assert_eq!(second.hello("a", None).await["epoch"], 1);
    second.say(&call("c", 1, "m", 50)).await;
    assert_eq!(second.hear().await.unwrap(), report);
    assert_eq!(far.count("begin m"), 1);
    // The earlier connection is closed. Frames sent after the end of the call were answered again.
    while let Some(more) = first.hear().await {
        assert_eq!(more, report);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_with_old_epoch_runs_nothing() {
    let far = FarProcess::start(Duration::from_secs(60));
    let mut old = far.connect().await;
    old.hello("old", None).await;
    old.say(&call("slow", 1, "slow", 300)).await;
    while far.count("begin slow") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut new = far.connect().await;
    assert_eq!(new.hello("new", None).await["epoch"], 2);
    // Requests the report of the previous client's call: waits for the same execution.
    new.say(&json!({"t": "find", "key": {"agent": "main", "call": "slow"}})).await;
    let report = new.hear().await.unwrap();
    assert_eq!(report["report"]["content"][0]["text"], "marked slow ");
    assert_eq!(far.count("begin slow"), 1);
    new.say(&json!({"t": "find", "key": {"agent": "main", "call": "never"}})).await;
    assert_eq!(new.hear().await.unwrap()["t"], "absent");
    // A lower epoch on any connection, and a process that reconnects too late.
    new.say(&call("late", 1, "late", 0)).await;
    let refused = new.hear().await.unwrap();
    assert!(refused["report"]["content"][0]["text"].as_str().unwrap().contains("taken this session over"));
    let mut back = far.connect().await;
    let refused = back.hello("old", None).await;
    assert_eq!((&refused["t"], &refused["kind"]), (&json!("refused"), &json!("fenced")));
    let mut lower = far.connect().await;
    assert_eq!(lower.hello("other", Some(1)).await["kind"], "fenced");
    let mut higher = far.connect().await;
    assert_eq!(higher.hello("other", Some(7)).await["epoch"], 7);
    assert_eq!(far.count("begin late"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_protocol_version_is_rejected_with_advice() {
    let far = FarProcess::start(Duration::from_secs(60));
    for first in [
        json!({"t": "hello", "protocol": 2, "version": "9.9", "something": "else"}),
        json!({"t": "hello", "protocol": 0, "version": "0.0"}),
    ] {
        let mut caller = far.connect().await;
        caller.say(&first).await;
        let refused = caller.hear().await.unwrap();
        assert_eq!(refused["kind"], "version");
        let reason = refused["reason"].as_str().unwrap();
        let version = first["version"].as_str().unwrap();
        assert!(
            reason.contains("haft 1.2.3") && reason.contains(version) && reason.contains("update haft"),
            "{reason}"
        );
        assert!(caller.hear().await.is_none());
    }
    for nonsense in ["", "{}", "nonsense", "[1]", "{\"t\":\"call\"}"] {
        let mut caller = far.connect().await;
        caller.to.write_all(format!("{nonsense}\n").as_bytes()).await.unwrap();
        assert!(caller.hear().await.is_none(), "{nonsense}");
    }
    // Unknown frames do not end an established connection.
    let mut caller = far.connect().await;
    caller.hello("a", None).await;
    caller.say(&json!({"t": "later", "x": 1})).await;
    caller.say(&call("c", 1, "m", 0)).await;
    assert_eq!(caller.hear().await.unwrap()["t"], "report");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_daemon_exits() {
    // Longer than a busy machine takes to connect.
    let far = FarProcess::start(Duration::from_secs(3));
    let mut caller = far.connect().await;
    caller.hello("a", None).await;
    assert!(far.place.pid().is_some());
    caller.say(&json!({"t": "bye"})).await;
    assert!(caller.hear().await.is_none());
    tokio::time::timeout(Duration::from_secs(60), far.task).await.unwrap().unwrap();
    assert_eq!(far.place.pid(), None);
    assert!(far.place.connect().await.is_err());
}
