//! What commands print: kept within bounds, and made fit to be read.

mod clean;
mod dir;
mod excerpt;
mod quota;
mod sniff;
mod spool;

pub use clean::{Cleaner, Piece, clean};
pub use dir::SpoolDir;
pub(crate) use dir::{file_name, take};
pub use excerpt::{Excerpt, Mark, View, excerpt};
pub use quota::Quota;
pub use sniff::binary_kind;
pub use spool::{Spool, SpoolLimits};
