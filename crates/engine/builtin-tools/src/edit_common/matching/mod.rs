//! Finds the text a model means, and applies the change it means.
//!
//! Exact matches come first. An inexact match must be unique, and the result names what was ignored.
//! Where the file differs from the model's text in parts the model did not change, the file's version
//! stays.

mod find;
mod fold;
mod nearest;
mod rewrite;
#[cfg(test)]
mod tests;
mod transform;

pub(crate) use find::{Found, MatchCount, NotFound, find, find_within};
pub(crate) use fold::FoldRules;
pub(crate) use nearest::nearest;
pub(crate) use rewrite::rewrite;
pub(crate) use transform::{Transform, without_line_numbers};
