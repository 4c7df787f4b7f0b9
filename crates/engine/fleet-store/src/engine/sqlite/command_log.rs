//! The command log as rows.

use std::sync::atomic::Ordering;

use rusqlite::{OptionalExtension, params};

use super::SqliteEngine;
use crate::{
    StoreError, StoreFuture,
    engine::{ChangeWaiter, CommandLog},
    ledger::{CommandBatch, JobLedger, LedgerCommand},
    store::{LedgerEntry, Mirror, wall_ms},
};

/// Entries kept behind a snapshot, for processes that lag a little.
const TAIL: u64 = 500;

/// Maximum entries read at once.
const PAGE: i64 = 256;

struct LedgerRows {
    snapshot: Option<(u64, Vec<u8>)>,
    entries: Vec<(u64, i64, String, Vec<u8>)>,
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn find(db: &rusqlite::Connection, after: u64) -> rusqlite::Result<LedgerRows> {
    // One transaction, so that no snapshot is stored and no entry deleted between the two reads.
    let db = db.unchecked_transaction()?;
    let newest = db.query_row("select number from snapshot", [], |row| row.get::<_, i64>(0)).optional()?;
    let first: Option<i64> = db.query_row("select min(number) from ledger", [], |row| row.get(0))?;
    let has_gap = first.is_some_and(|it| it > number(after) + 1);
    let snapshot = match newest.and_then(|it| u64::try_from(it).ok()) {
        Some(newest) if newest > after && (has_gap || after == 0) => {
            Some((newest, db.query_row("select bytes from snapshot", [], |row| row.get(0))?))
        }
        _ => None,
    };
    let after = snapshot.as_ref().map_or(after, |it| it.0);
    let mut entries = db.prepare_cached(
        "select number, at, id, commands from ledger where number > ?1 order by number limit ?2",
    )?;
    let rows = entries.query_map(params![number(after), PAGE], |row| {
        Ok((u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default(), row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    Ok(LedgerRows { snapshot, entries: rows.collect::<rusqlite::Result<_>>()? })
}

impl CommandLog for SqliteEngine {
    fn commit<'a>(
        &'a self,
        mirror: &'a Mirror,
        id: &'a str,
        commands: &'a [LedgerCommand],
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let bytes = CommandBatch::encode(commands)?;
            let id = id.to_owned();
            self.database
                .write(move |db| {
                    let insert = "insert into ledger(number, at, id, commands) \
                                  select coalesce(max(number), 0) + 1, ?1, ?2, ?3 from ledger";
                    db.prepare_cached(insert)?.execute(params![wall_ms(), id, bytes])?;
                    Ok(())
                })
                .await?;
            self.catch_up(mirror).await
        })
    }

    fn catch_up<'a>(&'a self, mirror: &'a Mirror) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let after = mirror.number();
                let found = self.database.read(move |db| find(db, after)).await?;
                if let Some((number, bytes)) = found.snapshot {
                    self.snapshot_number.fetch_max(number, Ordering::Relaxed);
                    mirror.load(JobLedger::from_snapshot(&bytes)?);
                }
                let is_all = found.entries.len() < usize::try_from(PAGE).unwrap_or_default();
                for (number, at, id, bytes) in found.entries {
                    let commands = CommandBatch::decode(&bytes)?;
                    if !mirror.apply(&LedgerEntry { number, at, id, commands }) {
                        let said = format!("entry {} is missing", mirror.number() + 1);
                        return Err(StoreError::Corrupt {
                            place: self.database.place().display().to_string(),
                            said,
                        });
                    }
                }
                if is_all {
                    return Ok(());
                }
            }
        })
    }

    fn save_snapshot(&self, at: u64, bytes: Vec<u8>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.database
                .write(move |db| {
                    let upsert = "insert into snapshot(one, number, bytes) values (1, ?1, ?2) on conflict (one) \
                                  do update set number = excluded.number, bytes = excluded.bytes \
                                  where excluded.number > snapshot.number";
                    db.execute(upsert, params![number(at), bytes])?;
                    let kept = number(at.saturating_sub(TAIL));
                    db.execute("delete from ledger where number < ?1", params![kept])?;
                    Ok(())
                })
                .await?;
            self.snapshot_number.fetch_max(at, Ordering::Relaxed);
            Ok(())
        })
    }

    fn snapshot_number(&self) -> u64 {
        self.snapshot_number.load(Ordering::Relaxed)
    }

    fn news(&self) -> Box<dyn ChangeWaiter> {
        self.waiter()
    }

    fn boot(&self) -> Option<String> {
        self.boot.clone()
    }
}
