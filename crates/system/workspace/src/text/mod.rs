//! Decoded text with a mapping back to the file's bytes.
//!
//! Tools work on characters and lines; the file is bytes in some encoding, with some line break style,
//! and possibly invalid bytes. The *view* contains the characters with every line break as LF, and maps
//! each position to one in the file. Edits are expressed in the view and spliced into the file, so
//! everything else stays byte for byte.

pub(crate) mod char_units;
mod charset;
mod detect;
mod guess_charset;
mod line_break;
mod splice;
mod stateful_charsets;
mod text_file;

pub(crate) use char_units::CarriageReturns;
pub use charset::{Charset, Encoding, Unencodable, describe_char};
pub use detect::{SampleExtent, detect};
pub use line_break::LineBreak;
pub use splice::{Bytes, Splice, SpliceError, TextPiece, encode_whole};
pub use stateful_charsets::shifted;
pub use text_file::{LineBreaks, Text};
