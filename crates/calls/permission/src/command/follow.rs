//! Symlinks that commands follow while copying or packing a tree: their targets count as named by the
//! command.

use std::path::{Path, PathBuf};

use haft_bash_analysis::{
    AnalyzedCommand, CommandClass, EditKind, EffectAccess, EffectOrigin, EffectScope, EffectTarget, Word,
};

use super::MAX_NAMES;
use crate::{FileMention, FileTarget, FileUse, FileUseKind, FileUseScope};

/// Maximum number of symlinks examined one by one.
const MAX_LINKS: usize = 64;

/// Files that a part reads or writes through symlinks inside trees it names.
pub(super) fn followed(part: &AnalyzedCommand) -> Vec<FileUse> {
    let mut out = Vec::new();
    if reads_through_links(part) {
        for tree in sources(part) {
            out.extend(links_below(tree, &|_| true).uses(tree, FileUseKind::Read));
        }
    }
    for tree in searched(part) {
        // What a link means inside the tree is read under its own name as well.
        let Ok(root) = haft_paths::real(tree) else { continue };
        let leads_out = |real: &Path| !real.starts_with(&root);
        out.extend(links_below(tree, &leads_out).uses(tree, FileUseKind::Read));
    }
    for tree in merged(part) {
        out.extend(links_below(&tree, &|_| true).uses(&tree, FileUseKind::Write));
    }
    out
}

/// Trees that may be read.
fn sources(part: &AnalyzedCommand) -> impl Iterator<Item = &Path> {
    let read = part
        .effects
        .iter()
        .filter(|it| it.access == EffectAccess::Read && it.origin != EffectOrigin::Redirection);
    read.filter_map(|it| match &it.target {
        EffectTarget::Path(path) => Some(path.as_path()),
        EffectTarget::Pattern(path) => path.parent(),
        EffectTarget::Unknown(_) => None,
    })
}

/// Trees that a read-only command walks while it follows the symlinks it finds: `grep -R`, `rg -L`,
/// `find -L`, and the arguments that `xargs` adds to a command.
fn searched(part: &AnalyzedCommand) -> impl Iterator<Item = &Path> {
    let only_reads = part.class == CommandClass::ReadOnly;
    let trees = part.effects.iter().filter(move |it| {
        only_reads && it.access == EffectAccess::Read && it.reach == EffectScope::LinkedTree
    });
    trees.filter_map(|it| match &it.target {
        EffectTarget::Path(path) => Some(path.as_path()),
        EffectTarget::Pattern(path) => path.parent(),
        EffectTarget::Unknown(_) => None,
    })
}

/// Trees that a copy is merged into: `cp` writes through symlinks in them.
fn merged(part: &AnalyzedCommand) -> Vec<PathBuf> {
    let named =
        |flag: &str| part.words.iter().any(|word| matches!(word, Word::Literal(text) if text == flag));
    let short = |letters: &[char]| {
        part.words.iter().any(|word| {
            matches!(word, Word::Literal(text) if text.starts_with('-') && !text.starts_with("--") && text.contains(letters))
        })
    };
    let is_copy =
        part.faces.refuse.iter().any(|it| matches!(it.first().map(|it| base(it)), Some("cp" | "gcp")));
    let recursive = short(&['r', 'R', 'a']) || named("--recursive") || named("--archive");
    if !is_copy || !recursive {
        return Vec::new();
    }
    let paths = |access: EffectAccess, origin: EffectOrigin| {
        let all = part.effects.iter().filter(move |it| it.access == access && it.origin == origin);
        all.filter_map(|it| match &it.target {
            EffectTarget::Path(path) => Some(path.clone()),
            EffectTarget::Pattern(_) | EffectTarget::Unknown(_) => None,
        })
    };
    if part.class == CommandClass::Edit(EditKind::Copy) {
        let all: Vec<PathBuf> = paths(EffectAccess::Write, EffectOrigin::Operand).collect();
        let whole = short(&['T']) || named("--no-target-directory");
        let is_container = |dir: &PathBuf| !whole && all.iter().any(|it| it != dir && it.starts_with(dir));
        return all.iter().filter(|it| !is_container(it)).cloned().collect();
    }
    paths(EffectAccess::Read, EffectOrigin::Mention).next_back().into_iter().collect()
}

/// Whether a command follows symlinks in the trees it reads.
fn reads_through_links(part: &AnalyzedCommand) -> bool {
    match part.class {
        CommandClass::Edit(EditKind::Copy) => {
            part.effects.iter().any(|it| it.reach == EffectScope::LinkedTree)
        }
        CommandClass::Other => part.faces.refuse.iter().any(|words| follows(words)),
        _ => false,
    }
}

fn follows(words: &[String]) -> bool {
    let Some((name, args)) = words.split_first() else { return false };
    let short = |letters: &[char]| {
        args.iter().any(|it| it.starts_with('-') && !it.starts_with("--") && it.contains(letters))
    };
    let long = |beginnings: &[&str]| args.iter().any(|it| beginnings.iter().any(|long| it.starts_with(long)));
    // `tar chf a.tar d`
    let bundled = args.first().is_some_and(|it| it.contains('h') && !it.contains(['/', '.']));
    match base(name) {
        "cp" | "gcp" => short(&['L', 'H']) || long(&["--d"]),
        "rsync" => short(&['L', 'k']) || long(&["--copy", "--dereference"]),
        "tar" | "gtar" | "bsdtar" => bundled || short(&['h', 'L', 'H']) || long(&["--d", "--hard-d"]),
        "cpio" | "pax" => short(&['L', 'H']) || long(&["--d"]),
        "zip" => !short(&['y']) && !long(&["--symlinks"]),
        "7z" | "7za" | "7zr" | "7zz" | "rar" | "scp" | "sftp" | "jar" | "install" | "ditto" => true,
        _ => false,
    }
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Symlinks found.
struct Links {
    found: Vec<PathBuf>,
    /// Whether there may be more.
    cut: bool,
}

impl Links {
    fn uses(self, tree: &Path, kind: FileUseKind) -> Vec<FileUse> {
        let made =
            |target| FileUse { target, kind, through: FileMention::Operand, reach: FileUseScope::Tree };
        let mut out: Vec<FileUse> = self.found.into_iter().map(|it| made(FileTarget::Path(it))).collect();
        if self.cut {
            out.push(made(FileTarget::Unknown(tree.display().to_string())));
        }
        out
    }
}

/// Symlinks in a tree and in the directories they lead to, whose targets `is_kept` accepts.
fn links_below(tree: &Path, is_kept: &dyn Fn(&Path) -> bool) -> Links {
    let mut links = Links { found: Vec::new(), cut: false };
    let mut visited = Vec::new();
    let mut open = vec![tree.to_owned()];
    let mut seen = 0;
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            seen += 1;
            if MAX_NAMES < seen || MAX_LINKS < links.found.len() {
                links.cut = true;
                return links;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() {
                let real = haft_paths::real(&path).unwrap_or_else(|_| path.clone());
                if is_kept(&real) {
                    links.found.push(path);
                }
                if real.is_dir() && !visited.contains(&real) {
                    visited.push(real.clone());
                    open.push(real);
                }
            }
        }
    }
    links
}
