//! What the tools that find things have in common: running off the async
//! threads, showing paths, and asking what may be shown.

mod place;
mod run;
mod settings;
mod words;

pub(crate) use place::{OpenedTarget, Place, absolute, guess, shown};
pub(crate) use run::run;
pub use settings::SearchToolSettings;
pub(crate) use words::{counted, grouped, seconds, unsaved_note};
