//! Logs of runs as rows.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteEngine, database::WriteProblem, wakeup::FileWakeup};
use crate::{
    ControlEntry, LeaseKey, LogEnd, LogLine, NewControl, RunId, StoreError, StoreFuture, StoreStream,
    engine::{ChangeWaiter, Pause, RunChange, RunLogs, follow_stream::follow_pages, stale},
};

/// Number of live texts kept for followers that lag a little.
const LIVE_KEPT: i64 = 2_000;

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

fn head(db: &Connection, run: &RunId) -> rusqlite::Result<(LogEnd, u64)> {
    let select = "select epoch, lines, stalled, lines_at_own from log_head where run = ?1";
    let found = db.prepare_cached(select)?.query_row(params![run.as_str()], |row| {
        let end = LogEnd { epoch: unsigned(row.get(0)?), lines: unsigned(row.get(1)?), stalled: row.get(2)? };
        Ok((end, unsigned(row.get(3)?)))
    });
    Ok(found.optional()?.unwrap_or_default())
}

fn set_head(db: &Connection, run: &RunId, end: LogEnd, at_own: u64) -> rusqlite::Result<()> {
    let upsert = "insert into log_head(run, epoch, lines, stalled, lines_at_own) values (?1, ?2, ?3, ?4, ?5) \
                  on conflict (run) do update set epoch = excluded.epoch, lines = excluded.lines, \
                  stalled = excluded.stalled, lines_at_own = excluded.lines_at_own";
    let values = params![run.as_str(), signed(end.epoch), signed(end.lines), end.stalled, signed(at_own)];
    db.prepare_cached(upsert)?.execute(values)?;
    Ok(())
}

fn lines(db: &Connection, run: &RunId, from: u64, most: usize) -> rusqlite::Result<Vec<LogLine>> {
    let select =
        "select number, epoch, text from log_line where run = ?1 and number >= ?2 order by number limit ?3";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut select = db.prepare_cached(select)?;
    let rows = select.query_map(params![run.as_str(), signed(from), most], |row| {
        Ok(LogLine { number: unsigned(row.get(0)?), epoch: unsigned(row.get(1)?), text: row.get(2)? })
    })?;
    rows.collect()
}

fn own(db: &Connection, key: &LeaseKey) -> Result<LogEnd, WriteProblem> {
    let (end, at_own) = head(db, &key.run)?;
    if end.epoch > key.epoch {
        return Err(stale(key).into());
    }
    if end.epoch == key.epoch {
        return Ok(end);
    }
    let stalled = if end.lines == at_own { end.stalled + 1 } else { 0 };
    let owned = LogEnd { epoch: key.epoch, stalled, ..end };
    set_head(db, &key.run, owned, end.lines)?;
    Ok(owned)
}

fn append(db: &Connection, key: &LeaseKey, at: u64, new: &[String]) -> Result<u64, WriteProblem> {
    let (end, at_own) = head(db, &key.run)?;
    if end.epoch > key.epoch {
        return Err(stale(key).into());
    }
    if end.lines != at {
        let there = lines(db, &key.run, at, new.len())?;
        let is_same = there.len() == new.len()
            && there.iter().zip(new).all(|(old, new)| old.epoch == key.epoch && old.text == *new);
        let refusal =
            || StoreError::Refused(format!("run {} goes on at line {}, not {at}", key.run, end.lines));
        return if is_same { Ok(at + new.len() as u64) } else { Err(refusal().into()) };
    }
    let mut insert =
        db.prepare_cached("insert into log_line(run, number, epoch, text) values (?1, ?2, ?3, ?4)")?;
    for (number, line) in (at..).zip(new) {
        insert.execute(params![key.run.as_str(), signed(number), signed(key.epoch), line])?;
    }
    let lines = at + new.len() as u64;
    set_head(db, &key.run, LogEnd { epoch: key.epoch, lines, stalled: end.stalled }, at_own)?;
    Ok(lines)
}

fn say(db: &Connection, run: &RunId, entry: &NewControl) -> rusqlite::Result<u64> {
    let insert = "insert into control(run, number, id, body) \
                  select ?1, (select count(*) from control where run = ?1), ?2, ?3 on conflict do nothing";
    db.prepare_cached(insert)?.execute(params![run.as_str(), entry.id, entry.body.to_string()])?;
    let select = "select number from control where run = ?1 and id = ?2";
    db.prepare_cached(select)?.query_row(params![run.as_str(), entry.id], |row| row.get(0)).map(unsigned)
}

fn said(db: &Connection, run: &RunId, from: u64) -> rusqlite::Result<Vec<ControlEntry>> {
    let mut select = db.prepare_cached(
        "select number, id, body from control where run = ?1 and number >= ?2 order by number",
    )?;
    let rows = select.query_map(params![run.as_str(), signed(from)], |row| {
        let body: String = row.get(2)?;
        let body = serde_json::from_str(&body).unwrap_or(serde_json::Value::Null);
        Ok(ControlEntry { number: unsigned(row.get(0)?), id: row.get(1)?, body })
    })?;
    rows.collect()
}

fn live_texts(db: &Connection, run: &RunId, after: i64) -> rusqlite::Result<Vec<(u64, String)>> {
    let mut select =
        db.prepare_cached("select number, text from live where run = ?1 and number > ?2 order by number")?;
    let rows =
        select.query_map(params![run.as_str(), after], |row| Ok((unsigned(row.get(0)?), row.get(1)?)))?;
    rows.collect()
}

impl SqliteEngine {
    pub(super) fn waiter(&self) -> Box<FileWaiter> {
        Box::new(FileWaiter(self.news.listen()))
    }
}

pub(super) struct FileWaiter(tokio::sync::watch::Receiver<u64>);

impl ChangeWaiter for FileWaiter {
    fn wait(&mut self) -> Pause<'_> {
        Box::pin(FileWakeup::wait(&mut self.0))
    }
}

impl RunLogs for SqliteEngine {
    fn own(&self, key: LeaseKey) -> StoreFuture<'_, LogEnd> {
        Box::pin(self.database.write(move |db| own(db, &key)))
    }

    fn append_at(&self, key: LeaseKey, at: u64, lines: Vec<String>) -> StoreFuture<'_, u64> {
        Box::pin(self.database.write(move |db| append(db, &key, at, &lines)))
    }

    fn read(&self, run: RunId, from: u64, most: usize) -> StoreFuture<'_, Vec<LogLine>> {
        Box::pin(self.database.read(move |db| lines(db, &run, from, most)))
    }

    fn end(&self, run: RunId) -> StoreFuture<'_, LogEnd> {
        Box::pin(self.database.read(move |db| head(db, &run).map(|it| it.0)))
    }

    fn run_news(&self, _run: &RunId, _kind: RunChange) -> Box<dyn ChangeWaiter> {
        self.waiter()
    }

    fn control(&self, run: RunId, entry: NewControl) -> StoreFuture<'_, u64> {
        Box::pin(self.database.write(move |db| Ok(say(db, &run, &entry)?)))
    }

    fn controls(&self, run: RunId, from: u64) -> StoreFuture<'_, Vec<ControlEntry>> {
        Box::pin(self.database.read(move |db| said(db, &run, from)))
    }

    fn live(&self, run: RunId, text: String) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let work = self.database.live(move |db| {
                db.prepare_cached("insert into live(run, text) values (?1, ?2)")?
                    .execute(params![run.as_str(), text])?;
                let last = db.last_insert_rowid();
                if last % 64 == 0 {
                    db.prepare_cached("delete from live where number < ?1")?
                        .execute(params![last - LIVE_KEPT])?;
                }
                Ok(())
            });
            work.await?;
            self.news.tell();
            Ok(())
        })
    }

    fn follow_live(self: Arc<Self>, run: RunId) -> StoreStream<String> {
        let database = self.database.clone();
        let begin = Arc::new(tokio::sync::OnceCell::new());
        follow_pages(self.waiter(), 0, move |from| {
            let (database, run, begin) = (database.clone(), run.clone(), begin.clone());
            Box::pin(async move {
                let newest =
                    || database.live(|db| db.query_row("select max(number) from live", [], |row| row.get(0)));
                let newest: &Option<i64> = begin.get_or_try_init(newest).await?;
                let after = newest.unwrap_or_default().max(signed(from) - 1);
                database.live(move |db| live_texts(db, &run, after)).await
            })
        })
    }

    fn remove(&self, runs: Vec<RunId>) -> StoreFuture<'_, ()> {
        Box::pin(self.database.write(move |db| {
            for table in ["log_head", "log_line", "control"] {
                let mut delete = db.prepare_cached(&format!("delete from {table} where run = ?1"))?;
                for run in &runs {
                    delete.execute(params![run.as_str()])?;
                }
            }
            Ok(())
        }))
    }
}
