//! Finding text.

mod charset;
mod file;
mod giant;
mod page;
mod query;
mod run;
mod sink;

pub use charset::Guess;
pub(crate) use charset::to_text;
pub use page::{FileHits, GrepPage, Totals};
pub use query::{Mode, PatternProblem, Query, QueryOptions};
pub use run::{GrepRun, Grepped, LeftOut};
pub use sink::{GrepLine, LineKind};
