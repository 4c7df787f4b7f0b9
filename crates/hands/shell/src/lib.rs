//! Commands: what a command line would do, and doing it.
//!
//! [`analyse`] turns the text of a bash command line into facts: which simple
//! commands it contains, in which directory each would run, which files each
//! would touch, and whether any of that is uncertain. It decides nothing. The
//! other modules run command lines and own every process that comes of it.
//!
//! **Does not know** tools, rules, modes, agents or settings files. The
//! analysis does not even look at the disk: it is a pure function of the text
//! and of where it would run.
//!
//! **Invariant:** whatever cannot be read with certainty carries a doubt; a
//! command line without doubts runs no program that is not one of its parts.
//! Time and stack are bounded for input of any length and nesting.
//!
//! **Invariant:** every process a command leaves behind is known by a mark it
//! cannot lose, is listed, and ends with the session unless somebody detached
//! it. Nothing else is ever signalled.
//!
//! **Invariant:** nothing a command prints takes more memory or disk than its
//! limits say, and what is dropped is counted.

pub mod analysis;
pub mod env;
pub mod output;
pub mod run;
pub mod sandbox;

pub use haft_process as own;

pub use analysis::{Analysis, Part, Place, analyse};
