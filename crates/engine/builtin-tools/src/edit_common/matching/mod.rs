//! Finding the text a model means, and changing it as it means.
//!
//! Exact first. What is found otherwise must be the only candidate, and what
//! had to be overlooked is said. Where the model's text and the file differ in
//! things the model did not mean to change, the file's own spelling stays.

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
