//! Language server client: finds the server a file needs, runs it, and returns its answers.
//!
//! A [`ServerPlan`] says which program serves a file and from which root. A [`ServerPool`] keeps one
//! [`LspClient`] per plan for the whole process and starts it on first use through a [`ServerLauncher`].
//! Responses are parsed into plain values ([`CodeLocation`], [`CodeSymbol`], [`Diagnostic`],
//! [`FileEdits`]).
//!
//! **Does not know** tools, permissions, sandboxes or shells: the launcher decides how a server is sandboxed. Downloads nothing. Writes no file: edits are returned as values.
//!
//! **Invariant:** a server that exits, hangs, floods or lies affects only its own answers; every wait has a timeout, every message a maximum size, and every list from a server a maximum length.
//!
//! **Invariant:** positions in the callers' interface are lines and characters counted from 1; the server's encoding is internal.

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
