//! What reaches the disk right after a change, without the call waiting for it.
//!
//! The new content is on the disk before it gets its name, so a power cut never
//! tears a file. What remains (the name itself, what it replaced, the entry in
//! the undo log) is in the hands of the kernel when the call answers: no crash
//! of ours can lose it. A thread of its own sees it onto the disk a moment
//! later, for all changes of that moment at once.

use std::{
    collections::HashSet,
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, PoisonError, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Changes come in bursts, and each wait for the disk holds up the next change.
const MOMENT: Duration = Duration::from_millis(10);

/// Something that has yet to reach the disk.
#[derive(Debug)]
pub(crate) enum SyncItem {
    Content(File),
    Names(OwnedFd),
}

impl SyncItem {
    fn sync(&self) {
        // Nobody waits for an answer. Some file systems cannot sync directories.
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

/// A thread that is started by the first change; dropping it waits until
/// everything is on the disk.
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

/// Everything that comes within a moment.
fn gather(mut all: Vec<SyncItem>, waiting: &mpsc::Receiver<Vec<SyncItem>>) -> Vec<SyncItem> {
    let end = Instant::now() + MOMENT;
    while let Ok(more) = waiting.recv_timeout(end.saturating_duration_since(Instant::now())) {
        all.extend(more);
    }
    all
}

/// Many changes write to the same log, and often in the same directory.
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
    /// Returns at once.
    pub(crate) fn sync(&self, batch: Vec<SyncItem>) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            *running = SyncThread::start().ok();
        }
        let left = match running.as_ref() {
            Some(running) => running.work.send(batch).err().map(|it| it.0),
            None => Some(batch),
        };
        // Without a thread the call waits.
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
