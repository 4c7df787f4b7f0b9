//! What faces that speak lines of JSON to another program share: lines in and
//! out on threads of their own, lines that no reader chokes on, questions that are
//! taken back when nobody waits any more, and what such a program answers to the
//! question of an MCP server.
//!
//! **Does not know** sessions, or what the lines mean.
//!
//! **Invariant:** every line that is written is JSON of at most [`MAX_LINE`]
//! bytes, and lines are written in the order they were handed over.
//!
//! **Invariant:** a program that answers nonsense is never taken for a yes.

mod bound;
mod elicit;
mod lines;
mod questions;

pub use bound::{MAX_LINE, bounded_line};
pub use elicit::read_elicitation;
pub use lines::{InputLine, LineBatch, LineWriter, MAX_INPUT, OutputBacklog, read_lines};
pub use questions::PendingRequests;
