//! The fence of a run: its lines go to the store in order, and whoever waits for
//! one hears when it is kept or never will be.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_agent::log::{RemoteLog, RemoteLogFuture, RemoteLogOwner};
use haft_fleet_store::{FleetStore, LeaseKey, StoreError};
use haft_types::CallId;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    large_results::LargeResults,
    lease_clock::LeaseClock,
    run_log_lines::{CallMarker, FleetState},
    secret_rules::ValueMask,
};

/// How many lines one append has at most.
const MAX_LINES: usize = 512;
/// How many bytes one append has at most, but for a single line.
const MAX_BYTES: usize = 512 << 10;
/// How long between tries while the store does not answer.
const AGAIN: Duration = Duration::from_millis(300);

/// A run's lines on their way to the store. Clones are the same.
#[derive(Clone)]
pub(crate) struct StoreLog(Arc<StoreLogInner>);

struct StoreLogInner {
    store: FleetStore,
    key: LeaseKey,
    worker: String,
    clock: LeaseClock,
    mask: ValueMask,
    results: LargeResults,
    waiting: Mutex<WaitingLines>,
    news: Notify,
    state: watch::Sender<StoreLogState>,
    /// Fires when the run is not this worker's any more.
    lost: CancellationToken,
    /// What is known about calls that were cut short.
    seen: Mutex<std::collections::HashMap<String, String>>,
}

#[derive(Default)]
struct WaitingLines {
    lines: std::collections::VecDeque<String>,
    taken: u64,
    /// Calls that began and have no result.
    open: std::collections::HashSet<String>,
    /// How many calls began.
    begun: u64,
    /// Calls that ended since the last time somebody asked.
    ended: Vec<String>,
    /// Whether nothing more of the session is taken.
    is_sealed: bool,
}

#[derive(Clone, Debug, Default)]
struct StoreLogState {
    kept: u64,
    failed: Option<Arc<str>>,
}

impl std::fmt::Debug for StoreLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreLog").field("key", &self.0.key).finish_non_exhaustive()
    }
}

impl StoreLog {
    /// For a run that this worker has; the task that hands lines over ends when
    /// the last clone is gone or the run is lost.
    pub(crate) fn begin(
        store: &FleetStore,
        key: LeaseKey,
        worker: &str,
        clock: LeaseClock,
        mask: ValueMask,
        results: LargeResults,
    ) -> Self {
        let inner = Arc::new(StoreLogInner {
            store: store.clone(),
            key,
            worker: worker.to_owned(),
            clock,
            mask,
            results,
            waiting: Mutex::default(),
            news: Notify::new(),
            state: watch::Sender::new(StoreLogState::default()),
            lost: CancellationToken::new(),
            seen: Mutex::default(),
        });
        tokio::spawn(hand_over(Arc::downgrade(&inner)));
        Self(inner)
    }

    /// Fires when the run is not this worker's any more.
    pub(crate) fn lost(&self) -> CancellationToken {
        self.0.lost.clone()
    }

    /// Why nothing is kept any more, if so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0.state.borrow().failed.as_ref().map(ToString::to_string)
    }

    /// The run is over for this worker: nothing is written from now on.
    pub(crate) fn fail(&self, why: &str) {
        self.0.fail(why);
    }

    /// Adds a line that is not of the session's own log.
    pub(crate) fn note(&self, state: &FleetState) {
        self.0.take(state.to_line());
    }

    /// How many calls that may act began.
    pub(crate) fn calls_begun(&self) -> u64 {
        self.0.waiting().begun
    }

    /// Whether no call that may act is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.waiting().open.is_empty()
    }

    /// Calls that acted and have ended since the last time.
    pub(crate) fn take_ended_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.0.waiting().ended)
    }

    /// Takes nothing more of the session, unless a call is running: from now on none
    /// can begin. What the worker itself has to say still goes through.
    pub(crate) fn seal_if_idle(&self) -> bool {
        let mut waiting = self.0.waiting();
        waiting.is_sealed |= waiting.open.is_empty();
        waiting.is_sealed
    }

    /// Comes when everything that was taken is kept, also when the session's part
    /// is over.
    pub(crate) async fn kept(&self) -> Result<(), String> {
        let wanted = self.0.waiting().taken;
        let mut state = self.0.state.subscribe();
        let settled = state.wait_for(|it| it.failed.is_some() || wanted <= it.kept).await;
        match settled.map(|it| it.failed.clone()).unwrap_or_default() {
            Some(why) => Err(why.to_string()),
            None => Ok(()),
        }
    }

    /// What is known about the effects of a call of an earlier worker.
    pub(crate) fn tell_about(&self, call: &str, words: String) {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(call.to_owned(), words);
    }

    /// Text for whoever looks right now.
    pub(crate) fn live(&self, text: &str) {
        let inner = Arc::clone(&self.0);
        let text = inner.mask.masked(text);
        tokio::spawn(async move {
            // Nobody has to hear it.
            inner.store.log.live(inner.key.run.clone(), text).await.ok();
        });
    }
}

impl StoreLogInner {
    fn waiting(&self) -> std::sync::MutexGuard<'_, WaitingLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, why: &str) {
        let first = self.state.send_if_modified(|state| {
            let is_first = state.failed.is_none();
            if is_first {
                state.failed = Some(why.into());
            }
            is_first
        });
        if first {
            tracing::info!(run = %self.key.run, epoch = self.key.epoch, why, "the run is lost");
        }
        self.lost.cancel();
        self.news.notify_one();
    }

    /// A line of the session; whether it was taken.
    fn take_of_session(&self, line: String) -> bool {
        let masked = self.mask.masked(&line);
        let mut waiting = self.waiting();
        if waiting.is_sealed {
            return false;
        }
        match CallMarker::parse(&line) {
            Some(CallMarker::Started(call)) => {
                waiting.begun += 1;
                waiting.open.insert(call);
            }
            Some(CallMarker::Ended(call)) if waiting.open.remove(&call) => waiting.ended.push(call),
            Some(CallMarker::Ended(_)) | None => (),
        }
        waiting.taken += 1;
        waiting.lines.push_back(masked);
        drop(waiting);
        self.news.notify_one();
        true
    }

    fn take(&self, line: String) {
        let line = self.mask.masked(&line);
        let mut waiting = self.waiting();
        waiting.taken += 1;
        waiting.lines.push_back(line);
        drop(waiting);
        self.news.notify_one();
    }

    /// The next lines to hand over.
    fn next(&self) -> Vec<String> {
        let mut waiting = self.waiting();
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while let Some(line) = waiting.lines.front() {
            if MAX_LINES <= lines.len() || !lines.is_empty() && MAX_BYTES < bytes + line.len() {
                break;
            }
            bytes += line.len();
            lines.extend(waiting.lines.pop_front());
        }
        lines
    }

    /// Hands lines over, again and again while the store does not answer and the
    /// lease holds.
    async fn keep(&self, mut lines: Vec<String>) -> Result<(), String> {
        let count = lines.len() as u64;
        for line in &mut lines {
            self.carry_results(line).await?;
        }
        self.persist(|| self.store.log.append(self.key.clone(), lines.clone())).await?;
        self.state.send_modify(|state| state.kept += count);
        Ok(())
    }

    /// Results that are files of this worker go to the store before the line that
    /// names them, and the line names them as blobs.
    async fn carry_results(&self, line: &mut String) -> Result<(), String> {
        for file in self.results.named_in(line) {
            let Some(bytes) = self.results.read(&file).await else { continue };
            let bytes = self.mask.mask_bytes(&bytes).map_or(bytes, bytes::Bytes::from);
            let tenant = self.results.tenant();
            let put =
                self.persist(|| self.store.blobs.put(tenant.clone(), bytes.clone(), Some(self.key.clone())));
            *line = line.replace(&file.written, &format!("blob:{}", put.await?));
        }
        Ok(())
    }

    async fn persist<'a, T>(
        &self,
        ask: impl Fn() -> haft_fleet_store::StoreFuture<'a, T>,
    ) -> Result<T, String> {
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(err @ StoreError::Stale { .. }) => return Err(err.to_string()),
                Err(err) if err.is_passing() => {
                    if !self.clock.is_fresh() {
                        return Err(format!(
                            "the store could not be written for as long as the lease holds: {err}"
                        ));
                    }
                    tokio::select! {
                        () = tokio::time::sleep(AGAIN) => (),
                        () = self.lost.cancelled() => return Err(String::from("the run is lost")),
                    }
                }
                Err(err) => return Err(err.to_string()),
            }
        }
    }
}

/// Hands lines over while anybody has the fence.
async fn hand_over(fence: std::sync::Weak<StoreLogInner>) {
    loop {
        let Some(inner) = fence.upgrade() else { return };
        let lines = inner.next();
        if lines.is_empty() {
            let news = inner.news.notified();
            tokio::select! {
                () = news => (),
                // Somebody has to see that nobody has the fence any more.
                () = tokio::time::sleep(Duration::from_secs(2)) => (),
            }
            continue;
        }
        if inner.state.borrow().failed.is_some() {
            continue;
        }
        if let Err(why) = inner.keep(lines).await {
            inner.fail(&why);
        }
    }
}

impl RemoteLog for StoreLog {
    fn owner(&self) -> RemoteLogOwner {
        RemoteLogOwner { epoch: self.0.key.epoch, worker: self.0.worker.clone() }
    }

    fn take(&self, log: &str, lines: &[u8]) {
        for line in lines.split(|it| *it == b'\n').filter(|line| !line.is_empty()) {
            let line = String::from_utf8_lossy(line).into_owned();
            let line =
                if log.is_empty() { line } else { FleetState::Log { log: log.to_owned(), line }.to_line() };
            if !self.0.take_of_session(line) {
                return;
            }
        }
    }

    fn put(&self, file: &str, content: &[u8]) {
        let content = String::from_utf8_lossy(content).into_owned();
        self.0.take_of_session(FleetState::File { file: file.to_owned(), content }.to_line());
    }

    fn settled(&self) -> RemoteLogFuture {
        let inner = Arc::clone(&self.0);
        let (wanted, is_sealed) = {
            let waiting = inner.waiting();
            (waiting.taken, waiting.is_sealed)
        };
        Box::pin(async move {
            if is_sealed {
                return Err(String::from("the worker hands the run back. Another one makes this call"));
            }
            let mut state = inner.state.subscribe();
            let settled = state.wait_for(|it| it.failed.is_some() || wanted <= it.kept).await;
            let failed = settled.map(|it| it.failed.clone()).unwrap_or_default();
            if let Some(why) = failed {
                return Err(format!(
                    "this worker may not act for the run any more ({why}). Nothing was done"
                ));
            }
            // The process may have slept since: then others may have the run.
            if !inner.clock.is_fresh() {
                let why = "the lease was not renewed in time";
                inner.fail(why);
                return Err(format!(
                    "this worker may not act for the run any more ({why}). Nothing was done"
                ));
            }
            Ok(())
        })
    }

    fn seen(&self, call: &CallId) -> Option<String> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).get(call.as_str()).cloned()
    }
}
