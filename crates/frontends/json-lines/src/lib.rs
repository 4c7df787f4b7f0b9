//! What faces that speak lines of JSON to another program share: lines in and
//! out on threads of their own, lines that no reader chokes on, and what such a
//! program answers to the question of an MCP server.
//!
//! **Does not know** sessions, or what the lines mean.
//!
//! **Invariant:** every line that is written is JSON of at most [`MAX_LINE`]
//! bytes, and lines are written in the order they were handed over.
//!
//! **Invariant:** a program that answers nonsense is never taken for a yes.

mod bounded_line;
mod elicitation;
mod line_io;

pub use bounded_line::{MAX_LINE, bounded_line};
pub use elicitation::read_elicitation;
pub use line_io::{InputLine, LineBatch, LineWriter, MAX_INPUT, OutputBacklog, read_lines};
