//! The session log: what happened, line by line, and nothing but that.

mod call_lines;
pub(crate) mod clock;
pub mod cost;
mod entry;
mod fence;
mod file;
mod lock;
mod parse;
mod recent;
pub mod sessions;
mod unpaid;
mod writer;

pub use call_lines::{CallLine, StageMicros, StartedLine, WriterLine};
pub use clock::now;
pub use entry::{
    AskedLine, AttachmentLine, ContentForm, ConversationLine, Head, LogEntry, LogState, LoggedMessage,
    Purpose, ShownLine, ShownPiece, ShownWhy, Stub, SystemLine,
};
pub use fence::{FenceFuture, FenceOwner, FencedLog, LogFence};
pub(crate) use file::read_from;
pub use file::{LogFile, ReadReport, read, read_shown};
pub(crate) use recent::{Recent, recent};
pub use unpaid::UnpaidAnswers;
pub(crate) use writer::{LogWriter, WeakLogWriter};
