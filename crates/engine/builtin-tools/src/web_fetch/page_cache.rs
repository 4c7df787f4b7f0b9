use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{cache_control::CacheControl, page::StoredPage};

/// Maximum number of cached pages.
const MAX_PAGES: usize = 64;
/// Maximum total bytes of cached pages; beyond it the oldest are dropped.
const MOST_BYTES: usize = 32 << 20;

/// The page cache of a session, newest last.
#[derive(Default)]
pub(crate) struct PageCache(Mutex<VecDeque<CachedPage>>);

/// A cached page with its validators.
#[derive(Clone)]
pub(crate) struct CachedPage {
    pub(crate) key: PageKey,
    pub(crate) page: Arc<StoredPage>,
    pub(crate) fetched: Instant,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
    /// How long the server allows the page to be reused.
    pub(crate) keeping: CacheControl,
    /// How often the page was shown.
    pub(crate) shown: u32,
}

/// The cache key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PageKey {
    /// The URL without its fragment.
    pub(crate) url: String,
    pub(crate) raw: bool,
}

impl CachedPage {
    /// Returns the time since the page was fetched or revalidated.
    pub(crate) fn age(&self) -> Duration {
        self.fetched.elapsed()
    }

    /// Whether the page may be shown without revalidation. `most` is the user's maximum age. When
    /// reading a later part (`reads_on`), the server's shorter age does not count, so that all parts
    /// come from the same version.
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
    /// Returns a cached page and counts it as shown once more.
    pub(crate) fn take(&self, key: &PageKey) -> Option<CachedPage> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = pages.iter_mut().find(|it| it.key == *key)?;
        kept.shown += 1;
        Some(kept.clone())
    }

    /// Adds or replaces a page, and drops the oldest ones beyond the limits.
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

    /// Marks a page as revalidated, with the new maximum age, if the server sent one.
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

    pub(crate) fn forget(&self, key: &PageKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| it.key != *key);
    }
}
