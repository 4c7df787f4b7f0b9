//! Commands: what a command line would do.
//!
//! [`analyse`] turns the text of a bash command line into facts: which simple
//! commands it contains, in which directory each would run, which files each
//! would touch, and whether any of that is uncertain. It decides nothing.
//!
//! **Does not know** rules, modes, tools, or whether a file exists: the
//! analysis is a pure function of the text and of where it would run.
//!
//! **Invariant:** whatever cannot be read with certainty carries a doubt; a
//! command line without doubts runs no program that is not one of its parts.
//!
//! **Invariant:** bounded time and stack for input of any length and nesting.

pub mod analysis;

pub use analysis::{Analysis, Part, Place, analyse};
