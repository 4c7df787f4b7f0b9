//! Who started which process, whatever became of it.
//!
//! **Invariant:** a signal goes only to a process that proved to belong to one
//! of our calls, through a handle that pins exactly that process.

mod mark;
mod owner;
mod process;
mod registry;
mod search;

pub use mark::{COOKIE, Mark};
pub use owner::{Lifetime, Owned, Owner};
pub use process::{Process, ProcessId};
pub use registry::{Leftover, end_leftovers, everything, leftovers};

pub(crate) use registry::{Announced, end};
pub(crate) use search::describe;

/// Makes this process the parent of every orphan among its descendants, so that
/// a command that detaches itself is noticed at once and its end leaves nothing
/// in the process table. Holds for the whole process: the program decides.
pub fn adopt_orphans() -> std::io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}
