//! Git as a tool sees it: the git binary for everything, called in a way that
//! runs nothing a repository brings along unless the call is meant to, and what
//! it prints as values.
//!
//! [`GitInvocation`] is one call of the binary as a line for a shell. A line that only
//! reads ([`GitInvocation::reading`]) switches off every program that the repository's
//! own configuration names: filters, text conversion, external diffs, hooks,
//! monitors, pagers, signatures, and every way to another machine. What the person
//! configured for all repositories stays, but for filters that the repository's
//! settings could direct. Lines that change something run hooks and filters as git
//! does, and never wait for a person.
//!
//! **Does not know** who runs the lines, processes, sandboxes, rules or undo.
//!
//! **Invariant:** text from outside is one quoted word after `--` or
//! `--end-of-options`, and paths are literal.
//!
//! **Invariant:** a path that is no text goes out and comes back as the same bytes.
//!
//! **Invariant:** parsers take any bytes; what they do not understand they leave
//! out.

mod blame;
mod diff;
mod head_file;
mod index_file;
mod invocation;
mod log;
mod path_quoting;
mod repository;
mod safe_settings;
mod status;

pub use blame::{BlameChunk, parse_blame};
pub use diff::{DiffFile, is_machine_made, parse_numstat, split_patch};
pub use head_file::{HeadState, parse_head};
pub use index_file::IndexFile;
pub use invocation::{GitInvocation, quoted, variables};
pub use log::{CommitInfo, LOG_FORMAT, parse_log};
pub use path_quoting::{path_bytes, path_named, path_text};
pub use repository::{ExecutableSetting, RepositoryConfig, SshProgram, facts_line, parse_facts};
pub use safe_settings::is_ordinary_setting;
pub use status::{GitStatus, RepositoryOperation, StatusEntry, parse_status, state_of};
