//! The newline-delimited JSON protocol of the Agent SDKs, from the side of the CLI.
//!
//! Output: events of the agent as frames ([`Frames`], [`PartialMessages`], `result_frame`), and requests
//! to the host ([`SdkClient`]): permission questions ([`NoSdkApprover`]), hooks ([`hook_definitions`]),
//! its MCP servers ([`ClientMcpServers`]), elicitation (`elicitation_request`). Input: parsed lines
//! ([`InboundLine`]) and typed control requests ([`ControlRequest`]).
//!
//! The crate does not depend on terminals, flags, or how a session is built.
//!
//! **Invariant:** every frame is one line of at most [`MAX_LINE`] bytes, contains the session id
//! and its own uuid, and refers to log lines by their uuids.
//!
//! **Invariant:** a host that does not answer, answers invalidly or is gone never counts as an
//! approval.
//!
//! **Invariant:** a request whose asker no longer waits is cancelled, and an answer to it is
//! ignored.

mod agent_frames;
mod agent_stats;
mod call_progress;
mod callback_hooks;
mod client;
mod client_mcp_servers;
mod elicitation_request;
mod frames;
mod frames_page;
mod inbound;
mod input;
mod mcp_status;
mod partial_messages;
mod permission_request;
mod projection;
mod request;
mod result_frame;
mod server;

pub use callback_hooks::hook_definitions;
pub use client::{SdkClient, SdkClientError};
pub use client_mcp_servers::ClientMcpServers;
pub use frames::{Frames, PROTOCOL_VERSION};
pub use frames_page::frames_page;
pub use haft_json_lines::{MAX_LINE, bounded_line};
pub use inbound::{InboundControl, InboundLine, fail, succeed};
pub use input::{HostInput, LaunchFields, LaunchRequest};
pub use partial_messages::PartialMessages;
pub use permission_request::NoSdkApprover;
pub use projection::{FrameOptions, Projection, StateFrames};
pub use request::{
    ClientPlugin, ControlRequest, FileAnswer, FileEncoding, InitializeRequest, InterruptAnswer, ModelChoice,
    RequestProblem, RewindAnswer, ServersAnswer, SettingChange, SettingsSource, TaskOutputAnswer,
};
pub use result_frame::{failed_start, local_result, run_outcome, turn_frame};
pub use server::{EndSignal, SdkServer};
