//! What the tools that find things have in common: running off the async
//! threads, showing paths, and asking what may be shown.

mod blocking_run;
mod format;
mod search_root;
mod search_settings;

pub(crate) use blocking_run::run;
pub(crate) use format::{counted, grouped, seconds, unsaved_note};
pub(crate) use search_root::{OpenedTarget, Place, absolute, guess, shown};
pub use search_settings::SearchToolSettings;
