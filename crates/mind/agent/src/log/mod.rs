//! The session log: what happened, line by line, and nothing but that.

pub(crate) mod clock;
pub mod cost;
mod entry;
mod file;
mod recent;
pub mod sessions;

pub use clock::now;
pub use entry::{Asked, AttachmentLine, Entry, Head, Line, LoggedMessage, Purpose, State, Stub, SystemLine};
pub(crate) use file::read_from;
pub use file::{LogFile, ReadReport, read};
pub(crate) use recent::{Recent, recent};
