//! The beginning of every request, which providers cache: kept as it is, and
//! watched.
//!
//! [`DeclaredPrefix`] says the same about tools and says the same first words in every
//! request, whatever servers and settings do meanwhile; what is new is told in
//! the conversation instead, and taken in when the conversation is summed up,
//! since the cache is lost then anyway. [`CacheTracker`] compares each request with the
//! one before, as they were sent, and says what a lost cache was lost to.

mod cache_miss;
mod cache_tracker;
mod change_notice;
mod declared_prefix;

pub use cache_miss::{CacheMiss, CacheMissCause, LoggedPrefix};
pub(crate) use cache_tracker::{CacheMissReason, CacheTracker};
pub use declared_prefix::StoredPrefix;
pub(crate) use declared_prefix::{DeclaredPrefix, PrefixSources, system};
