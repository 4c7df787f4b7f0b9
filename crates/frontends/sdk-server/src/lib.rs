//! The newline-JSON protocol that programs around an agent speak: the CLI side
//! of the Agent SDKs.
//!
//! Outwards: what an agent does, as frames ([`Frames`], [`PartialMessages`],
//! `result_frame`), and what we ask of the host ([`SdkClient`]): permissions
//! ([`NoSdkApprover`]), hooks ([`hook_definitions`]), its own MCP servers
//! ([`ClientMcpServers`]), what servers want to know (`elicitation_request`). Inwards: lines, taken apart ([`InboundLine`]),
//! and what the host wants, with its types ([`ControlRequest`]).
//!
//! **Does not know** terminals, flags, or how a session is built.
//!
//! **Invariant:** every frame is one line of at most [`MAX_LINE`] bytes, carries
//! the session's id and a name of its own, and names lines of the log by the
//! names they have there.
//!
//! **Invariant:** a host that does not answer, answers nonsense or is gone is
//! never taken for a yes.
//!
//! **Invariant:** a question nobody waits for any more is taken back, and an
//! answer to it is ignored.

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
