use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{cache_control::CacheControl, page::StoredPage};

/// How many pages are kept.
const MAX_PAGES: usize = 64;
/// How much memory they take together.
const MOST_BYTES: usize = 32 << 20;

/// Pages that were fetched in this session, the newest last.
#[derive(Default)]
pub(crate) struct PageCache(Mutex<VecDeque<CachedPage>>);

/// A page and how to ask whether it changed.
#[derive(Clone)]
pub(crate) struct CachedPage {
    pub(crate) key: PageKey,
    pub(crate) page: Arc<StoredPage>,
    pub(crate) fetched: Instant,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
    /// How long the server lets it be shown without being asked.
    pub(crate) keeping: CacheControl,
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

impl CachedPage {
    /// How long ago the server said so.
    pub(crate) fn age(&self) -> Duration {
        self.fetched.elapsed()
    }

    /// Whether it is shown without asking, where pages are kept for so long. Who
    /// reads on goes on in the text that was begun.
    pub(crate) fn is_fresh(&self, most: Duration, reads_on: bool) -> bool {
        let fresh = match self.keeping {
            CacheControl::For(said) if !reads_on => said.min(most),
            CacheControl::Never => Duration::ZERO,
            _ => most,
        };
        self.age() < fresh
    }
}

impl PageCache {
    /// A page, and that it is shown once more.
    pub(crate) fn take(&self, key: &PageKey) -> Option<CachedPage> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = pages.iter_mut().find(|it| it.key == *key)?;
        kept.shown += 1;
        Some(kept.clone())
    }

    /// Keeps a page, and lets go of the oldest where there are too many.
    pub(crate) fn put(&self, kept: CachedPage) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|it| it.key != kept.key);
        if kept.page.weight() <= MOST_BYTES {
            pages.push_back(kept);
        }
        while MAX_PAGES < pages.len() || MOST_BYTES < pages.iter().map(|it| it.page.weight()).sum() {
            pages.pop_front();
        }
    }

    /// The server says that a page is as it was, and for how long.
    pub(crate) fn refresh(&self, key: &PageKey, keeping: CacheControl) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keeping == CacheControl::Never {
            pages.retain(|it| it.key != *key);
        }
        if let Some(kept) = pages.iter_mut().find(|it| it.key == *key) {
            kept.fetched = Instant::now();
            if keeping != CacheControl::Unsaid {
                kept.keeping = keeping;
            }
        }
    }

    /// Forgets a page.
    pub(crate) fn forget(&self, key: &PageKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| it.key != *key);
    }
}
