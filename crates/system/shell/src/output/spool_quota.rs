use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes that all spools of a session may hold on disk together. When they are
/// used up, the oldest output of a command that has ended makes room.
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
    /// At most this many bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, inner: Mutex::default() })
    }

    /// What is taken now.
    pub fn used(&self) -> u64 {
        self.inner().used
    }

    /// What may be taken at most.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes up to `wanted` bytes and says how many it got.
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

    /// A file that nobody writes to any more: it took `taken` bytes and is
    /// `size` long.
    pub(crate) fn settle(&self, path: &Path, taken: u64, size: u64) {
        let mut inner = self.inner();
        inner.used -= taken.saturating_sub(size);
        inner.settled.push_back((path.to_owned(), size.min(taken)));
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, QuotaInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
