//! What the program's commands share on a plain terminal: output that survives a closed pipe, styles,
//! signals, prompts, and session events as lines of text.
//!
//! This crate knows neither the commands nor how flags become a session.
//!
//! **Invariant:** text from outside (model, tools, servers) is printed to a terminal only without
//! control characters.

pub mod create_file;
pub mod event_lines;
pub mod event_printer;
mod global_args;
pub mod interrupt;
pub mod live_tail;
pub mod prompts;
pub mod stdout;
pub mod style;

pub use global_args::GlobalArgs;
