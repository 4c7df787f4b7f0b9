//! A session log, shown: as one self-contained page, and as a trace for profilers.
//!
//! **Does not know** sessions that run, terminals, or where logs are kept.
//!
//! **Invariant:** nothing of a log becomes markup. Only text that stands in this
//! crate is written as it is ([`Html`](html::Html)); everything else is escaped.
//!
//! **Invariant:** the page loads nothing, runs nothing and links nowhere: its
//! policy allows its own style sheet and pictures inside it, and no script.

mod clock;
mod html;
mod page;
mod perfetto;
mod session;
mod timeline;

pub use page::page;
pub use perfetto::trace;
pub use session::{LoggedCall, LoggedRequest, LoggedRow, LoggedSession};
