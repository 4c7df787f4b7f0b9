//! Finding things in trees of files.

mod disk;
mod glob;
mod grep;
mod index;
mod rank;
pub mod show;
mod stop;
mod symbols;
mod tree;
mod walk;

pub use disk::{Kind, Root, open_file};
pub use glob::{GlobProblem, GlobRun, Globbed, Hit, Plan};
pub use grep::{
    FileHits, GrepRun, Grepped, LeftOut, Line, LineKind, Mode, Page, PatternProblem, Query, QueryOptions,
    Totals,
};
pub use index::{Index, Refresh, Refreshed};
pub use rank::{Answer, AnswerLimits, Ask, Definition, Finder, Place};
pub use stop::{Stop, StopReason};
pub use symbols::{Lang, Scratch, Symbol, SymbolKind, symbols};
pub use tree::{Dir, Item, LeftOutEntry, Tree, TreeRun};
pub use walk::{
    Entry, Filter, Globs, Limits, Needs, Tally, UnknownType, Unreadable, VCS_DIRS, Visitor, Walk, file_type,
};
