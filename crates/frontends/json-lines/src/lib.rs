//! Shared by frontends that exchange JSON lines with another program: input and output threads, bounded
//! lines, requests that can be cancelled, and answers to questions of MCP servers.
//!
//! **Out of scope**: sessions, and the meaning of the lines.
//!
//! **Invariant:** every written line is JSON of at most [`MAX_LINE`] bytes, and lines are written in the
//! order in which they were submitted.
//!
//! **Invariant:** an invalid answer never counts as approval.

mod bounded_line;
mod elicitation;
mod line_io;

pub use bounded_line::{MAX_LINE, bounded_line};
pub use elicitation::read_elicitation;
pub use line_io::{InputLine, LineBatch, LineWriter, MAX_INPUT, OutputBacklog, read_lines};
