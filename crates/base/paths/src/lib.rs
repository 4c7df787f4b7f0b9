//! Path resolution shared by rules, tools and commands, and atomic file replacement.
//!
//! A path has two relevant forms. The *lexical* form follows from its text: `~` expanded, made absolute,
//! `.` and `..` folded. The *real* form is where the kernel ends up: all symlinks followed; for a path
//! that does not exist yet, the deepest existing parent is resolved and the rest appended. Permission
//! rules check both: an allow rule must match both, a deny rule either.
//!
//! [`replace_file`] and [`PendingFile`] write a temporary file beside the target and rename it over the
//! target.
//!
//! **Does not know** rules, tools or the content of files.
//!
//! **Invariant:** containment compares whole components: `/ws-evil` is not inside `/ws`.
//!
//! **Invariant:** a reader of a replaced file sees the complete old or new content, also after a crash of the writer.
//!
//! **Invariant:** resolution is bounded: a symlink loop is an error, never a hang.

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
