//! Searches directory trees: by name ([`GlobRun`]), by content ([`GrepRun`]), by definitions and usages
//! ([`TreeIndex`], [`Finder`]), or lists them ([`TreeRun`]). Built on ripgrep's libraries, in process.
//!
//! **Does not know** tools, rules or models. The caller decides whether a file may be shown and how to detect encodings ([`CharsetGuess`]).
//!
//! **Invariant:** no symlink is followed, no pipe, socket or device is opened, and everything below a [`SearchRoot`] is reached from its open directory, so a tree that changes during a search cannot redirect it.
//!
//! **Invariant:** every search can be cancelled ([`SearchStop`]), uses few threads, and keeps no more in memory than its answer needs.
//!
//! **Invariant:** skipped files are counted by reason, and an incomplete answer says so.
//!
//! **Invariant:** results are deterministic and do not depend on thread timing.

mod cancel;
pub mod display_text;
mod fs;
mod glob;
mod grep;
mod index;
mod list_tree;
mod rank;
mod symbols;
mod walk;

pub use cancel::{SearchStop, SearchStopReason};
pub use fs::{DiskKind, SearchRoot, open_file};
pub use glob::{GlobMatch, GlobPlan, GlobProblem, GlobResult, GlobRun};
pub use grep::{
    CharsetGuess, FileHits, GrepLine, GrepOptions, GrepPage, GrepQuery, GrepResult, GrepRun, GrepTotals,
    LeftOut, LineKind, Mode, PatternProblem,
};
pub use index::{IndexRefreshOptions, RefreshStats, TreeIndex};
pub use list_tree::{ListedDir, ListedTree, SkippedEntry, TreeItem, TreeRun};
pub use rank::{AnswerLimits, Finder, RankQuery, RankedAnswer, RankedDefinition, RankedLine};
pub use symbols::{SourceLanguage, SourceSymbol, SymbolKind, SymbolScratch, symbols};
pub use walk::{
    FileRequirement, GlobFilter, TreeWalk, UnknownType, Unreadable, VCS_DIRS, WalkEntry, WalkFilter,
    WalkLimits, WalkStats, WalkVisitor, file_type, left_out,
};
