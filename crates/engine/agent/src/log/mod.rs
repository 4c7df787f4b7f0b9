//! The session log.

mod call_lines;
mod file;
mod log_entry;
mod parse;
mod remote_log;
pub mod session_cost;
pub mod session_list;
mod tail_reader;
pub(crate) mod timestamp;
mod unpaid;
mod writer;
mod writer_lock;

pub use call_lines::{CallFinishedLine, CallStartedLine, StageMicros, WriterLine};
pub(crate) use file::read_from;
pub use file::{LogFile, ReadReport, read, read_shown};
pub use log_entry::{
    AttachmentLine, ContentForm, ConversationLine, LineHeader, LogEntry, LogState, LoggedMessage,
    RequestLine, RequestPurpose, ResultStub, ShownContent, ShownLine, ShownReason, SystemLine,
};
pub use remote_log::{RemoteLog, RemoteLogFuture, RemoteLogHandle, RemoteLogOwner};
pub(crate) use tail_reader::{RecentEntries, recent};
pub use timestamp::now;
pub use unpaid::UnpaidAnswers;
pub(crate) use writer::{LogWriter, UnloggedCall, WeakLogWriter};
