//! What the commands of the program share at a plain terminal: output that survives a
//! closed pipe, styles, signals, prompts, and what a session does as lines of text.
//!
//! **Does not know** the commands, nor how flags become a session.
//!
//! **Invariant:** text from elsewhere reaches a terminal without control characters.

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
