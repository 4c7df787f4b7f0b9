//! Text search.

mod file;
mod grep_query;
mod grep_run;
mod long_lines;
mod non_utf8;
mod paging;
mod sink;

pub use grep_query::{GrepOptions, GrepQuery, Mode, PatternProblem};
pub use grep_run::{GrepResult, GrepRun, LeftOut};
pub use non_utf8::CharsetGuess;
pub(crate) use non_utf8::to_text;
pub use paging::{FileHits, GrepPage, GrepTotals};
pub use sink::{GrepLine, LineKind};
