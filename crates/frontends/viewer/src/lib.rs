//! Sessions, shown: as pages a browser follows live ([`serve`]), as one file that
//! needs nothing else ([`page`]), and as a trace for profilers ([`trace`]).
//!
//! A log is never loaded whole. [`LogIndex`] knows where every row of it begins and
//! what is known of every call; a row is read from the disk when it is shown. One
//! renderer (`render`) serves the pages and the file.
//!
//! **Does not know** sessions that run, terminals, or flags.
//!
//! **Invariant:** nothing of a log becomes markup. Only text that stands in this
//! crate is written as it is (`Html`); everything else is escaped.
//!
//! **Invariant:** the file loads nothing, runs nothing and links nowhere; pages load
//! from their own server only, and nobody without the token gets any data from it.
//!
//! **Invariant:** nothing is changed by looking; changes are taken back only by a
//! server that was started for it.

mod agent_list;
#[cfg(test)]
mod hostile_logs;
mod html;
mod index_file;
mod journal_changes;
mod log_index;
mod log_locations;
mod log_search;
mod log_summary;
mod perfetto;
mod render;
mod row;
mod row_content;
mod server;
mod skim_line;
mod timeline;
mod timestamps;

pub use log_index::LogIndex;
pub use log_locations::{LogLocations, LogRoots};
pub use perfetto::trace;
pub use render::page;
pub use server::{ViewServer, ViewerConfig, serve};
