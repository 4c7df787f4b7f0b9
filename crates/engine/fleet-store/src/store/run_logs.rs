//! Logs: ordered lines from one writer; long lines are stored as blobs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::Mutex as AsyncMutex;

use super::StoreCore;
use crate::{
    BlobHash, ControlEntry, FleetName, LeaseKey, LogEnd, LogLine, LogStore, NewControl, RunId, StoreError,
    StoreFuture, StoreStream,
    engine::{FleetEngine, stale},
};

/// Maximum bytes of a line; longer ones are replaced by a reference to a blob.
const LINE_AT_MOST: usize = 512 * 1_024;

/// Approximate maximum bytes of lines written together.
const PIECE: usize = 600 * 1_024;

/// First character of a stored line that is not the original text.
const MARK: char = '\u{1}';

/// Tenant of blobs of runs without a known job.
const NOBODY: &str = "haft";

/// Position of a writer's next line, if known.
type WriterChain = Arc<AsyncMutex<Option<(u64, u64)>>>;

/// [`LogStore`] on an engine.
pub(crate) struct BigLineLogs {
    core: Arc<StoreCore>,
    chains: Mutex<HashMap<RunId, WriterChain>>,
}

impl BigLineLogs {
    pub(crate) fn new(core: Arc<StoreCore>) -> Self {
        Self { core, chains: Mutex::default() }
    }

    fn chain(&self, run: &RunId) -> WriterChain {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        // Unused entries can be dropped; they can be read again from the engine.
        if chains.len() > 10_000 {
            chains.retain(|_, it| Arc::strong_count(it) > 1);
        }
        chains.entry(run.clone()).or_default().clone()
    }

    async fn append_lines(&self, key: LeaseKey, lines: Vec<String>) -> Result<u64, StoreError> {
        let lines = self.shortened(&key.run, lines).await?;
        let chain = self.chain(&key.run);
        let mut place = chain.lock().await;
        let mut at = match *place {
            Some((epoch, at)) if epoch == key.epoch => at,
            _ => self.place_of(&key).await?,
        };
        for piece in pieces(lines) {
            *place = Some((key.epoch, at));
            at = match self.core.engine.append_at(key.clone(), at, piece.clone()).await {
                // The write whose acknowledgement was lost is stored, and the caller continued with
                // other lines.
                Err(StoreError::Refused(_)) => {
                    let there = self.place_of(&key).await?;
                    self.core.engine.append_at(key.clone(), there, piece).await?
                }
                written => written?,
            };
        }
        *place = Some((key.epoch, at));
        Ok(at)
    }

    async fn place_of(&self, key: &LeaseKey) -> Result<u64, StoreError> {
        let end = self.core.engine.end(key.run.clone()).await?;
        if end.epoch > key.epoch { Err(stale(key)) } else { Ok(end.lines) }
    }

    async fn shortened(&self, run: &RunId, mut lines: Vec<String>) -> Result<Vec<String>, StoreError> {
        for line in &mut lines {
            if line.contains('\n') {
                return Err(StoreError::Refused(String::from("a line of a log has no line feed")));
            }
            if line.len() > LINE_AT_MOST {
                let tenant = self.tenant(run)?;
                let bytes = Bytes::from(std::mem::take(line));
                let hash = BlobHash::hash(&bytes);
                self.core.engine.put(tenant.clone(), hash, bytes).await?;
                *line = format!("{MARK}{hash} {tenant}");
            } else if line.starts_with(MARK) {
                line.insert(0, MARK);
            }
        }
        Ok(lines)
    }

    fn tenant(&self, run: &RunId) -> Result<FleetName, StoreError> {
        let tenant = self.core.mirror.read(|it| it.job(run).map(|job| job.head.tenant.clone()));
        tenant
            .map_or_else(|| FleetName::parse(NOBODY).map_err(|err| StoreError::Refused(err.to_string())), Ok)
    }
}

/// Groups lines so that each group fits into one message.
fn pieces(lines: Vec<String>) -> Vec<Vec<String>> {
    let mut pieces: Vec<Vec<String>> = Vec::new();
    let mut size = 0;
    for line in lines {
        if pieces.is_empty() || size + line.len() > PIECE {
            pieces.push(Vec::new());
            size = 0;
        }
        size += line.len() + 8;
        if let Some(last) = pieces.last_mut() {
            last.push(line);
        }
    }
    pieces
}

/// Restores the original text of a line.
async fn whole(engine: &dyn FleetEngine, mut line: LogLine) -> Result<LogLine, StoreError> {
    let Some(rest) = line.text.strip_prefix(MARK) else { return Ok(line) };
    if rest.starts_with(MARK) {
        line.text.remove(0);
        return Ok(line);
    }
    let damaged = || StoreError::Corrupt {
        place: format!("line {} of a log", line.number),
        said: String::from("a bad reference"),
    };
    let (hash, tenant) = rest.split_once(' ').ok_or_else(damaged)?;
    let tenant = FleetName::parse(tenant).map_err(|_| damaged())?;
    let bytes = super::blobs::checked(engine, &tenant, BlobHash::parse(hash)?).await?;
    line.text = String::from_utf8(bytes.into()).map_err(|_| damaged())?;
    Ok(line)
}

impl LogStore for BigLineLogs {
    fn append(&self, key: LeaseKey, lines: Vec<String>) -> StoreFuture<'_, u64> {
        Box::pin(self.append_lines(key, lines))
    }

    fn read(&self, run: RunId, from: u64, most: usize) -> StoreFuture<'_, Vec<LogLine>> {
        Box::pin(async move {
            let mut lines = self.core.engine.read(run, from, most).await?;
            for line in &mut lines {
                if line.text.starts_with(MARK) {
                    *line = whole(&*self.core.engine, line.clone()).await?;
                }
            }
            Ok(lines)
        })
    }

    fn end(&self, run: RunId) -> StoreFuture<'_, LogEnd> {
        self.core.engine.end(run)
    }

    fn follow(&self, run: RunId, from: u64) -> StoreStream<LogLine> {
        let core = self.core.clone();
        let lines = self.core.engine.clone().follow(run, from);
        Box::pin(lines.then(move |line| {
            let core = core.clone();
            async move { whole(&*core.engine, line?).await }
        }))
    }

    fn control(&self, run: RunId, entry: NewControl) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            if entry.body.to_string().len() > LINE_AT_MOST || entry.id.len() > 256 {
                return Err(StoreError::Refused(format!(
                    "what is said to a run has at most {LINE_AT_MOST} bytes"
                )));
            }
            self.core.engine.control(run, entry).await
        })
    }

    fn controls(&self, run: RunId, from: u64) -> StoreFuture<'_, Vec<ControlEntry>> {
        self.core.engine.controls(run, from)
    }

    fn follow_controls(&self, run: RunId, from: u64) -> StoreStream<ControlEntry> {
        self.core.engine.clone().follow_controls(run, from)
    }

    fn live(&self, run: RunId, text: String) -> StoreFuture<'_, ()> {
        self.core.engine.live(run, text)
    }

    fn follow_live(&self, run: RunId) -> StoreStream<String> {
        self.core.engine.clone().follow_live(run)
    }

    fn import(&self, run: RunId, lines: Vec<String>) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let end = self.core.engine.end(run.clone()).await?;
            // Continue an import that was interrupted.
            let there = usize::try_from(end.lines).unwrap_or(usize::MAX);
            let mut is_same = end.epoch == 0 && there <= lines.len();
            let mut next = 0;
            while is_same && next < there {
                let found = self.read(run.clone(), next as u64, 2_000).await?;
                is_same = !found.is_empty()
                    && found.iter().zip(&lines[next..]).all(|(found, line)| found.text == *line);
                next += found.len();
            }
            if !is_same {
                return Err(StoreError::Refused(format!("run {run} has a log here already")));
            }
            let rest: Vec<String> = lines.into_iter().skip(there).collect();
            if rest.is_empty() {
                return Ok(end.lines);
            }
            self.append_lines(LeaseKey { run, epoch: 0 }, rest).await
        })
    }
}
