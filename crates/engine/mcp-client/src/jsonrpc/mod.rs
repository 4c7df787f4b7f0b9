//! JSON-RPC over plain values.
//!
//! Own code instead of the SDK's typed messages: there, one tool with a wrong
//! annotation loses a whole list, an error without a message is dropped and its
//! request hangs, and a result with a surprising key decodes as another type.
//! Here a message is told apart by its shape alone, and what a result means is
//! decided by the one who asked for it.

mod frame;
mod line_reader;
mod peer;
mod repair;

pub(crate) use frame::{JsonRpcMessage, RpcError};
pub(crate) use line_reader::{LineReader, MAX_MESSAGE_BYTES, ServerLine};
pub use peer::PeerInbox;
pub(crate) use peer::{CallError, Incoming, Peer, ProgressReport, RequestOptions};
pub(crate) use repair::{parse_values, parse_whole_values, salvage_id};
