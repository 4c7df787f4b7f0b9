//! Sessions for editors: the agent side of the Agent Client Protocol (ACP), version 1.
//!
//! One connection carries any number of sessions. [`AcpServer`] reads lines and dispatches them to
//! sessions or answers them itself. Each session has a driver (`session_driver`) that turns requests
//! into commands to the engine, and events of the engine into updates. Updates are built in one place
//! (`updates`), from data that both events and log lines contain, so that a loaded session looks like
//! the live one.
//!
//! **Out of scope**: terminals, flags, building a session: the caller passes a function that returns the
//! spec for a location.
//!
//! **Invariant:** every line is one JSON-RPC 2.0 message of at most
//! [`MAX_LINE`](haft_json_lines::MAX_LINE) bytes; every request is answered exactly once.
//!
//! **Invariant:** a missing or invalid response of the editor never counts as approval.
//!
//! **Invariant:** outside of a prompt the editor gets only titles, options, commands and usage. Other
//! updates are sent with the next prompt, and permission requests are denied.

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
