//! What commands print: kept within bounds, and made fit to be read.

mod blank;
mod dir;
mod excerpt;
mod quota;
mod sniff;
mod spool;

pub use blank::Blank;
pub use dir::SpoolDir;
pub use excerpt::{Excerpt, Mark, OutputView, excerpt};
pub use quota::SpoolQuota;
pub use sniff::binary_kind;
pub use spool::{Spool, SpoolLimits};

pub use haft_types::terminal::{AnsiStripper, PlainPiece, clean};
