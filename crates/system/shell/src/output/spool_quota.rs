use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Disk quota of all spools of a session. When it is used up, the oldest output of a finished command is
/// deleted.
#[derive(Debug)]
pub struct SpoolQuota {
    limit: u64,
    inner: Mutex<QuotaInner>,
}

#[derive(Debug, Default)]
struct QuotaInner {
    used: u64,
    settled: VecDeque<(PathBuf, u64)>,
}

impl SpoolQuota {
    /// Creates a quota of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, inner: Mutex::default() })
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.inner().used
    }

    /// Maximum bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Reserves up to `wanted` bytes; returns how many.
    pub(crate) fn take(&self, wanted: u64) -> u64 {
        let mut inner = self.inner();
        while self.limit - inner.used < wanted {
            let Some((path, size)) = inner.settled.pop_front() else { break };
            std::fs::remove_file(path).ok();
            inner.used -= size;
        }
        let granted = wanted.min(self.limit - inner.used);
        inner.used += granted;
        granted
    }

    /// Marks a file as finished, so that it can be deleted: `taken` bytes are reserved for it and it is
    /// `size` bytes long.
    pub(crate) fn settle(&self, path: &Path, taken: u64, size: u64) {
        let mut inner = self.inner();
        inner.used -= taken.saturating_sub(size);
        inner.settled.push_back((path.to_owned(), size.min(taken)));
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, QuotaInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
