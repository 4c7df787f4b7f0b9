//! Running commands: their environment, their output, and the tasks they become.
//!
//! A [`run::Shell`] runs the command lines of one session and owns every process
//! that comes of them ([`own`]), within walls where it is told to ([`sandbox`]).
//! [`env`](mod@env) says what a command sees of our environment, [`output`] keeps what it
//! prints.
//!
//! **Does not know** tools, rules, modes, agents or settings files, nor what a
//! command line means: that is `haft-bash-analysis`.
//!
//! **Invariant:** every process a command leaves behind is known by a mark it
//! cannot lose, is listed, and ends with the session unless somebody detached
//! it. Nothing else is ever signalled.
//!
//! **Invariant:** nothing a command prints takes more memory or disk than its
//! limits say, and what is dropped is counted.

pub mod env;
pub mod output;
pub mod run;

/// Who owns the processes of commands: types of this crate's interface.
pub use haft_process as own;
/// The walls a command can be told to run within.
pub use haft_sandbox as sandbox;
