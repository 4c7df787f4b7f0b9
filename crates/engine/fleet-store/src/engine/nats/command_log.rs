//! The ordered list of commands, as messages of one stream.

use std::{
    cmp::Ordering::{Equal, Greater, Less},
    sync::atomic::Ordering,
    time::Instant,
};

use async_nats::HeaderMap;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::sleep;

use super::{
    NatsEngine,
    connection::{LEDGER_NEWS, RETRY, StoredMessage, TIMEOUT},
    streams::{BLOBS, LEDGER, LEDGER_SUBJECT, SNAPSHOT_SUBJECT},
};
use crate::{
    BlobHash, FleetName, StoreError, StoreFuture,
    engine::{ChangeWaiter, CommandLog, Pause, RawBlobs},
    ledger::{CommandBatch, JobLedger, LedgerCommand},
    store::{LedgerEntry, Mirror},
};

/// Longer entries lie in a blob.
const ENTRY: usize = 600 * 1_024;

/// So many entries stay behind a snapshot, for those that are a little behind.
const TAIL: u64 = 1_000;

/// The header that says where an entry lies.
const BLOB: &str = "Haft-Blob";

#[derive(Serialize, Deserialize)]
struct SnapshotPosition {
    number: u64,
    blob: BlobHash,
}

fn own_name() -> Result<FleetName, StoreError> {
    FleetName::parse("haft").map_err(|err| StoreError::Refused(err.to_string()))
}

impl NatsEngine {
    async fn own_blob(&self, hash: BlobHash) -> Result<Option<Bytes>, StoreError> {
        RawBlobs::get(self, own_name()?, hash).await
    }

    async fn entry(&self, stored: StoredMessage) -> Result<LedgerEntry, StoreError> {
        let bytes = match stored.header(BLOB) {
            Some(hash) => {
                let missing =
                    || self.connection.damaged(format!("entry {} of the ledger is missing", stored.sequence));
                self.own_blob(BlobHash::parse(hash)?).await?.ok_or_else(missing)?
            }
            None => stored.payload.clone(),
        };
        let id = stored.header("Nats-Msg-Id").unwrap_or_default().to_owned();
        Ok(LedgerEntry {
            number: stored.sequence,
            at: stored.at,
            id,
            commands: CommandBatch::decode(&bytes)?,
        })
    }

    /// Applies entries up to one that is known to be there, whoever has to be asked for
    /// them until one has it.
    async fn apply_up_to(&self, mirror: &Mirror, end: u64) -> Result<(), StoreError> {
        let begin = Instant::now();
        while mirror.number() < end {
            match self.apply_some(mirror, end).await {
                Err(err) if err.is_passing() && begin.elapsed() < TIMEOUT => sleep(RETRY).await,
                applied => applied?,
            }
        }
        Ok(())
    }

    /// Applies the next entries, or passes over a number that none has.
    async fn apply_some(&self, mirror: &Mirror, end: u64) -> Result<(), StoreError> {
        if mirror.number() == 0 && end > 1 {
            self.load_snapshot(mirror).await?;
        }
        let from = mirror.number() + 1;
        let stored: Vec<StoredMessage> = match from.cmp(&end) {
            Less => self.connection.messages(LEDGER, LEDGER_SUBJECT, from, end, 256).await?,
            Equal => self.connection.message(LEDGER, end).await?.into_iter().collect(),
            Greater => return Ok(()),
        };
        match stored.first() {
            None if from < end => Err(self.connection.is_behind()),
            Some(first) if first.sequence == from => {
                for stored in stored {
                    // A number nobody got: the next round looks into it.
                    if stored.sequence > mirror.number() && !mirror.apply(&self.entry(stored).await?) {
                        break;
                    }
                }
                Ok(())
            }
            _ => self.close_gap(mirror, from).await,
        }
    }

    /// An entry is not there: it lies behind a snapshot, or there never was one, or
    /// whoever was asked does not have it yet. One answer of one node decides which: a
    /// node that is behind has the same gaps as the others, and fewer entries.
    async fn close_gap(&self, mirror: &Mirror, missing: u64) -> Result<(), StoreError> {
        let entries = self.connection.ledger_entries().await?;
        if missing >= entries.first {
            return if entries.gaps.contains(&missing) {
                mirror.skip(missing);
                Ok(())
            } else {
                Err(self.connection.is_behind())
            };
        }
        self.load_snapshot(mirror).await?;
        if mirror.number() < missing {
            return Err(self.connection.damaged(format!("entry {missing} of the ledger is missing")));
        }
        Ok(())
    }

    async fn snapshot_place(&self) -> Result<(u64, Option<SnapshotPosition>), StoreError> {
        let Some(stored) = self.connection.newest(BLOBS, SNAPSHOT_SUBJECT).await? else {
            return Ok((0, None));
        };
        let place: SnapshotPosition = serde_json::from_slice(&stored.payload)
            .map_err(|err| self.connection.damaged(err.to_string()))?;
        self.snapshot_number.fetch_max(place.number, Ordering::Relaxed);
        Ok((stored.sequence, Some(place)))
    }

    async fn load_snapshot(&self, mirror: &Mirror) -> Result<(), StoreError> {
        // A newer one may replace the one that is being read.
        for _ in 0..5 {
            let (_, Some(place)) = self.snapshot_place().await? else { return Ok(()) };
            if let Some(bytes) = self.own_blob(place.blob).await? {
                mirror.load(JobLedger::from_snapshot(&bytes)?);
                return Ok(());
            }
        }
        Err(self.connection.damaged(String::from("the snapshot of the ledger is missing")))
    }
}

struct LedgerWaiter(tokio::sync::watch::Receiver<u64>);

impl ChangeWaiter for LedgerWaiter {
    fn wait(&mut self) -> Pause<'_> {
        Box::pin(async move {
            let _ = self.0.changed().await;
        })
    }
}

impl CommandLog for NatsEngine {
    fn commit<'a>(
        &'a self,
        mirror: &'a Mirror,
        id: &'a str,
        commands: &'a [LedgerCommand],
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut bytes = Bytes::from(CommandBatch::encode(commands)?);
            let mut headers = HeaderMap::new();
            if bytes.len() > ENTRY {
                let hash = BlobHash::hash(&bytes);
                RawBlobs::put(self, own_name()?, hash, std::mem::take(&mut bytes)).await?;
                headers.insert(BLOB, hash.to_string().as_str());
            }
            let stored = self.connection.store(LEDGER_SUBJECT, id, None, headers, bytes).await;
            let number = stored.map_err(|failure| self.connection.problem(failure))?;
            self.connection.tell(LEDGER_NEWS.to_owned(), Bytes::new()).await;
            self.apply_up_to(mirror, number).await
        })
    }

    fn catch_up<'a>(&'a self, mirror: &'a Mirror) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let end = self.connection.ledger_entries().await?.last;
            self.apply_up_to(mirror, end).await
        })
    }

    fn save_snapshot(&self, number: u64, bytes: Vec<u8>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (sequence, old) = self.snapshot_place().await?;
            if old.as_ref().is_some_and(|it| it.number >= number) {
                return Ok(());
            }
            let (bytes, tenant) = (Bytes::from(bytes), own_name()?);
            let blob = BlobHash::hash(&bytes);
            RawBlobs::put(self, tenant.clone(), blob, bytes).await?;
            let place = json!(SnapshotPosition { number, blob }).to_string();
            let id = format!("snapshot-{number}-{blob}");
            let stored = self
                .connection
                .store(SNAPSHOT_SUBJECT, &id, Some(sequence), HeaderMap::new(), place.into())
                .await;
            match stored {
                // Somebody else has made one meanwhile.
                Err(failure) if failure.is_wrong_sequence() => return Ok(()),
                stored => stored.map_err(|failure| self.connection.problem(failure))?,
            };
            self.snapshot_number.fetch_max(number, Ordering::Relaxed);
            self.connection.purge(LEDGER, &json!({ "seq": number.saturating_sub(TAIL).max(1) })).await?;
            if let Some(old) = old.filter(|it| it.blob != blob) {
                self.remove_blob(&tenant, old.blob).await?;
            }
            Ok(())
        })
    }

    fn snapshot_number(&self) -> u64 {
        self.snapshot_number.load(Ordering::Relaxed)
    }

    fn news(&self) -> Box<dyn ChangeWaiter> {
        Box::new(LedgerWaiter(self.news.clone()))
    }
}
