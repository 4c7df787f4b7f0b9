//! A connected server: handshake, requests, lists, calls.

mod decode_lists;
mod error;
mod handshake;
mod headers;
mod multi_round;
mod server_requests;
mod session;

pub use decode_lists::{
    Annotations, OfferedTool, PromptArgument, PromptDef, ResourceDef, ResourceTemplate, SkippedOffer,
};
pub(crate) use decode_lists::{MAX_SCHEMA_BYTES, tools};
pub(crate) use error::McpClientError;
pub use handshake::protocol_versions;
pub(crate) use handshake::{ConnectError, Handshake, MODERN};
pub(crate) use headers::encode as encode_header;
pub use server_requests::{
    CallTracing, ClientPorts, ElicitAnswer, Elicitation, ElicitationHandler, SamplingError, SamplingHandler,
    ServerRoot,
};
pub(crate) use server_requests::{ClientSide, Signal};
pub use session::{Capabilities, ProtocolRevision, ServerInfo};
pub(crate) use session::{ClientIdentity, ServerSession};

/// Returns the headers of a call of a tool with this schema.
pub(crate) fn call_headers(
    schema: &serde_json::Value,
    arguments: &serde_json::Value,
) -> Vec<(String, String)> {
    headers::header_params(schema).map(|params| headers::headers_of(&params, arguments)).unwrap_or_default()
}

/// Whether the header annotations of a schema are valid.
pub(crate) fn check_header_annotations(schema: &serde_json::Value) -> Result<(), String> {
    headers::header_params(schema).map(drop)
}
