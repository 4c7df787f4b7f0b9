//! NATS JetStream engine, for fleets of several machines.
//!
//! One stream holds the ledger, eight hold logs of runs, one holds blobs. The server fences logs: a line
//! is accepted only if the last message of the run's subject is the one its writer expects, and a
//! takeover writes a message of its own. Reads that must not miss anything go to the stream's leader.
//!
//! There are no consumers: a writer announces its write on a subject that is not stored, and others then
//! read.

mod blobs;
mod command_log;
mod connection;
mod monitor;
mod run_logs;
mod streams;

use std::{
    collections::HashMap,
    sync::{Mutex, atomic::AtomicU64},
};

use url::Url;

use crate::{
    EngineFinding, RunId, StoreError, StoreFuture,
    engine::{FleetEngine, health_check::finding},
};
use connection::Connection;
use run_logs::LogTailMessage;

/// An open connection to a cluster.
pub(crate) struct NatsEngine {
    connection: Connection,
    monitor: Option<String>,
    is_lazy: bool,
    /// Newest message of logs this process writes.
    tails: Mutex<HashMap<RunId, LogTailMessage>>,
    /// Where the next read of a log continues: line number and message.
    places: Mutex<HashMap<RunId, (u64, u64)>>,
    snapshot_number: AtomicU64,
    news: tokio::sync::watch::Receiver<u64>,
    listener: tokio::task::AbortHandle,
}

impl Drop for NatsEngine {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl NatsEngine {
    /// Connects, checks the servers' versions, and creates the streams.
    pub(crate) async fn open(urls: &[Url], name: String) -> Result<Self, StoreError> {
        let options: HashMap<String, String> =
            urls.iter().flat_map(|it| it.query_pairs().into_owned().collect::<Vec<_>>()).collect();
        let connection = Connection::open(urls, name).await?;
        let monitor = options.get("monitor").cloned();
        let is_lazy = options.get("sync").is_some_and(|it| it == "lazy");
        if let Some(monitor) = monitor.as_deref().filter(|_| !is_lazy) {
            monitor::require_sync(monitor, connection.name()).await?;
        }
        connection.make_streams().await?;
        let (news, listener) = connection.listen_for_news().await?;
        Ok(Self {
            connection,
            monitor,
            is_lazy,
            tails: Mutex::default(),
            places: Mutex::default(),
            snapshot_number: AtomicU64::new(0),
            news,
            listener,
        })
    }
}

impl FleetEngine for NatsEngine {
    fn check_health(&self) -> StoreFuture<'_, Vec<EngineFinding>> {
        Box::pin(async move {
            let info = self.connection.server();
            let cluster = info.cluster.as_deref().map(|it| format!(", cluster {it}")).unwrap_or_default();
            let mut findings =
                vec![finding("version", true, format!("nats-server {}{cluster}", info.version)).done()];
            let sync = match &self.monitor {
                Some(monitor) => monitor::sync_of(monitor).await.map(|is_synced| {
                    let said = if is_synced {
                        "every write is synced"
                    } else {
                        "writes are synced every two minutes"
                    };
                    finding("sync", is_synced, said.to_owned())
                }),
                None => Err(String::from("cannot be seen from here")),
            };
            let sync = sync.unwrap_or_else(|said| finding("sync", self.is_lazy, said));
            findings.push(
                sync.advice(
                    "set `sync_interval: always` under jetstream, and name the monitoring address \
                     (`nats://host?monitor=host:8222`) so that it can be seen",
                )
                .done(),
            );
            findings.extend(self.connection.examine_streams().await?);
            Ok(findings)
        })
    }
}
