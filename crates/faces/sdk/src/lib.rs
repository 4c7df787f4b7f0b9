//! The newline-JSON protocol that programs around an agent speak: the CLI side
//! of the Agent SDKs.
//!
//! Outwards: what an agent does, as frames ([`Frames`], [`Partial`],
//! [`result_frame`]), and what we ask of the host ([`Host`]): permissions
//! ([`AskHost`]), hooks ([`hook_definitions`]), its own MCP servers
//! ([`HostServers`]), what servers want to know ([`ElicitFromHost`]). Inwards: lines, taken apart ([`Inbound`]),
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

mod ask;
mod bound;
mod elicit;
mod failure;
mod frames;
mod hook_frames;
mod hooks;
mod host;
mod inbound;
mod mcp;
mod partial;
mod request;
mod result;
mod status;

pub use ask::{AskHost, NobodyToAsk, read_answer};
pub use bound::{MAX_LINE, bounded_line};
pub use elicit::ElicitFromHost;
pub use failure::ApiFailure;
pub use frames::{Additions, Frames, Init, PROTOCOL_VERSION};
pub use hook_frames::{HookFrames, Told};
pub use hooks::hook_definitions;
pub use host::{Host, HostError};
pub use inbound::{Control, Inbound, Speaker, UserFrame, fail, succeed};
pub use mcp::{HostServers, server_configs};
pub use partial::Partial;
pub use request::{
    ControlRequest, FileAnswer, FileEncoding, HostAgent, HostPlugin, InitializeRequest, InterruptAnswer,
    ModelChoice, RequestProblem, RewindAnswer, ServersAnswer, SettingChange, SettingsSource,
    TaskOutputAnswer,
};
pub use result::{Bill, TurnFacts, failed_start, local_result, result_frame, turn_frame};
pub use status::{mcp_servers, mcp_status};
