//! Runs shell commands: their environment, output and background tasks.
//!
//! A [`run::Shell`] runs the command lines of one session and owns all their processes ([`own`]), in a
//! sandbox if requested ([`sandbox`]). [`env`](mod@env) builds the environment of commands, [`output`]
//! stores what they print.
//!
//! **Does not know** tools, rules, modes, agents or settings files, nor what a command line means (see `haft-bash-analysis`).
//!
//! **Invariant:** every process a command leaves behind carries a tag it cannot drop, is listed, and ends with the session unless it was detached. No other process is ever signalled.
//!
//! **Invariant:** output never exceeds its limits in memory or on disk; dropped bytes are counted.

pub mod env;
pub mod output;
pub mod run;

/// Process ownership: types of this crate's API.
pub use haft_process as own;
/// Sandboxes for commands: types of this crate's API.
pub use haft_sandbox as sandbox;
