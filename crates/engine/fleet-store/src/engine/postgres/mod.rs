//! PostgreSQL engine, for installations that already run PostgreSQL.
//!
//! Every write is one call of a database function that is safe to retry, so that it is simply repeated
//! when a connection breaks during a commit. Ledger entries are written one after another. Logs of runs
//! lock only their own row, so the server can group their syncs.
//!
//! Other processes are woken by `notify`, which is sent separately from the write (a commit with a
//! notification waits for all other such commits). They also poll every second.

mod blobs;
mod command_log;
mod connections;
mod run_logs;
mod tls;

use std::sync::{Arc, atomic::AtomicU64};

use crate::{
    EngineFinding, StoreError, StoreFuture,
    engine::{FleetEngine, health_check::finding},
};
use connections::PgConnections;

/// An open connection to a database.
pub(crate) struct PostgresEngine {
    connections: Arc<PgConnections>,
    snapshot_number: AtomicU64,
}

impl PostgresEngine {
    /// Connects, checks the server's version, and creates the tables.
    pub(crate) async fn open(address: &str, name: String) -> Result<Self, StoreError> {
        let connections = PgConnections::open(address, name).await?;
        Ok(Self { connections, snapshot_number: AtomicU64::new(0) })
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

impl FleetEngine for PostgresEngine {
    fn check_health(&self) -> StoreFuture<'_, Vec<EngineFinding>> {
        Box::pin(async move {
            let settings = "select current_setting('server_version'), current_setting('fsync'), \
                            current_setting('synchronous_commit'), current_setting('full_page_writes'), \
                            (extract(epoch from clock_timestamp()) * 1000)::bigint, \
                            pg_database_size(current_database())";
            let begin = crate::store::wall_ms();
            let rows = self.connections.rows(settings, &[]).await?;
            let Some(row) = rows.first() else { return Ok(Vec::new()) };
            let text = |index: usize| row.get::<_, String>(index);
            let is_safe =
                text(1) == "on" && matches!(text(2).as_str(), "on" | "remote_apply") && text(3) == "on";
            let said =
                format!("fsync {}, synchronous_commit {}, full_page_writes {}", text(1), text(2), text(3));
            let apart = (row.get::<_, i64>(4) - begin).abs();
            Ok(vec![
                finding("version", true, format!("PostgreSQL {}", text(0))).done(),
                finding("sync", is_safe, said).advice("set all three to on").done(),
                finding("clock", apart < 5_000, format!("{apart} ms apart"))
                    .advice("set the clocks: schedules follow the server's; leases follow neither")
                    .done(),
                finding("room", true, format!("the database has {} MB", row.get::<_, i64>(5) / 1_048_576))
                    .done(),
            ])
        })
    }
}
