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

mod client;
mod content_length;
mod diagnostics;
mod error;
mod language_survey;
mod lsp_settings;
mod open_documents;
mod position;
mod readiness;
mod responses;
mod server_plan;
mod server_pool;
mod server_requests;
mod server_table;
mod symbols;
mod uri;
mod workspace_edits;

pub use client::{LaunchedServer, LspClient, LspProcess, ServerLauncher};
pub use content_length::{FrameError, FrameReader, framed};
pub use diagnostics::{CheckState, Diagnostic, DiagnosticSeverity, FileDiagnostics};
pub use error::LspError;
pub use language_survey::LanguageStatus;
pub use lsp_settings::{ConfiguredServer, LspSettings};
pub use position::{ColumnEncoding, ResolvedPosition, TextPosition, character_of, line_at, resolve};
pub use readiness::ServerReadiness;
pub use responses::{CallItem, CallLink, CodeLocation, hover_text, spots};
pub use server_plan::{ProgramPath, ServerKey, ServerPlan, ServerUnavailable};
pub use server_pool::{PoolLimits, ServerPool};
pub use server_table::{KnownLspServer, LANGUAGES, ServedLanguage};
pub use symbols::{CodeSymbol, kind_name, symbols};
pub use uri::{path_of, uri_of};
pub use workspace_edits::{
    CodeAction, FileEdits, TextChange, WorkspaceChange, code_actions, workspace_change,
};
