//! All servers of a session: started in parallel without anybody waiting,
//! supervised, visible.

mod advice;
mod call;
mod lists;
mod manager;
mod manifest;
mod server;
mod status;

pub(crate) use call::{CallFailure, CallOptions};
pub use manager::{ManagerOptions, McpManager, PromptCommand, ServerQueryError, WeakMcpManager};
pub(crate) use manifest::write_atomically;
pub use server::ServerEnabled;
pub(crate) use server::{Context, Server};
pub use status::{NonProtocolOutput, ServerEvent, ServerState, ServerStatus};
