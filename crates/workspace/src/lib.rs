//! Files as tools see them.

mod error;
mod hash;
mod open;
mod stamp;
pub mod text;

pub use error::{FileError, FileKind};
pub use hash::ContentHash;
pub use open::{OpenFile, hash_file};
pub use stamp::Stamp;
