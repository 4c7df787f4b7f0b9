//! Code shared by the search tools: running off the async threads, formatting paths, and checking what
//! may be shown.

mod blocking_run;
mod format;
mod search_root;
mod search_settings;

pub(crate) use blocking_run::run;
pub(crate) use format::{counted, grouped, seconds, unsaved_note};
pub(crate) use search_root::{OpenedTarget, Place, absolute, guess, shown};
pub use search_settings::SearchToolSettings;
