//! JSON-RPC over untyped values.
//!
//! Not the official SDK's typed messages, because with those a single invalid annotation rejects a whole
//! list, an error without a message is dropped while its request hangs, and a result with an unexpected
//! key decodes as another type. Here a message is classified by its fields, and the sender of a request
//! decodes its result.

mod frame;
mod line_reader;
mod peer;
mod repair;

pub(crate) use frame::{JsonRpcMessage, RpcError};
pub(crate) use line_reader::{LineReader, MAX_MESSAGE_BYTES, ServerLine};
pub use peer::PeerInbox;
pub(crate) use peer::{CallError, Incoming, Peer, ProgressReport, RequestOptions};
pub(crate) use repair::{parse_values, parse_whole_values, salvage_id};
