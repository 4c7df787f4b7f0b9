//! `CLAUDE.md`, `AGENTS.md` and rules: what is told at the beginning, and what is
//! told when a file they are about is touched.
//!
//! **Invariant:** a file of a project brings nothing from outside of the project
//! into the prompt, neither by an import nor by being a link; and nothing is read
//! that a rule denies.

mod follow;
mod reader;

use std::path::{Path, PathBuf};

use haft_agent::{MemoryFile, MemoryFiles, MemoryOwner};
use haft_config::SettingsLayer;

pub(crate) use self::follow::{MemoryFollower, tell_hooks};
use self::reader::MemoryReader;
use crate::{environment::SessionEnvironment, extensions::PathGlobs};

/// Whether a file may be read, by its real path: no rule denies it, and no kernel
/// makes it up.
pub(crate) type MayRead<'a> = &'a dyn Fn(&Path) -> bool;

/// What was found at the beginning.
#[derive(Debug, Default)]
pub(crate) struct LoadedMemory {
    /// What is told.
    pub(crate) memory: MemoryFiles,
    /// What is told when a file is touched that it is about.
    pub(crate) rules: Vec<PathRule>,
    /// What was not read although a file asks for it, in words.
    pub(crate) refused: Vec<String>,
}

/// A rule about some files.
#[derive(Clone, Debug)]
pub(crate) struct PathRule {
    file: MemoryFile,
    patterns: Vec<String>,
    globs: PathGlobs,
    /// The directory its globs begin at.
    root: PathBuf,
}

/// Names of the files of a directory, in the order they count. Those of other
/// programs count where none of ours is.
const OURS: [&str; 3] = ["CLAUDE.md", ".claude/CLAUDE.md", ".haft/CLAUDE.md"];
const OF_OTHERS: &str = "AGENTS.md";
const LOCAL: &str = "CLAUDE.local.md";

impl LoadedMemory {
    /// Reads what there is. A file that is not there is no problem.
    pub(crate) fn load(premises: &SessionEnvironment, may_read: MayRead<'_>) -> Self {
        let places = premises.store.places();
        let mut reader = MemoryReader::new(premises.home.as_deref(), may_read, excludes(premises));
        for dir in &places.managed {
            reader.owner = MemoryOwner::Managed;
            reader.read(&dir.join("CLAUDE.md"));
            reader.read_rules(&dir.join(".claude/rules"), &places.project);
        }
        if premises.reads(SettingsLayer::User) {
            reader.owner = MemoryOwner::User;
            for dir in &places.user {
                reader.read_first(dir, &["CLAUDE.md", OF_OTHERS]);
                reader.read_rules(&dir.join("rules"), &places.project);
            }
        }
        let dirs = project_dirs(&premises.cwd);
        reader.root = dirs.first().map(|root| root.canonicalize().unwrap_or_else(|_| root.clone()));
        let mut has_ours = false;
        for dir in &dirs {
            has_ours |= OURS.iter().any(|name| dir.join(name).is_file());
            read_directory(&mut reader, premises, dir, has_ours);
        }
        reader.found
    }
}

/// Everything a directory of a project says to whoever works in it.
fn read_directory(reader: &mut MemoryReader<'_>, premises: &SessionEnvironment, dir: &Path, has_ours: bool) {
    if premises.reads(SettingsLayer::Project) {
        reader.owner = MemoryOwner::Project;
        OURS.iter().for_each(|name| reader.read(&dir.join(name)));
        if !has_ours {
            reader.read(&dir.join(OF_OTHERS));
        }
        for name in [".claude/rules", ".haft/rules"] {
            reader.read_rules(&dir.join(name), dir);
        }
    }
    if premises.reads(SettingsLayer::Local) {
        reader.owner = MemoryOwner::Local;
        reader.read(&dir.join(LOCAL));
    }
}

/// Files that settings leave out.
fn excludes(premises: &SessionEnvironment) -> PathGlobs {
    let loaded = premises.loaded();
    let listed = loaded.settings.get("claudeMdExcludes").map(|it| it.value).unwrap_or_default();
    let listed = listed.as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned));
    PathGlobs::new(&listed.collect::<Vec<_>>()).0
}

/// From the project's root down to the working directory. Without a repository
/// only the working directory counts: files above it belong to something else.
fn project_dirs(cwd: &Path) -> Vec<PathBuf> {
    let root = cwd.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(cwd);
    let mut dirs: Vec<PathBuf> =
        cwd.ancestors().take_while(|dir| dir.starts_with(root)).map(Path::to_owned).collect();
    dirs.reverse();
    dirs
}
