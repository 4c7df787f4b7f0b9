//! Text as people see it, and the way back to the bytes of the file.
//!
//! Tools look at characters and lines; the file is bytes in some encoding, with
//! line breaks of some style, and sometimes with bytes that spell nothing. The
//! *view* below shows the characters, with every line break as a line feed, and
//! knows for each place in it the place in the file. An edit is stated in the
//! view and cut into the file, so what it does not touch stays byte for byte.

mod charset;
mod detect;
mod line_break;
mod plausible;
mod shifted;
mod splice;
pub(crate) mod units;
mod view;

pub use charset::{Charset, Encoding, Unencodable, describe_char};
pub use detect::{SampleExtent, detect};
pub use line_break::LineBreak;
pub use shifted::shifted;
pub use splice::{Bytes, Splice, SpliceError, TextPiece, encode_whole};
pub(crate) use units::CarriageReturns;
pub use view::{LineBreaks, Text};
