//! Watches the disk usage of a job's workspace while it runs.

use std::{
    collections::HashSet,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_util::sync::{CancellationToken, DropGuard};

/// Minimum time between two checks.
const LOOKS: Duration = Duration::from_millis(500);
/// Maximum share of time spent on checks: 1/20.
const SHARE: u32 = 20;

/// Watches a directory until it is dropped.
pub(super) struct DiskWatch {
    /// Cancelled once the directory uses more than the limit (hard links counted once). Checked at most
    /// every 500 ms and for at most 5 % of the time; never cancelled without a limit.
    pub(super) over: CancellationToken,
    found: Arc<AtomicU64>,
    limit: u64,
    _stop: DropGuard,
}

impl DiskWatch {
    /// Starts watching; does nothing without a limit.
    pub(super) fn begin(dir: PathBuf, limit: Option<u64>) -> Self {
        let (over, stop) = (CancellationToken::new(), CancellationToken::new());
        let found = Arc::new(AtomicU64::new(0));
        if let Some(limit) = limit {
            tokio::spawn(watch(dir, limit, over.clone(), stop.clone(), Arc::clone(&found)));
        }
        Self { over, found, limit: limit.unwrap_or(u64::MAX), _stop: stop.drop_guard() }
    }

    /// Returns the reason for ending the job.
    pub(super) fn in_words(&self) -> String {
        words_of(&self.found, self.limit)
    }

    /// Like [`in_words`](Self::in_words), as a closure that outlives the watch.
    pub(super) fn deferred_text(&self) -> impl Fn() -> String + use<> {
        let (found, limit) = (Arc::clone(&self.found), self.limit);
        move || words_of(&found, limit)
    }
}

fn words_of(found: &AtomicU64, limit: u64) -> String {
    let found = found.load(Ordering::Relaxed);
    format!(
        "the workspace has {} and may have {} (limits.disk); let the job clean up, or give it more and retry it",
        size(found),
        size(limit)
    )
}

fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} kB", bytes >> 10),
        megabytes => format!("{megabytes} MB"),
    }
}

async fn watch(
    dir: PathBuf,
    limit: u64,
    over: CancellationToken,
    stop: CancellationToken,
    found: Arc<AtomicU64>,
) {
    loop {
        let (looked, begun) = (dir.clone(), Instant::now());
        let Ok(bytes) = tokio::task::spawn_blocking(move || bytes_below(&looked)).await else { return };
        if limit < bytes {
            found.store(bytes, Ordering::Relaxed);
            over.cancel();
            return;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOKS.max(begun.elapsed() * SHARE)) => (),
        }
    }
}

/// Returns the disk usage below a directory in bytes. Hard links are counted once; symlinks are not
/// followed.
fn bytes_below(dir: &Path) -> u64 {
    let walk = ignore::WalkBuilder::new(dir).standard_filters(false).follow_links(false).build();
    let mut seen = HashSet::new();
    let mut bytes = 0_u64;
    for entry in walk.flatten() {
        let Ok(about) = entry.path().symlink_metadata() else { continue };
        let is_new = about.nlink() < 2 || about.is_dir() || seen.insert((about.dev(), about.ino()));
        if is_new {
            bytes = bytes.saturating_add(about.blocks().saturating_mul(512));
        }
    }
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[test]
    fn hard_linked_file_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let empty = bytes_below(dir.path());
        std::fs::write(dir.path().join("a"), vec![7; 1 << 20]).unwrap();
        let one = bytes_below(dir.path());
        assert!(empty + (1 << 20) <= one, "{empty} {one}");
        std::fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("everything")).unwrap();
        assert!(bytes_below(dir.path()) < one + (1 << 19), "{one}");
    }
}
