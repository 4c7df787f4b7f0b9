//! Sessions for editors: the agent's side of the Agent Client Protocol, version 1.
//!
//! One connection carries any number of sessions. [`AcpServer`] reads lines, knows
//! which session each is about and answers what is about none; every session has
//! a driver of its own (`driver`), which turns requests into commands of the
//! engine and events of the engine into updates. What is shown is made in one
//! place (`project`), from what an event and a line of the log both hold, so that
//! loading a session shows what was shown live.
//!
//! **Does not know** terminals, flags, or how a session is put together: whoever
//! starts the face hands it a function from a place to a spec.
//!
//! **Invariant:** every line is one JSON-RPC 2.0 message of at most
//! [`MAX_LINE`](haft_json_lines::MAX_LINE) bytes; every request is answered exactly
//! once.
//!
//! **Invariant:** an editor that does not answer, answers nonsense or is gone is
//! never taken for a yes.
//!
//! **Invariant:** outside of a prompt an editor hears only of titles, options,
//! commands and usage. What else happens then is told when the next prompt comes,
//! and questions are answered with no.

mod client_capabilities;
mod config_options;
mod editor;
mod editor_buffers;
mod jsonrpc;
mod list_sessions;
mod permission_request;
mod prompt_blocks;
mod server;
mod server_prompts;
mod session_driver;
mod session_location;
mod update_backlog;
mod updates;
mod user_question;

pub use server::{AcpServer, AcpShutdown, PROTOCOL_VERSION, SpecBuilderFn};
pub use session_location::{SessionLocation, file_uri_path};
