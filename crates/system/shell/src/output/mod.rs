//! Stores output of commands within limits, and formats it.

mod binary_kind;
mod excerpt;
mod redact;
mod spool;
mod spool_dir;
mod spool_quota;

pub use binary_kind::binary_kind;
pub use excerpt::{Excerpt, Mark, OutputView, excerpt};
pub use redact::Blank;
pub use spool::{Spool, SpoolLimits};
pub use spool_dir::SpoolDir;
pub use spool_quota::SpoolQuota;

pub use haft_types::ansi::{AnsiStripper, PlainPiece, clean};
