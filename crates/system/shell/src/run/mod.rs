//! Runs commands.
//!
//! **Invariant:** a command gets exactly the bytes that were analysed, in a session of its own, without terminal and input unless a terminal was requested.
//!
//! **Invariant:** a call never waits for processes that a command left behind, and never beyond its timeout.

mod bash;
mod cgroup;
mod job;
mod job_lines;
mod pty;
mod rm_guard;
mod shell;
mod supervisor;
mod task_notice;
mod tasks;
mod thread_pool;

pub use bash::{NO_BASH, find_bash};
pub use cgroup::parse_bytes;
pub use job::{Exit, FeedJob, FinalCwd, Job, JobEnd, JobPhase, JobSpec, Stop, TerminalMode};
pub(crate) use rm_guard::rm_guard;
pub use shell::{BaselineGuard, Shell, ShellConfig};
pub use task_notice::{BackgroundStatus, TaskNotice, TaskNoticeKind, signal_name};
pub use tasks::{
    ForegroundCall, TaskAbout, TaskInfo, TaskKind, TaskRead, TaskReader, TaskRegistry, WaitUntil,
};
