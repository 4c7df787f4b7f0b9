//! The command log as rows.

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use tokio::{sync::watch, time::timeout};

use super::{
    PostgresEngine,
    connections::{LEDGER_CHANNEL, PgConnections},
    signed, unsigned,
};
use crate::{
    StoreError, StoreFuture,
    engine::{ChangeWaiter, CommandLog, Pause},
    ledger::{CommandBatch, JobLedger, LedgerCommand},
    store::{LedgerEntry, Mirror},
};

/// Entries kept behind a snapshot, for processes that lag a little.
const TAIL: u64 = 500;

/// Maximum entries read at once.
const PAGE: i64 = 256;

/// Polling interval without notifications.
const GLANCE: Duration = Duration::from_secs(1);

struct LedgerWaiter {
    connections: Arc<PgConnections>,
    news: watch::Receiver<u64>,
}

impl ChangeWaiter for LedgerWaiter {
    fn wait(&mut self) -> Pause<'_> {
        Box::pin(async move {
            if timeout(GLANCE, self.news.changed()).await.is_err() {
                self.connections.relisten().await;
            }
        })
    }
}

impl PostgresEngine {
    /// Loads a newer snapshot; `false` if there is none.
    async fn load_snapshot(&self, mirror: &Mirror) -> Result<bool, StoreError> {
        let after = signed(mirror.number());
        let rows = self
            .connections
            .rows("select number, bytes from haft_fleet.snapshot where number > $1", &[&after])
            .await?;
        let Some(row) = rows.first() else { return Ok(false) };
        self.snapshot_number.fetch_max(unsigned(row.get(0)), Ordering::Relaxed);
        mirror.load(JobLedger::from_snapshot(row.get::<_, &[u8]>(1))?);
        Ok(true)
    }

    async fn apply_new(&self, mirror: &Mirror) -> Result<(), StoreError> {
        if mirror.number() == 0 {
            self.load_snapshot(mirror).await?;
        }
        loop {
            let after = signed(mirror.number());
            let select = "select number, at, id, commands from haft_fleet.ledger \
                          where number > $1 order by number limit $2";
            let rows = self.connections.rows(select, &[&after, &PAGE]).await?;
            for row in &rows {
                let commands = CommandBatch::decode(row.get::<_, &[u8]>(3))?;
                let number = unsigned(row.get(0));
                let entry = LedgerEntry { number, at: row.get(1), id: row.get(2), commands };
                if mirror.apply(&entry) {
                    continue;
                }
                if self.load_snapshot(mirror).await? {
                    break;
                }
                let place = String::from("the table haft_fleet.ledger");
                return Err(StoreError::Corrupt {
                    place,
                    said: format!("entry {} is missing", mirror.number() + 1),
                });
            }
            let is_all = rows.last().is_none_or(|it| unsigned(it.get(0)) <= mirror.number());
            if is_all && rows.len() < usize::try_from(PAGE).unwrap_or_default() {
                return Ok(());
            }
        }
    }
}

impl CommandLog for PostgresEngine {
    fn commit<'a>(
        &'a self,
        mirror: &'a Mirror,
        id: &'a str,
        commands: &'a [LedgerCommand],
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let bytes = CommandBatch::encode(commands)?;
            self.connections.write("select haft_fleet.write_entry($1, $2)", &[&id, &bytes]).await?;
            let told = self.connections.clone();
            tokio::spawn(async move { told.tell(LEDGER_CHANNEL, "").await });
            self.apply_new(mirror).await
        })
    }

    fn catch_up<'a>(&'a self, mirror: &'a Mirror) -> StoreFuture<'a, ()> {
        Box::pin(self.apply_new(mirror))
    }

    fn save_snapshot(&self, number: u64, bytes: Vec<u8>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (at, before) = (signed(number), signed(number.saturating_sub(TAIL)));
            self.connections
                .write("select haft_fleet.keep_snapshot($1, $2, $3)", &[&at, &bytes, &before])
                .await?;
            self.snapshot_number.fetch_max(number, Ordering::Relaxed);
            Ok(())
        })
    }

    fn snapshot_number(&self) -> u64 {
        self.snapshot_number.load(Ordering::Relaxed)
    }

    fn news(&self) -> Box<dyn ChangeWaiter> {
        Box::new(LedgerWaiter { connections: self.connections.clone(), news: self.connections.ledger_news() })
    }
}
