use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::page::StoredPage;

/// How many pages are kept.
const MOST_PAGES: usize = 64;
/// How much memory they take together.
const MOST_BYTES: usize = 32 << 20;

/// Pages that were fetched in this session, the newest last.
#[derive(Default)]
pub(crate) struct PageCache(Mutex<VecDeque<KeptPage>>);

/// A page and how to ask whether it changed.
#[derive(Clone)]
pub(crate) struct KeptPage {
    pub(crate) key: PageKey,
    pub(crate) page: Arc<StoredPage>,
    pub(crate) fetched: Instant,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
    /// How often it was shown.
    pub(crate) shown: u32,
}

/// What makes two fetches the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PageKey {
    /// The address without what only a browser looks at.
    pub(crate) url: String,
    pub(crate) raw: bool,
}

impl KeptPage {
    /// How long ago the server said so.
    pub(crate) fn age(&self) -> Duration {
        self.fetched.elapsed()
    }
}

impl PageCache {
    /// A page, and that it is shown once more.
    pub(crate) fn take(&self, key: &PageKey) -> Option<KeptPage> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = pages.iter_mut().find(|it| it.key == *key)?;
        kept.shown += 1;
        Some(kept.clone())
    }

    /// Keeps a page, and lets go of the oldest where there are too many.
    pub(crate) fn put(&self, kept: KeptPage) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|it| it.key != kept.key);
        if kept.page.weight() <= MOST_BYTES {
            pages.push_back(kept);
        }
        while MOST_PAGES < pages.len() || MOST_BYTES < pages.iter().map(|it| it.page.weight()).sum() {
            pages.pop_front();
        }
    }

    /// The server says that a page is as it was.
    pub(crate) fn refresh(&self, key: &PageKey) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = pages.iter_mut().find(|it| it.key == *key) {
            kept.fetched = Instant::now();
        }
    }

    /// Forgets a page.
    pub(crate) fn forget(&self, key: &PageKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| it.key != *key);
    }
}
