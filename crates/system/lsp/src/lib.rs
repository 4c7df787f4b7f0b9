//! ServedLanguage servers: which one a file needs, the conversation with it, and what
//! it says.
//!
//! A [`ServerPlan`] says which program serves a file and from which root; a
//! [`ServerPool`] keeps one [`LspClient`] per plan for the whole process and
//! starts it on first need through a [`LaunchServer`]. What servers answer is
//! read into plain values ([`CodeSpot`], [`CodeSymbol`], [`Diagnostic`], [`FileEdits`]).
//!
//! **Does not know** tools, permissions, walls or shells: who launches a server
//! decides what holds it. Downloads nothing. Writes no file: edits are values.
//!
//! **Invariant:** a server that dies, hangs, floods or lies costs its own
//! answers and nothing else; every wait has an end, every message a largest
//! size, and every list from a server a largest length.
//!
//! **Invariant:** positions of callers are lines and characters counted from
//! one; what a server counts in stays inside.

mod answers;
mod client;
mod documents;
mod edits;
mod fault;
mod framing;
mod ledger;
mod plan;
mod pool;
mod position;
mod readiness;
mod requests;
mod settings;
mod survey;
mod symbols;
mod table;
mod uri;

pub use answers::{CallItem, CallLink, CodeSpot, hover_text, spots};
pub use client::{LaunchServer, LaunchedServer, LspClient, LspProcess};
pub use edits::{CodeAction, FileEdits, TextChange, WorkspaceChange, code_actions, workspace_change};
pub use fault::LspFault;
pub use framing::{FrameFault, FrameReader, framed};
pub use ledger::{Checked, Diagnostic, FileReport, Severity};
pub use plan::{NoServer, Programs, ServerKey, ServerPlan};
pub use pool::{PoolLimits, ServerPool};
pub use position::{ColumnEncoding, ResolvedPlace, TextPlace, character_of, line_at, resolve};
pub use readiness::Readiness;
pub use settings::{ConfiguredServer, LspSettings};
pub use survey::LanguageHere;
pub use symbols::{CodeSymbol, kind_name, symbols};
pub use table::{LANGUAGES, ServedLanguage, TableServer};
pub use uri::{path_of, uri_of};
