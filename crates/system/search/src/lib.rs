//! Finding things in trees of files: by name ([`GlobRun`]), by content
//! ([`GrepRun`]), by what is defined and used where ([`TreeIndex`], [`Finder`]), or
//! just what is there ([`TreeRun`]). Built on ripgrep's libraries, in process.
//!
//! **Does not know** tools, rules or models. Whether a file may be shown it asks
//! its caller; what to do with an encoding nobody declared, too ([`CharsetGuess`]).
//!
//! **Invariant:** no symbolic link is followed, no pipe, socket or device is
//! opened, and everything below a [`SearchRoot`] is reached from its open directory,
//! so a tree that changes during a search cannot lead it elsewhere.
//!
//! **Invariant:** every search can be stopped ([`SearchStop`]), uses a few threads,
//! and keeps no more in memory than its answer needs.
//!
//! **Invariant:** what was left out is counted by reason. An answer that is not
//! whole says so.
//!
//! **Invariant:** the same tree gives the same answer, whatever thread was
//! first.

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
