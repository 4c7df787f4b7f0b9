//! Finding text.

mod charset;
mod file;
mod giant;
mod page;
mod query;
mod run;
mod sink;

pub use charset::CharsetGuess;
pub(crate) use charset::to_text;
pub use page::{FileHits, GrepPage, GrepTotals};
pub use query::{GrepOptions, GrepQuery, Mode, PatternProblem};
pub use run::{GrepResult, GrepRun, LeftOut};
pub use sink::{GrepLine, LineKind};
