//! Keeps the beginning of requests unchanged, so that providers can cache it, and detects cache misses.
//!
//! [`DeclaredPrefix`] produces the same tools and system prompt for every request, whatever servers and
//! settings do meanwhile. Changes are sent as messages, and become part of the beginning after a
//! compaction, when the cache is lost anyway. [`CacheTracker`] compares each request with the previous
//! one and determines the cause of a cache miss.

mod cache_miss;
mod cache_tracker;
mod change_notice;
mod declared_prefix;

pub use cache_miss::{CacheMiss, CacheMissCause, LoggedPrefix};
pub(crate) use cache_tracker::{CacheMissReason, CacheTracker};
pub use declared_prefix::StoredPrefix;
pub(crate) use declared_prefix::{DeclaredPrefix, PrefixSources, system};
