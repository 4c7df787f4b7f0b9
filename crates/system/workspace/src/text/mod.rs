//! Text as people see it, and the way back to the bytes of the file.
//!
//! Tools look at characters and lines; the file is bytes in some encoding, with
//! line breaks of some style, and sometimes with bytes that spell nothing. The
//! *view* below shows the characters, with every line break as a line feed, and
//! knows for each place in it the place in the file. An edit is stated in the
//! view and cut into the file, so what it does not touch stays byte for byte.

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
