//! Logs of runs as rows.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use tokio::{
    sync::{broadcast, watch},
    time::timeout,
};
use tokio_postgres::Row;

use super::{
    PostgresEngine,
    connections::{LIVE_CHANNEL, PgConnections, RUN_CHANNEL},
    signed, unsigned,
};
use crate::{
    ControlEntry, LeaseKey, LogEnd, LogLine, NewControl, RunId, StoreError, StoreFuture, StoreStream,
    engine::{ChangeWaiter, Pause, RunChange, RunLogs, stale},
};

/// Maximum bytes of text in a notification; PostgreSQL's limit is 8,000 including the run's id.
const LIVE_PART: usize = 7_800;

/// Polling interval without notifications.
const GLANCE: Duration = Duration::from_secs(1);

fn end_of(row: &Row) -> LogEnd {
    LogEnd {
        epoch: unsigned(row.get(0)),
        lines: unsigned(row.get(1)),
        stalled: u32::try_from(row.get::<_, i32>(2)).unwrap_or_default(),
    }
}

impl PostgresEngine {
    async fn log_end(&self, run: &RunId) -> Result<LogEnd, StoreError> {
        let select = "select epoch, lines, stalled from haft_fleet.log_head where run = $1";
        let rows = self.connections.rows(select, &[&run.as_str()]).await?;
        Ok(rows.first().map(end_of).unwrap_or_default())
    }

    async fn lines(&self, run: &RunId, from: u64, most: usize) -> Result<Vec<LogLine>, StoreError> {
        let select = "select number, epoch, line from haft_fleet.log_line \
                      where run = $1 and number >= $2 order by number limit $3";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.connections.rows(select, &[&run.as_str(), &signed(from), &most]).await?;
        let lines = rows.iter().map(|row| LogLine {
            number: unsigned(row.get(0)),
            epoch: unsigned(row.get(1)),
            text: String::from_utf8_lossy(row.get::<_, &[u8]>(2)).into_owned(),
        });
        Ok(lines.collect())
    }

    async fn said(&self, run: &RunId, from: u64) -> Result<Vec<ControlEntry>, StoreError> {
        let select =
            "select number, id, body from haft_fleet.control where run = $1 and number >= $2 order by number";
        let rows = self.connections.rows(select, &[&run.as_str(), &signed(from)]).await?;
        let entries = rows.iter().map(|row| ControlEntry {
            number: unsigned(row.get(0)),
            id: row.get(1),
            body: serde_json::from_str(row.get::<_, &str>(2)).unwrap_or_default(),
        });
        Ok(entries.collect())
    }

    fn tell_of(&self, run: &RunId) {
        let (told, run) = (self.connections.clone(), run.to_string());
        tokio::spawn(async move { told.tell(RUN_CHANNEL, &run).await });
    }
}

struct RunWaiter {
    connections: Arc<PgConnections>,
    news: Option<watch::Receiver<u64>>,
}

impl ChangeWaiter for RunWaiter {
    fn wait(&mut self) -> Pause<'_> {
        Box::pin(async move {
            match &mut self.news {
                Some(news) => drop(timeout(GLANCE, news.changed()).await),
                // The first wait: earlier lines are read right after it. Spawned, because it holds a
                // connection its caller may be waiting for.
                None => {
                    let connections = Arc::clone(&self.connections);
                    self.news = tokio::spawn(async move { connections.run_news().await }).await.ok();
                }
            }
        })
    }
}

/// Splits a text into parts of a maximum length at character boundaries.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > LIVE_PART {
        let (part, after) = rest.split_at(rest.floor_char_boundary(LIVE_PART));
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

impl RunLogs for PostgresEngine {
    fn own(&self, key: LeaseKey) -> StoreFuture<'_, LogEnd> {
        Box::pin(async move {
            let (run, epoch) = (key.run.as_str(), signed(key.epoch));
            let rows = self.connections.rows("select haft_fleet.own_log($1, $2)", &[&run, &epoch]).await?;
            if rows.first().is_some_and(|row| row.get(0)) {
                self.log_end(&key.run).await
            } else {
                Err(stale(&key))
            }
        })
    }

    fn append_at(&self, key: LeaseKey, at: u64, lines: Vec<String>) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let end = at + lines.len() as u64;
            let lines: Vec<Vec<u8>> = lines.into_iter().map(String::into_bytes).collect();
            let (run, epoch, place) = (key.run.as_str(), signed(key.epoch), signed(at));
            let append = "select haft_fleet.append_log($1, $2, $3, $4)";
            let rows = self.connections.rows(append, &[&run, &epoch, &place, &lines]).await?;
            match rows.first().map(|row| row.get::<_, &str>(0)) {
                Some("done") => {
                    self.tell_of(&key.run);
                    Ok(end)
                }
                Some("stale") => Err(stale(&key)),
                _ => Err(StoreError::Refused(format!("run {run} does not go on at line {at}"))),
            }
        })
    }

    fn read(&self, run: RunId, from: u64, most: usize) -> StoreFuture<'_, Vec<LogLine>> {
        Box::pin(async move { self.lines(&run, from, most).await })
    }

    fn end(&self, run: RunId) -> StoreFuture<'_, LogEnd> {
        Box::pin(async move { self.log_end(&run).await })
    }

    fn run_news(&self, _run: &RunId, _kind: RunChange) -> Box<dyn ChangeWaiter> {
        Box::new(RunWaiter { connections: self.connections.clone(), news: None })
    }

    fn control(&self, run: RunId, entry: NewControl) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let body = entry.body.to_string();
            let rows = self
                .connections
                .rows("select haft_fleet.say($1, $2, $3)", &[&run.as_str(), &entry.id, &body])
                .await?;
            self.tell_of(&run);
            Ok(rows.first().map(|row| unsigned(row.get(0))).unwrap_or_default())
        })
    }

    fn controls(&self, run: RunId, from: u64) -> StoreFuture<'_, Vec<ControlEntry>> {
        Box::pin(async move { self.said(&run, from).await })
    }

    fn live(&self, run: RunId, text: String) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            // Notifications cannot contain zero bytes.
            for part in parts(&text.replace('\0', "\u{fffd}")) {
                self.connections.tell(LIVE_CHANNEL, &format!("{run} {part}")).await;
            }
            Ok(())
        })
    }

    fn follow_live(self: Arc<Self>, run: RunId) -> StoreStream<String> {
        let opened = async move {
            let heard = self.connections.live_news().await;
            let begin = format!("{run} ");
            stream::unfold((heard, begin), |(mut heard, begin)| async move {
                loop {
                    match heard.recv().await {
                        Ok(text) => {
                            if let Some(text) = text.strip_prefix(&begin) {
                                return Some((Ok(text.to_owned()), (heard, begin)));
                            }
                        }
                        Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => return None,
                    }
                }
            })
        };
        Box::pin(stream::once(opened).flatten())
    }

    fn remove(&self, runs: Vec<RunId>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let runs: Vec<&str> = runs.iter().map(RunId::as_str).collect();
            for table in ["log_head", "log_line", "control"] {
                self.connections
                    .rows(&format!("delete from haft_fleet.{table} where run = any($1)"), &[&runs])
                    .await?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_text_is_split_at_character_boundaries() {
        for text in ["", "a", &"ä".repeat(9_000), &"x".repeat(LIVE_PART + 1)] {
            let parts = parts(text);
            assert!(parts.iter().all(|it| it.len() <= LIVE_PART));
            assert_eq!(parts.concat(), text);
        }
    }
}
