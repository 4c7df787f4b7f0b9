//! Displays sessions: as live web pages ([`serve`]), as a self-contained HTML file ([`page`]), and as a
//! trace for profilers ([`trace`]).
//!
//! A log is never loaded as a whole. [`LogIndex`] has the position of every row and the properties of
//! every call; the content of a row is read from disk when it is shown. The same renderer (`render`) is
//! used for pages and file.
//!
//! **Out of scope**: running sessions, terminals, flags.
//!
//! **Invariant:** log content never becomes markup. Only literals of this crate are written unescaped
//! (`Html`).
//!
//! **Invariant:** the file loads nothing, runs no script and has no links. Pages load from their own
//! server only, which returns data only to requests with the token.
//!
//! **Invariant:** viewing changes nothing; only a server started with the permission to undo can revert
//! changes.

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
