//! Standard output, styles, interrupts, and prompts at a plain terminal.

pub(crate) mod create_file;
pub(crate) mod event_printer;
pub(crate) mod interrupt;
pub(crate) mod live_tail;
pub(crate) mod prompts;
pub(crate) mod stdout;
pub(crate) mod style;
