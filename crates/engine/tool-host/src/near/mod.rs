//! The near end: far tools in a session, under their own names.

mod connect;
mod host_call;
mod host_set;
mod host_tool;
mod link;
mod link_task;

pub(crate) use connect::web_socket;
pub use host_set::{HostSet, LocalTasks, RecoveredCallState, RemoteQuestionHandler};
pub use link::{HostLink, LinkConfig, LinkError, LinkTimeouts};
