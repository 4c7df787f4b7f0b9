//! ServedLanguage servers: which one a file needs, the conversation with it, and what
//! it says.
//!
//! A [`ServerPlan`] says which program serves a file and from which root; a
//! [`ServerPool`] keeps one [`LspClient`] per plan for the whole process and
//! starts it on first need through a [`ServerLauncher`]. What servers answer is
//! read into plain values ([`CodeLocation`], [`CodeSymbol`], [`Diagnostic`], [`FileEdits`]).
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

pub use answers::{CallItem, CallLink, CodeLocation, hover_text, spots};
pub use client::{LaunchedServer, LspClient, LspProcess, ServerLauncher};
pub use edits::{CodeAction, FileEdits, TextChange, WorkspaceChange, code_actions, workspace_change};
pub use fault::LspError;
pub use framing::{FrameError, FrameReader, framed};
pub use ledger::{CheckState, Diagnostic, DiagnosticSeverity, FileDiagnostics};
pub use plan::{ProgramPath, ServerKey, ServerPlan, ServerUnavailable};
pub use pool::{PoolLimits, ServerPool};
pub use position::{ColumnEncoding, ResolvedPosition, TextPosition, character_of, line_at, resolve};
pub use readiness::ServerReadiness;
pub use settings::{ConfiguredServer, LspSettings};
pub use survey::LanguageStatus;
pub use symbols::{CodeSymbol, kind_name, symbols};
pub use table::{KnownLspServer, LANGUAGES, ServedLanguage};
pub use uri::{path_of, uri_of};
