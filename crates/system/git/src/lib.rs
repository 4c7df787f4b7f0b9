//! Command lines for the git binary and parsers for its output.
//!
//! [`GitInvocation`] builds a shell command line. A read-only call ([`GitInvocation::reading`]) switches
//! off every program that the repository's configuration names (filters, textconv, external diffs,
//! hooks, monitors, pagers, signatures) and all network access. The user's global configuration applies,
//! except for filters that repository settings could redirect. Calls that modify the repository run
//! hooks and filters as git does, and never prompt.
//!
//! **Does not know** who runs the command lines, nor processes, sandboxes, rules or undo.
//!
//! **Invariant:** untrusted text is one quoted word after `--` or `--end-of-options`, and paths are literal.
//!
//! **Invariant:** a path that is not UTF-8 survives a round trip byte for byte.
//!
//! **Invariant:** parsers accept any bytes and skip what they do not understand.

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
