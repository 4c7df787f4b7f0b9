//! Tables of known programs and the effects of their options.
//!
//! All tables are closed: an option, operand or script that is not fully known makes the command
//! [`CommandClass::Other`].

mod archives;
mod awk;
mod awk_program;
mod bracket_expr;
mod builtins;
mod dev_tools;
mod file_edits;
mod getopt;
mod git;
mod git_exec_options;
mod option_tables;
mod search_tools;
mod sed;
mod xargs;

use super::{
    analysis::{CommandClass, EditKind, EffectAccess, EffectScope},
    expansion::Field,
};

/// Effects of a command with these words.
#[derive(Debug)]
pub(crate) struct ProgramAnalysis {
    pub(crate) class: CommandClass,
    pub(crate) touches: Vec<TouchedFile>,
    /// Whether it contacts a server.
    pub(crate) talks: bool,
}

/// A word of the command that names a file, and how it is accessed.
#[derive(Clone, Debug)]
pub(crate) struct TouchedFile {
    pub(crate) access: EffectAccess,
    pub(crate) field: Field,
    pub(crate) reach: EffectScope,
}

impl TouchedFile {
    pub(crate) fn new(access: EffectAccess, field: &Field) -> Self {
        Self { access, field: field.clone(), reach: EffectScope::Itself }
    }

    pub(crate) fn tree(access: EffectAccess, field: &Field) -> Self {
        Self { access, field: field.clone(), reach: EffectScope::Tree }
    }

    /// The working directory as a target.
    pub(crate) fn here(access: EffectAccess, reach: EffectScope) -> Self {
        Self { access, field: Field::Literal(".".to_owned()), reach }
    }
}

impl ProgramAnalysis {
    fn reads(touches: Vec<TouchedFile>) -> Self {
        Self { class: CommandClass::ReadOnly, touches, talks: false }
    }

    fn harmless() -> Self {
        Self::reads(Vec::new())
    }

    fn edits(verb: EditKind, touches: Vec<TouchedFile>) -> Self {
        Self { class: CommandClass::Edit(verb), touches, talks: false }
    }
}

/// Programs classified as read-only based on code in their arguments or on configuration files.
const WEAKLY_KNOWN: &[&str] = &[
    "awk", "bun", "cargo", "deno", "docker", "gawk", "gh", "go", "jq", "kubectl", "mawk", "nawk", "node",
    "npm", "pip", "pip3", "podman", "rustc", "rustup", "sed", "tsc", "uv", "yq",
];

/// Whether a read-only classification of this program is weak, so that it should be enforced by the
/// sandbox.
pub(crate) fn is_weakly_known(name: &str) -> bool {
    WEAKLY_KNOWN.contains(&name.rsplit('/').next().unwrap_or(name))
}

/// Directories of the system's own programs.
const SYSTEM_DIRECTORIES: &[&str] = &["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"];

/// Classifies a command by its words (without wrappers). `None` if it is unknown.
pub(crate) fn classify(words: &[Field]) -> Option<ProgramAnalysis> {
    let (name, args) = words.split_first()?;
    let name = name.literal()?;
    let bare = SYSTEM_DIRECTORIES.iter().find_map(|dir| name.strip_prefix(dir)).unwrap_or(name);
    if bare.contains('/') {
        return None;
    }
    if bare == name
        && let Some(verdict) = builtins::classify(name, args)
    {
        return Some(verdict);
    }
    match bare {
        "git" => git::classify(args),
        "sed" => sed::classify(args),
        "awk" | "gawk" | "mawk" | "nawk" => awk::classify(args),
        "cp" | "mkdir" | "mv" | "rm" | "rmdir" | "touch" => file_edits::classify(bare, args),
        _ => match archives::classify(bare, args) {
            Some(verdict) => verdict,
            None => search_tools::classify(bare, args)
                .or_else(|| option_tables::classify(bare, args))
                .or_else(|| dev_tools::classify(bare, args)),
        },
    }
}

/// Whether a program of this name can delete files.
pub(crate) fn may_remove(name: &str) -> bool {
    matches!(
        name.rsplit('/').next(),
        Some("mv" | "rm" | "rmdir" | "unlink" | "shred" | "srm" | "trash" | "find")
    )
}

/// Files that a command would delete, also with unknown options.
pub(crate) fn removals(words: &[Field]) -> Vec<TouchedFile> {
    file_edits::removals(words)
}

pub(crate) use builtins::target_of_cd;
pub(crate) use git_exec_options::{GIT_VALUED, git_programs, runs_named_program};
pub(crate) use search_tools::sole_file;
pub(crate) use sed::is_print_range;
pub(crate) use xargs::{classify as classify_xargs, names_below, passes_lines};

fn literals(args: &[Field]) -> Option<Vec<&str>> {
    args.iter().map(Field::literal).collect()
}

/// Operands as files; `-` is standard input.
fn files(operands: &[Field], access: EffectAccess, reach: EffectScope) -> Vec<TouchedFile> {
    operands
        .iter()
        .filter(|field| !matches!(field, Field::Stream) && field.literal() != Some("-"))
        .map(|field| TouchedFile { access, field: field.clone(), reach })
        .collect()
}
