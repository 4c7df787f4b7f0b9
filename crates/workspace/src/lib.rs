//! Files as tools see them.

mod error;
mod hash;
mod lines;
mod open;
mod stamp;
pub mod text;

pub use error::{FileError, FileKind};
pub use hash::ContentHash;
pub use lines::{Cancelled, LineEnd, LineQuery, Lines, lines_before, read_bytes, read_lines, tail_start};
pub use open::{OpenFile, hash_file};
pub use stamp::Stamp;
