//! The session log: what happened, line by line, and nothing but that.

pub(crate) mod clock;
mod entry;
mod file;

pub use clock::now;
pub use entry::{Entry, Head, Line, LoggedMessage, State, SystemLine};
pub use file::{LogFile, ReadReport, read};
