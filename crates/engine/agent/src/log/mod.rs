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

pub use call_lines::{CallFinishedLine, CallStartedLine, StageMicros, WriterLine};
pub use clock::now;
pub use entry::{
    AttachmentLine, ContentForm, ConversationLine, LineHeader, LogEntry, LogState, LoggedMessage,
    RequestLine, RequestPurpose, ResultStub, ShownContent, ShownLine, ShownReason, SystemLine,
};
pub use fence::{RemoteLog, RemoteLogFuture, RemoteLogHandle, RemoteLogOwner};
pub(crate) use file::read_from;
pub use file::{LogFile, ReadReport, read, read_shown};
pub(crate) use recent::{RecentEntries, recent};
pub use unpaid::UnpaidAnswers;
pub(crate) use writer::{LogWriter, WeakLogWriter};
