//! Test rigs: [`MockModel`], a model server on loopback that plays a script and
//! judges every request as strictly as the real services do, and
//! [`CountingAllocator`], which counts what code asks of memory. [`haft_binary`] finds the
//! program for the end-to-end tests.
//!
//! It speaks the Anthropic Messages form (also under the paths of Vertex and
//! Foundry), the Bedrock event stream, OpenAI Chat Completions, OpenAI
//! Responses and Google's Gemini API, all from the same [`Script`]. The script is a JSON file too; its
//! format is in `docs/mock-model.md`.
//!
//! **Does not know** Haft's own client: it shares no code with `haft-model`, so
//! that a mistake in one cannot hide in the other.
//!
//! **Invariant:** a request that the real service would refuse never consumes a
//! turn of the script, and every request, refused or not, is recorded byte for
//! byte.
//!
//! **Invariant:** nothing is random and nothing depends on the clock but the
//! recorded times: the same requests get the same bytes.

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
