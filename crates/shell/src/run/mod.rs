//! Running commands.
//!
//! **Invariant:** a command gets exactly the bytes it was judged by, in a
//! session of its own, without a terminal and without input.
//!
//! **Invariant:** a call never waits for what a command left behind, and never
//! longer than its limit.

mod cgroup;
pub(crate) mod collect;
mod job;
mod launch;
mod shell;
mod supervise;
mod wait;

pub use cgroup::parse_bytes;
pub use job::{Cwd, End, Exit, Job, Phase, Spec, Stop};
pub use shell::{Shell, ShellConfig};
