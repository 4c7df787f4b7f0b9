//! Supervises all servers of a session: starts them in parallel in the background, restarts them, and
//! reports their status.

mod advice;
mod managed_server;
mod manifest_cache;
mod mcp_manager;
mod remote_call;
mod server_lists;
mod server_status;

pub use managed_server::ServerEnabled;
pub(crate) use managed_server::{Context, Server};
pub(crate) use manifest_cache::write_atomically;
pub use mcp_manager::{ManagerOptions, McpManager, PromptCommand, ServerQueryError, WeakMcpManager};
pub(crate) use remote_call::{CallFailure, CallOptions};
pub use server_status::{NonProtocolOutput, ServerEvent, ServerState, ServerStatus};
