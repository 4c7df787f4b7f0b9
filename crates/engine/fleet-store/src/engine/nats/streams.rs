//! Stream definitions.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::connection::{Connection, NatsFailure};
use crate::{EngineFinding, RunId, StoreError, engine::health_check::finding};

pub(super) const LEDGER: &str = "HAFT_LEDGER";
pub(super) const LEDGER_SUBJECT: &str = "haft.ledger";
pub(super) const BLOBS: &str = "HAFT_BLOBS";
pub(super) const SNAPSHOT_SUBJECT: &str = "haft.blob.snapshot";

/// Number of streams that share the runs. A server that syncs every write does so separately for each
/// stream.
const RUN_STREAMS: u64 = 8;

/// Error codes for too few nodes in a cluster.
const MISSING_NODES: [u32; 2] = [10_005, 10_074];
/// How long to wait for nodes that may be starting.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(10);
const CLUSTER_PAUSE: Duration = Duration::from_millis(200);

#[derive(Deserialize)]
struct StreamInfo {
    config: StreamConfig,
    state: StreamState,
    ts: Option<jiff::Timestamp>,
    cluster: Option<ClusterInfo>,
}

#[derive(Deserialize)]
struct ClusterInfo {
    #[serde(default)]
    leader: String,
    #[serde(default)]
    replicas: Vec<ReplicaInfo>,
}

#[derive(Deserialize)]
struct ReplicaInfo {
    #[serde(default)]
    name: String,
    #[serde(default)]
    current: bool,
}

#[derive(Deserialize)]
struct StreamConfig {
    num_replicas: u64,
    #[serde(default)]
    discard: String,
    #[serde(default)]
    storage: String,
}

#[derive(Deserialize)]
struct StreamState {
    first_seq: u64,
    last_seq: u64,
    /// Sequence numbers without a message, if requested.
    #[serde(default)]
    deleted: Vec<u64>,
}

/// The sequence numbers of ledger entries.
pub(super) struct EntryNumbers {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Numbers in between without an entry.
    pub(super) gaps: Vec<u64>,
}

/// Encodes a name as one token of a subject.
pub(super) fn token(name: &str) -> String {
    name.replace('.', "=")
}

/// Returns the stream of a run.
pub(super) fn run_stream(run: &RunId) -> String {
    format!("HAFT_RUNS_{}", shard(run))
}

fn shard(run: &RunId) -> u64 {
    let hash = blake3::hash(run.as_str().as_bytes());
    u64::from(hash.as_bytes()[0]) % RUN_STREAMS
}

/// Returns a subject of a run.
pub(super) fn run_subject(run: &RunId, kind: &str) -> String {
    format!("haft.run.{}.{}.{kind}", shard(run), token(run.as_str()))
}

fn config(name: &str, subjects: &[String], replicas: u64, per_subject: i64) -> Value {
    json!({
        "name": name,
        "subjects": subjects,
        "retention": "limits",
        "storage": "file",
        // A full stream rejects writes; old messages are never dropped.
        "discard": "new",
        "max_msgs_per_subject": per_subject,
        "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0,
        "num_replicas": replicas,
        "duplicate_window": 120_000_000_000_u64,
        "allow_direct": true,
    })
}

impl Connection {
    /// Creates the streams, with three replicas in a cluster.
    pub(super) async fn make_streams(&self) -> Result<(), StoreError> {
        let replicas = if self.server().cluster.is_some() { 3 } else { 1 };
        let mut streams = vec![
            config(LEDGER, &[LEDGER_SUBJECT.to_owned()], replicas, -1),
            // Storing a blob again replaces it.
            blobs_config(replicas),
        ];
        for shard in 0..RUN_STREAMS {
            streams.push(config(
                &format!("HAFT_RUNS_{shard}"),
                &[format!("haft.run.{shard}.*.log"), format!("haft.run.{shard}.*.ctl")],
                replicas,
                -1,
            ));
        }
        // The last stream is created last: if it exists, all do.
        let last = streams.last().and_then(|it| it["name"].as_str()).unwrap_or_default();
        if self.info(last).await?.is_some() {
            return self.check_ledger().await;
        }
        for stream in streams {
            self.make(&stream).await?;
        }
        self.check_ledger().await
    }

    /// Creates a stream. A cluster that has just started reports nodes as missing that it does not know
    /// yet, so this is retried for a moment.
    async fn make(&self, stream: &Value) -> Result<(), StoreError> {
        let name = stream["name"].as_str().unwrap_or_default();
        let until = Instant::now() + CLUSTER_TIMEOUT;
        loop {
            let made = self.api::<Value>(&format!("STREAM.CREATE.{name}"), stream).await;
            match made {
                Ok(_) => return Ok(()),
                // The stream exists with settings chosen by an administrator.
                Err(NatsFailure::Said(err)) if err.err_code == 10_058 => return Ok(()),
                Err(NatsFailure::Said(err)) if !MISSING_NODES.contains(&err.err_code) => {
                    return Err(self.problem(NatsFailure::Said(err)));
                }
                Err(NatsFailure::Said(_)) if Instant::now() < until => {
                    tokio::time::sleep(CLUSTER_PAUSE).await
                }
                Err(NatsFailure::Said(err)) => {
                    return Err(StoreError::Gone {
                        engine: format!("NATS at {}", self.name()),
                        said: err.description,
                        advice: String::from("a cluster needs three nodes with JetStream that run"),
                    });
                }
                Err(failure) => return Err(self.problem(failure)),
            }
        }
    }

    async fn info(&self, stream: &str) -> Result<Option<StreamInfo>, StoreError> {
        match self.api(&format!("STREAM.INFO.{stream}"), &Value::Null).await {
            Ok(info) => Ok(Some(info)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(self.problem(failure)),
        }
    }

    async fn check_ledger(&self) -> Result<(), StoreError> {
        let Some(info) = self.info(LEDGER).await? else {
            return Err(self.damaged(format!("the stream {LEDGER} is missing while others are there")));
        };
        if info.config.storage == "file" && info.config.discard == "new" {
            return Ok(());
        }
        let what =
            format!("the stream {LEDGER} keeps in {}, discards {}", info.config.storage, info.config.discard);
        Err(StoreError::Refused(format!("{what}: it has to keep in file and discard new")))
    }

    /// Returns the sequence numbers of ledger entries, from the leader.
    pub(super) async fn ledger_entries(&self) -> Result<EntryNumbers, StoreError> {
        let asked = json!({ "deleted_details": true });
        let info: Result<StreamInfo, NatsFailure> = self.api(&format!("STREAM.INFO.{LEDGER}"), &asked).await;
        match info {
            Ok(StreamInfo { state, .. }) => {
                Ok(EntryNumbers { first: state.first_seq, last: state.last_seq, gaps: state.deleted })
            }
            Err(failure) if failure.is_not_found() => {
                Err(self.damaged(format!("the stream {LEDGER} is gone")))
            }
            Err(failure) => Err(self.problem(failure)),
        }
    }

    /// Deletes messages before a sequence number, or all of a subject.
    pub(super) async fn purge(&self, stream: &str, which: &Value) -> Result<(), StoreError> {
        let purged: Result<Value, NatsFailure> = self.api(&format!("STREAM.PURGE.{stream}"), which).await;
        purged.map(drop).map_err(|failure| self.problem(failure))
    }

    pub(super) async fn examine_streams(&self) -> Result<Vec<EngineFinding>, StoreError> {
        let begin = jiff::Timestamp::now();
        let Some(info) = self.info(LEDGER).await? else { return Ok(Vec::new()) };
        let replicas = info.config.num_replicas;
        let cluster = info.cluster.filter(|it| !it.replicas.is_empty());
        let (led, replicas_of) = cluster
            .map_or((String::new(), Vec::new()), |it| (format!(", led by {}", it.leader), it.replicas));
        let behind: Vec<String> =
            replicas_of.into_iter().filter(|it| !it.current).map(|it| it.name).collect();
        let said = match behind.as_slice() {
            [] => format!("{replicas} of everything{led}"),
            behind => format!("{replicas} of everything{led}, {} behind", behind.join(", ")),
        };
        let copies = finding("copies", behind.is_empty(), said);
        let copies = copies.advice("wait before another node is stopped").done();
        let clock = info.ts.map(|there| {
            let apart = there.duration_since(begin).as_millis().abs();
            finding("clock", apart < 5_000, format!("{apart} ms apart"))
                .advice("set the clocks: schedules follow the server's; leases follow neither")
                .done()
        });
        Ok([Some(copies), clock].into_iter().flatten().collect())
    }
}

fn blobs_config(replicas: u64) -> Value {
    let mut blobs = config(BLOBS, &[String::from("haft.blob.>")], replicas, 1);
    blobs["duplicate_window"] = json!(1_000_000_000_u64);
    // Only the newest message per subject is kept; `new` would reject the second.
    blobs["discard"] = json!("new");
    blobs
}
