//! Group commit of commands from many callers.

use std::sync::Arc;

use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};
use uuid::Uuid;

use super::ledger_replica::{COMMANDS_AT_MOST, Mirror};
use crate::{
    StoreError,
    engine::FleetEngine,
    ledger::{LedgerCommand, LedgerOutcome},
};

/// Maximum queued callers; further ones block.
const QUEUE: usize = 4_096;

/// Entries after which a snapshot is made, if there are few jobs.
const SNAPSHOT_AFTER: u64 = 1_000;

type CommitRequest = (LedgerCommand, oneshot::Sender<Result<LedgerOutcome, StoreError>>);

/// Collects commands. All that arrive while an entry is being written form the next entry, so a slow
/// disk makes entries larger, not callers slower.
#[derive(Clone)]
pub(super) struct GroupCommitter {
    requests: mpsc::Sender<CommitRequest>,
}

impl GroupCommitter {
    pub(super) fn start(engine: Arc<dyn FleetEngine>, mirror: Arc<Mirror>) -> (Self, AbortHandle) {
        let (requests, inbox) = mpsc::channel(QUEUE);
        let task = tokio::spawn(write_entries(engine, mirror, inbox));
        (Self { requests }, task.abort_handle())
    }

    pub(super) async fn commit(&self, command: LedgerCommand) -> Result<LedgerOutcome, StoreError> {
        let (answer, answered) = oneshot::channel();
        let closed = || StoreError::Refused(String::from("the store was closed"));
        self.requests.send((command, answer)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

async fn write_entries(
    engine: Arc<dyn FleetEngine>,
    mirror: Arc<Mirror>,
    mut inbox: mpsc::Receiver<CommitRequest>,
) {
    let mut requests = Vec::new();
    while inbox.recv_many(&mut requests, COMMANDS_AT_MOST).await > 0 {
        let (commands, answers): (Vec<LedgerCommand>, Vec<_>) = requests.drain(..).unzip();
        let id = Uuid::new_v4().simple().to_string();
        mirror.expect(&id);
        let written = engine.commit(&mirror, &id, &commands).await;
        let outcomes = mirror.claim(&id);
        let is_written = written.is_ok();
        match (written, outcomes) {
            (Ok(()), Some(outcomes)) => {
                for (answer, outcome) in answers.into_iter().zip(outcomes) {
                    let _ = answer.send(Ok(outcome));
                }
            }
            (written, _) => {
                let lost = StoreError::Corrupt {
                    place: String::from("the ledger"),
                    said: String::from("an entry was written and did not come back"),
                };
                let problem = written.err().unwrap_or(lost);
                answers.into_iter().for_each(|answer| drop(answer.send(Err(problem.clone()))));
            }
        }
        if is_written {
            save_snapshot_if_due(&*engine, &mirror).await;
        }
    }
}

/// Stores a snapshot if enough entries have been written since the last one, relative to its size. A
/// failed snapshot is retried after the next entry.
async fn save_snapshot_if_due(engine: &dyn FleetEngine, mirror: &Mirror) {
    let since = mirror.number().saturating_sub(engine.snapshot_number());
    let snapshot = mirror.read(|ledger| {
        let is_due = since >= SNAPSHOT_AFTER.max(ledger.job_number() / 4);
        is_due.then(|| (ledger.entry_number(), ledger.snapshot()))
    });
    if let Some((number, Ok(bytes))) = snapshot {
        let _ = engine.save_snapshot(number, bytes).await;
    }
}
