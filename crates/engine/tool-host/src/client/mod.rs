//! The client side: tools of a host in a session, under their usual names.

mod connect;
mod host_set;
mod link;
mod link_task;
mod remote_call;
mod remote_tool;

pub(crate) use connect::web_socket;
pub use host_set::{HostSet, LocalTasks, RecoveredCallState, RemoteQuestionHandler};
pub use link::{HostLink, LinkConfig, LinkError, LinkTimeouts};
