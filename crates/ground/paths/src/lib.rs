//! One meaning of a path, for rules, tools and commands alike.
//!
//! A path a model wrote has two forms that matter. The *lexical* one is what
//! the words say: `~` expanded, made absolute, `.` and `..` folded. The *real*
//! one is where the kernel ends up: every symbolic link followed, and for what
//! does not exist yet, the deepest existing parent followed and the rest
//! appended. Rules look at both: an allow needs both, a deny needs either.
//!
//! **Does not know** rules, tools or the content of files.
//!
//! **Invariant:** containment compares whole components: `/ws-evil` is not
//! inside `/ws`.
//!
//! **Invariant:** resolution is bounded: a loop of links is an error, never a
//! hang.

mod expand;
mod resolve;

pub use expand::{PathProblem, expand, is_inside, lexical};
pub use resolve::{Located, locate, real};
