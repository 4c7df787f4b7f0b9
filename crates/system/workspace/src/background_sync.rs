//! Syncs changes to disk in the background, without the call waiting.
//!
//! New content is synced before it gets its name, so a power failure never tears a file. The rest (the
//! rename, the replaced content, the undo log entry) is only in the kernel's cache when the call
//! returns, which is safe against crashes of Haft. A thread syncs it a moment later, together with other
//! recent changes.

use std::{
    collections::HashSet,
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, PoisonError, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Changes come in bursts, and each sync delays the next change; so sync what arrives within this time
/// together.
const MOMENT: Duration = Duration::from_millis(10);

/// Something to sync.
#[derive(Debug)]
pub(crate) enum SyncItem {
    Content(File),
    Names(OwnedFd),
}

impl SyncItem {
    fn sync(&self) {
        // Errors are ignored: nobody waits for the result, and some file systems cannot sync
        // directories.
        match self {
            Self::Content(file) => drop(file.sync_data()),
            Self::Names(dir) => drop(rustix::fs::fsync(dir)),
        }
    }
}

impl AsFd for SyncItem {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Content(file) => file.as_fd(),
            Self::Names(dir) => dir.as_fd(),
        }
    }
}

/// A thread started by the first change. Dropping it waits until everything is synced.
#[derive(Debug, Default)]
pub(crate) struct BackgroundSync(Mutex<Option<SyncThread>>);

#[derive(Debug)]
struct SyncThread {
    work: mpsc::Sender<Vec<SyncItem>>,
    thread: JoinHandle<()>,
}

impl SyncThread {
    fn start() -> std::io::Result<Self> {
        let (work, waiting) = mpsc::channel::<Vec<SyncItem>>();
        let thread = std::thread::Builder::new().name(String::from("haft-sync")).spawn(move || {
            while let Ok(first) = waiting.recv() {
                sync_once(&gather(first, &waiting));
            }
        })?;
        Ok(Self { work, thread })
    }
}

/// Collects everything that arrives within `MOMENT`.
fn gather(mut all: Vec<SyncItem>, waiting: &mpsc::Receiver<Vec<SyncItem>>) -> Vec<SyncItem> {
    let end = Instant::now() + MOMENT;
    while let Ok(more) = waiting.recv_timeout(end.saturating_duration_since(Instant::now())) {
        all.extend(more);
    }
    all
}

/// Removes duplicates: many changes write to the same log and directory.
fn sync_once(all: &[SyncItem]) {
    let mut seen = HashSet::new();
    for one in all {
        let same = rustix::fs::fstat(one).map(|stat| (stat.st_dev, stat.st_ino));
        if same.is_err() || same.is_ok_and(|same| seen.insert(same)) {
            one.sync();
        }
    }
}

impl BackgroundSync {
    /// Queues items. Returns at once.
    pub(crate) fn sync(&self, batch: Vec<SyncItem>) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            *running = SyncThread::start().ok();
        }
        let left = match running.as_ref() {
            Some(running) => running.work.send(batch).err().map(|it| it.0),
            None => Some(batch),
        };
        // Without a thread, sync here.
        left.iter().flatten().for_each(SyncItem::sync);
    }
}

impl Drop for BackgroundSync {
    fn drop(&mut self) {
        let running = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(SyncThread { work, thread }) = running {
            drop(work);
            thread.join().ok();
        }
    }
}
