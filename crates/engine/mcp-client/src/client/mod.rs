//! One connected server: handshake, requests, lists, calls.

mod decode;
mod fault;
mod handshake;
mod headers;
mod host;
mod rounds;
mod session;

pub use decode::{
    Annotations, OfferedTool, PromptArgument, PromptDef, ResourceDef, ResourceTemplate, SkippedOffer,
};
pub(crate) use decode::{MAX_SCHEMA_BYTES, tools};
pub(crate) use fault::McpClientError;
pub use handshake::protocol_versions;
pub(crate) use handshake::{ConnectError, Handshake, MODERN};
pub(crate) use headers::encode as encode_header;
pub use host::{
    CallTracing, ClientPorts, ElicitAnswer, Elicitation, ElicitationHandler, SamplingError, SamplingHandler,
    ServerRoot,
};
pub(crate) use host::{ClientSide, Signal};
pub use session::{Capabilities, ProtocolRevision, ServerInfo};
pub(crate) use session::{ClientIdentity, ServerSession};

/// The headers a call of a tool with this schema carries.
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
