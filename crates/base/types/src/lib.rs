//! Plain data shared by all Haft crates: ids, content blocks, messages, usage, and a few pure text
//! functions.
//!
//! **Does not know** tools, providers, files or tasks: no I/O, no async.
//!
//! **Invariant:** serialised types here have the format of the wire and the session log; a field's name is its public name.
//!
//! **Invariant:** truncation never splits a character or a terminal escape sequence ([`text`]).
//!
//! **Invariant:** [`tags::restore`] undoes [`tags::neutral`] byte for byte.

#![warn(missing_docs)]

pub mod ansi;
mod content;
mod did_you_mean;
mod env_vars;
mod environment_page;
pub mod exit_codes;
mod id;
mod lenient_block;
mod message;
mod permission_mode;
pub mod secret_variables;
pub mod tags;
pub mod text;
mod usage;

pub use content::{Block, Content, MediaSource};
pub use did_you_mean::nearest;
pub use env_vars::EnvVars;
pub use environment_page::{environment_names, environment_page};
pub use id::{AgentId, CallId, SessionId};
pub use message::{Message, MessageBlock, Role, ToolUse};
pub use permission_mode::PermissionMode;
pub use usage::Usage;
