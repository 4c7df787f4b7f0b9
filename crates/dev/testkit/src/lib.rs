//! Test tools: [`MockModel`], a scripted model server on loopback that validates requests as strictly as
//! the real services, and [`CountingAllocator`], which counts memory allocations. [`haft_binary()`] finds the
//! program for the end-to-end tests.
//!
//! Supported APIs: Anthropic Messages (also with the paths of Vertex and Foundry), the Bedrock event
//! stream, OpenAI Chat Completions, OpenAI Responses and Google's Gemini API, all from the same
//! [`Script`]. A script can be a JSON file; its format is described in `docs/reference/mock-model.md`.
//!
//! **Independent of** Haft's own client: it shares no code with `haft-model`, so that a bug in one
//! cannot be hidden by the other.
//!
//! **Invariant:** a request that the real service would reject never uses up a turn of the script, and
//! every request, rejected or not, is recorded byte for byte.
//!
//! **Invariant:** nothing is random, and only the recorded times depend on the clock: the same requests
//! get the same bytes.

mod allocations;
mod connection;
mod eventstream;
mod haft_binary;
mod mock_reply;
mod pdf;
mod recorded_request;
mod render;
mod route;
mod rules;
mod script;
mod select_turn;
mod server;
mod signature;
mod sigv4;
mod stream_steps;
mod token_counter;
mod turn;
mod wire;

pub use allocations::{Allocated, CountingAllocator};
pub use haft_binary::haft_binary;
pub use recorded_request::Recorded;
pub use route::MockForm;
pub use script::{AwsKey, Forced, MockLimits, Script, ScriptError};
pub use server::MockModel;
pub use signature::signature_of;
pub use turn::{
    ByteFault, ErrorReply, MockWhen, ReplyPiece, StreamCut, StreamStall, TextMatcher, Times, ToolPiece, Turn,
    UsageReply,
};
