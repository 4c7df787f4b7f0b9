//! One meaning of a path, for rules, tools and commands alike.
//!
//! A path a model wrote has two forms that matter. The *lexical* one is what
//! the words say: `~` expanded, made absolute, `.` and `..` folded. The *real*
//! one is where the kernel ends up: every symbolic link followed, and for what
//! does not exist yet, the deepest existing parent followed and the rest
//! appended. Rules look at both: an allow needs both, a deny needs either.
//!
//! It also has the one way to write a file: beside its place, and then into it
//! ([`replace_file`], [`PendingFile`]).
//!
//! **Does not know** rules, tools or the content of files.
//!
//! **Invariant:** containment compares whole components: `/ws-evil` is not
//! inside `/ws`.
//!
//! **Invariant:** whoever reads a file that is replaced finds the old content or
//! the new one, also after a crash of the writer.
//!
//! **Invariant:** resolution is bounded: a loop of links is an error, never a
//! hang.

mod atomic_write;
mod expand;
mod pseudo_fs;
mod resolve;

pub use atomic_write::{
    Durability, ModeOnReplace, PendingFile, replace_file, sweep_unfinished, sync_content,
};
pub use expand::{PathError, expand, is_inside, lexical};
pub use pseudo_fs::{is_kernel_interface, is_of_kernel};
pub use resolve::{ResolvedPath, locate, real};
