//! Logs of runs: each message names its predecessor.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{
    NatsEngine,
    connection::{Connection, RETRY, StoredMessage, TIMEOUT},
    streams::{run_stream, run_subject, token},
};
use crate::{
    ControlEntry, LeaseKey, LogEnd, LogLine, NewControl, RunId, StoreError, StoreFuture, StoreStream,
    engine::{ChangeWaiter, Pause, RunChange, RunLogs, stale},
};

const EPOCH: &str = "Haft-Epoch";
/// Header: number of the first line of a message.
const AT: &str = "Haft-At";
/// Header: number of lines; none for the marker of a new owner.
const LINES: &str = "Haft-Lines";
/// Header of an owner's marker: consecutive takeovers without a line.
const STALLED: &str = "Haft-Stalled";
/// Header: hash of the lines, to tell apart two writes at one position.
const HASH: &str = "Haft-Hash";

/// Maximum messages read at once.
const PAGE: usize = 200;

/// Polling interval without notifications.
const GLANCE: Duration = Duration::from_secs(1);

/// The newest message of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LogTailMessage {
    sequence: u64,
    epoch: u64,
    at: u64,
    lines: u64,
    stalled: u32,
    hash: String,
}

impl LogTailMessage {
    fn parse(stored: &StoredMessage) -> Self {
        let stalled = stored.number(STALLED).and_then(|it| u32::try_from(it).ok());
        Self {
            sequence: stored.sequence,
            epoch: stored.number(EPOCH).unwrap_or_default(),
            at: stored.number(AT).unwrap_or_default(),
            lines: stored.number(LINES).unwrap_or_default(),
            stalled: stalled.unwrap_or_default(),
            hash: stored.header(HASH).unwrap_or_default().to_owned(),
        }
    }

    fn end(&self) -> u64 {
        self.at + self.lines
    }

    fn log_end(&self) -> LogEnd {
        LogEnd { lines: self.end(), epoch: self.epoch, stalled: self.stalled }
    }
}

#[derive(Serialize, Deserialize)]
struct StoredControl {
    id: String,
    body: Value,
}

/// Returns the part of a subject that names the kind.
fn subject_of(kind: RunChange) -> &'static str {
    match kind {
        RunChange::Lines => "log",
        RunChange::Controls => "ctl",
    }
}

fn news_subject(run: &RunId, kind: &str) -> String {
    format!("haft.news.{kind}.{}", token(run.as_str()))
}

/// Waits on a subject on which writers announce their writes.
struct SubjectWaiter {
    connection: Connection,
    subject: String,
    heard: Option<async_nats::Subscriber>,
}

impl ChangeWaiter for SubjectWaiter {
    fn wait(&mut self) -> Pause<'_> {
        Box::pin(async move {
            match &mut self.heard {
                Some(heard) => drop(timeout(GLANCE, heard.next()).await),
                // The first wait: earlier lines are read right after it.
                None => match self.connection.subscribe(self.subject.clone()).await {
                    Ok(heard) => self.heard = Some(heard),
                    Err(_) => tokio::time::sleep(GLANCE).await,
                },
            }
        })
    }
}

impl NatsEngine {
    /// Returns the newest message of a log, never an older one than this process already knows; asks
    /// several nodes if necessary.
    async fn tail(&self, run: &RunId) -> Result<LogTailMessage, StoreError> {
        let begin = Instant::now();
        loop {
            let newest = self.connection.newest(&run_stream(run), &run_subject(run, "log")).await?;
            let tail = newest.as_ref().map(LogTailMessage::parse).unwrap_or_default();
            let told =
                self.tails.lock().unwrap_or_else(PoisonError::into_inner).get(run).map(|it| it.sequence);
            match told {
                // Deleted by another process.
                Some(_) if newest.is_none() => self.forget_tail(run),
                Some(told) if tail.sequence < told && begin.elapsed() < TIMEOUT => {
                    sleep(RETRY).await;
                    continue;
                }
                Some(told) if tail.sequence < told => return Err(self.connection.is_behind()),
                _ => {}
            }
            return Ok(tail);
        }
    }

    fn known_tail(&self, key: &LeaseKey) -> Option<LogTailMessage> {
        let tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.get(&key.run).filter(|it| it.epoch == key.epoch).cloned()
    }

    fn keep_tail(&self, run: &RunId, tail: LogTailMessage) {
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if tails.len() > 50_000 {
            tails.clear();
        }
        tails.insert(run.clone(), tail);
    }

    fn forget_tail(&self, run: &RunId) {
        self.tails.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }

    /// Writes the message that follows `before`; `None` if another message already does.
    async fn follow_up(
        &self,
        key: &LeaseKey,
        before: &LogTailMessage,
        next: LogTailMessage,
        body: Bytes,
    ) -> Result<Option<LogTailMessage>, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert(EPOCH, next.epoch.to_string().as_str());
        headers.insert(AT, next.at.to_string().as_str());
        headers.insert(LINES, next.lines.to_string().as_str());
        headers.insert(STALLED, next.stalled.to_string().as_str());
        headers.insert(HASH, next.hash.as_str());
        let id = format!("{}/{}/{}/{}/{}", key.run, next.epoch, next.at, next.lines, next.hash);
        let subject = run_subject(&key.run, "log");
        match self.connection.store(&subject, &id, Some(before.sequence), headers, body).await {
            Ok(sequence) => Ok(Some(LogTailMessage { sequence, ..next })),
            Err(failure) if failure.is_wrong_sequence() => Ok(None),
            Err(failure) => Err(self.connection.problem(failure)),
        }
    }

    async fn take_over(&self, key: LeaseKey) -> Result<LogEnd, StoreError> {
        loop {
            let tail = self.tail(&key.run).await?;
            if tail.epoch > key.epoch {
                return Err(stale(&key));
            }
            if tail.epoch == key.epoch {
                return Ok(tail.log_end());
            }
            let stalled = if tail.lines == 0 { tail.stalled + 1 } else { 0 };
            let mark =
                LogTailMessage { epoch: key.epoch, at: tail.end(), stalled, ..LogTailMessage::default() };
            if let Some(mark) = self.follow_up(&key, &tail, mark, Bytes::new()).await? {
                self.keep_tail(&key.run, mark.clone());
                return Ok(mark.log_end());
            }
        }
    }

    async fn append(&self, key: LeaseKey, at: u64, lines: Vec<String>) -> Result<u64, StoreError> {
        let body = Bytes::from(lines.join("\n"));
        let hash = blake3::hash(&body).to_hex()[..16].to_owned();
        let count = lines.len() as u64;
        let next = LogTailMessage { epoch: key.epoch, at, lines: count, hash, ..LogTailMessage::default() };
        let mut known = self.known_tail(&key);
        loop {
            let tail = match known.take() {
                Some(tail) => tail,
                None => self.tail(&key.run).await?,
            };
            if tail.epoch > key.epoch {
                self.forget_tail(&key.run);
                return Err(stale(&key));
            }
            let is_there =
                tail.epoch == key.epoch && tail.at == at && tail.lines == count && tail.hash == next.hash;
            if is_there {
                self.keep_tail(&key.run, tail);
                return Ok(at + count);
            }
            if tail.end() != at {
                let said = format!("run {} goes on at line {}, not {at}", key.run, tail.end());
                self.keep_tail(&key.run, tail);
                return Err(StoreError::Refused(said));
            }
            if let Some(written) = self.follow_up(&key, &tail, next.clone(), body.clone()).await? {
                self.keep_tail(&key.run, written);
                self.connection.tell(news_subject(&key.run, "log"), Bytes::new()).await;
                return Ok(at + count);
            }
        }
    }

    /// Returns lines, and stores where the next read continues.
    async fn lines(&self, run: &RunId, from: u64, most: usize) -> Result<Vec<LogLine>, StoreError> {
        let tail = self.tail(run).await?;
        let mut lines = Vec::new();
        let place = self.places.lock().unwrap_or_else(PoisonError::into_inner).get(run).copied();
        let mut sequence = place.filter(|(line, _)| *line <= from).map_or(1, |it| it.1);
        while sequence <= tail.sequence && lines.len() < most && from < tail.end() {
            let (stream, subject) = (run_stream(run), run_subject(run, "log"));
            let page = self.connection.messages(&stream, &subject, sequence, tail.sequence, PAGE).await?;
            // The newest message exists, so an empty answer is incomplete.
            let Some(last) = page.last() else { return Err(self.connection.is_behind()) };
            let mut next = last.sequence + 1;
            for stored in page {
                let it = LogTailMessage::parse(&stored);
                if lines.len() >= most {
                    next = next.min(stored.sequence);
                    break;
                }
                if it.end() <= from || it.lines == 0 {
                    continue;
                }
                let text = String::from_utf8_lossy(&stored.payload);
                for (number, line) in (it.at..).zip(text.split('\n')) {
                    if number >= from && lines.len() < most {
                        lines.push(LogLine { number, epoch: it.epoch, text: line.to_owned() });
                    }
                }
                // A partly used message is read again.
                if lines.last().is_some_and(|last| last.number + 1 < it.end()) {
                    next = next.min(stored.sequence);
                }
            }
            sequence = next;
        }
        if let Some(last) = lines.last() {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            if places.len() > 10_000 {
                places.clear();
            }
            places.insert(run.clone(), (last.number + 1, sequence));
        }
        Ok(lines)
    }

    async fn say(&self, run: RunId, entry: NewControl) -> Result<u64, StoreError> {
        let find = |all: &[ControlEntry]| all.iter().find(|it| it.id == entry.id).map(|it| it.number);
        if let Some(number) = find(&self.said(&run, 0).await?) {
            return Ok(number);
        }
        let id = format!("{run}/ctl/{}", entry.id);
        let body = json!(StoredControl { id: entry.id.clone(), body: entry.body.clone() }).to_string();
        let stored =
            self.connection.store(&run_subject(&run, "ctl"), &id, None, HeaderMap::new(), body.into()).await;
        stored.map_err(|failure| self.connection.problem(failure))?;
        self.connection.tell(news_subject(&run, "ctl"), Bytes::new()).await;
        let missing = || self.connection.damaged(format!("what was said to run {run} is missing"));
        find(&self.said(&run, 0).await?).ok_or_else(missing)
    }

    async fn said(&self, run: &RunId, from: u64) -> Result<Vec<ControlEntry>, StoreError> {
        let (stream, subject) = (run_stream(run), run_subject(run, "ctl"));
        let Some(newest) = self.connection.newest(&stream, &subject).await? else { return Ok(Vec::new()) };
        let mut entries: Vec<ControlEntry> = Vec::new();
        let mut sequence = 1;
        while sequence <= newest.sequence {
            let page = self.connection.messages(&stream, &subject, sequence, newest.sequence, PAGE).await?;
            let Some(last) = page.last() else { return Err(self.connection.is_behind()) };
            sequence = last.sequence + 1;
            for stored in page {
                let Ok(said) = serde_json::from_slice::<StoredControl>(&stored.payload) else { continue };
                if !entries.iter().any(|it| it.id == said.id) {
                    entries.push(ControlEntry { number: entries.len() as u64, id: said.id, body: said.body });
                }
            }
        }
        let begin = usize::try_from(from).unwrap_or(usize::MAX).min(entries.len());
        Ok(entries.split_off(begin))
    }
}

impl RunLogs for NatsEngine {
    fn own(&self, key: LeaseKey) -> StoreFuture<'_, LogEnd> {
        Box::pin(self.take_over(key))
    }

    fn append_at(&self, key: LeaseKey, at: u64, lines: Vec<String>) -> StoreFuture<'_, u64> {
        Box::pin(self.append(key, at, lines))
    }

    fn read(&self, run: RunId, from: u64, most: usize) -> StoreFuture<'_, Vec<LogLine>> {
        Box::pin(async move { self.lines(&run, from, most).await })
    }

    fn end(&self, run: RunId) -> StoreFuture<'_, LogEnd> {
        Box::pin(async move { Ok(self.tail(&run).await?.log_end()) })
    }

    fn run_news(&self, run: &RunId, kind: RunChange) -> Box<dyn ChangeWaiter> {
        let subject = news_subject(run, subject_of(kind));
        Box::new(SubjectWaiter { connection: self.connection.clone(), subject, heard: None })
    }

    fn control(&self, run: RunId, entry: NewControl) -> StoreFuture<'_, u64> {
        Box::pin(self.say(run, entry))
    }

    fn controls(&self, run: RunId, from: u64) -> StoreFuture<'_, Vec<ControlEntry>> {
        Box::pin(async move { self.said(&run, from).await })
    }

    fn live(&self, run: RunId, text: String) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.connection.tell(news_subject(&run, "live"), text.into()).await;
            Ok(())
        })
    }

    fn follow_live(self: Arc<Self>, run: RunId) -> StoreStream<String> {
        let subject = news_subject(&run, "live");
        let connection = self.connection.clone();
        let opened = async move {
            match connection.subscribe(subject).await {
                Ok(heard) => heard.map(|it| Ok(String::from_utf8_lossy(&it.payload).into_owned())).boxed(),
                Err(err) => futures_util::stream::once(async move { Err(err) }).boxed(),
            }
        };
        Box::pin(futures_util::stream::once(opened).flatten())
    }

    fn remove(&self, runs: Vec<RunId>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            for run in runs {
                self.forget_tail(&run);
                for kind in ["log", "ctl"] {
                    self.connection
                        .purge(&run_stream(&run), &json!({ "filter": run_subject(&run, kind) }))
                        .await?;
                }
            }
            Ok(())
        })
    }
}
