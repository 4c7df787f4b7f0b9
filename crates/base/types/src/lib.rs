//! Plain data every Haft crate shares: ids, content blocks, messages, usage,
//! and the few pure functions on text that everybody needs the same way.
//!
//! **Does not know** tools, providers, files or tasks: no IO, no async.
//!
//! **Invariant:** what is serialised here is what the wire and the session log
//! hold; a field's name is its public name.
//!
//! **Invariant:** cutting text never splits a character or a terminal escape
//! sequence ([`text`]).
//!
//! **Invariant:** [`tags::restore`] undoes [`tags::neutral`] byte for byte.

mod content;
mod id;
mod loose_block;
mod message;
mod mode;
mod nearest;
pub mod secrets;
pub mod tags;
pub mod terminal;
pub mod text;
mod usage;
mod variables;

pub use content::{Block, Content, MediaSource};
pub use id::{AgentId, CallId, SessionId};
pub use message::{Message, MessageBlock, Role, ToolUse};
pub use mode::PermissionMode;
pub use nearest::nearest;
pub use usage::Usage;
pub use variables::EnvVars;
