//! Checkouts of the project's repository. A restriction on a file of the project also applies to the
//! same file in its worktrees.

use std::{
    collections::HashSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use haft_paths::{lexical, real};

/// Maximum bytes of a file below `.git` that is read.
const LARGEST: u64 = 64 << 10;

/// Checkouts of all repositories that contain some directories.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Checkouts {
    repositories: Vec<Repository>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Repository {
    /// Git directory shared by all checkouts.
    common: PathBuf,
    /// Main checkout and worktrees, in lexical and real form.
    tops: Vec<PathBuf>,
}

/// Start of a rule in another checkout.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Twin {
    pub(crate) base: PathBuf,
    /// Prefix to add to a path below `base` before matching the rule's glob.
    pub(crate) prefix: PathBuf,
}

impl Checkouts {
    /// Finds the repositories that contain `dirs`. Reads the disk.
    pub(crate) fn find<'a>(dirs: impl Iterator<Item = &'a Path>) -> Self {
        let mut repositories: Vec<Repository> = Vec::new();
        let mut seen = HashSet::new();
        for top in dirs.flat_map(Path::ancestors).filter(|it| seen.insert(it.as_os_str())) {
            let Some(common) = common_dir(&top.join(".git")) else { continue };
            let known = repositories.iter().position(|it| it.common == common);
            let at = known.unwrap_or_else(|| {
                let tops = tops(&common);
                repositories.push(Repository { common, tops });
                repositories.len() - 1
            });
            add_forms(&mut repositories[at].tops, top);
        }
        Self { repositories }
    }

    /// Starts in other checkouts for a rule that starts at `start`. A rule about a whole checkout or a
    /// parent of it has none, unless it continues with a glob.
    pub(crate) fn twins(&self, start: &Path, has_glob: bool) -> Vec<Twin> {
        let mut twins = Vec::new();
        for Repository { tops, .. } in &self.repositories {
            let inside = |top: &&PathBuf| start.starts_with(top) && (has_glob || start != **top);
            let innermost = tops.iter().filter(inside).max_by_key(|top| top.components().count());
            let above = tops.iter().filter(|top| has_glob && top.starts_with(start) && **top != start);
            for top in innermost.into_iter().chain(above) {
                let (below, prefix) = match start.strip_prefix(top) {
                    Ok(below) => (below, Path::new("")),
                    Err(_) => (Path::new(""), top.strip_prefix(start).unwrap_or(Path::new(""))),
                };
                for other in tops.iter().filter(|it| *it != top) {
                    let twin = Twin { base: joined(other, below), prefix: prefix.to_owned() };
                    if !twins.contains(&twin) {
                        twins.push(twin);
                    }
                }
            }
        }
        twins
    }
}

/// Joins without leaving a trailing slash.
fn joined(dir: &Path, below: &Path) -> PathBuf {
    dir.iter().chain(below.iter()).collect()
}

fn add_forms(tops: &mut Vec<PathBuf>, top: &Path) {
    let forms = [Some(lexical(top)), real(top).ok()];
    for form in forms.into_iter().flatten() {
        if !tops.contains(&form) {
            tops.push(form);
        }
    }
}

/// Git directory shared by all checkouts, from the `.git` of one of them.
fn common_dir(git: &Path) -> Option<PathBuf> {
    let kind = fs::metadata(git).ok()?;
    let own = if kind.is_dir() {
        git.to_owned()
    } else {
        let text = small_text(git)?;
        git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    };
    let common = match small_text(&own.join("commondir")) {
        Some(text) => own.join(text.trim()),
        None => own,
    };
    real(&common).ok()
}

/// The main checkout and all worktrees listed by a repository.
fn tops(common: &Path) -> Vec<PathBuf> {
    let mut tops = Vec::new();
    if common.file_name().is_some_and(|it| it == ".git") {
        common.parent().into_iter().for_each(|top| add_forms(&mut tops, top));
    } else if let Some(top) = work_tree_setting(common) {
        add_forms(&mut tops, &common.join(top));
    }
    for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
        let dir = entry.path();
        let Some(text) = small_text(&dir.join("gitdir")) else { continue };
        let git = dir.join(text.trim_end_matches(['\n', '\r']));
        git.parent().into_iter().for_each(|top| add_forms(&mut tops, top));
    }
    tops.sort();
    tops
}

/// The setting `core.worktree`, which submodules have.
fn work_tree_setting(common: &Path) -> Option<PathBuf> {
    let text = small_text(&common.join("config"))?;
    let value = text.lines().filter_map(|line| line.split_once('=')).find_map(|(key, value)| {
        key.trim().eq_ignore_ascii_case("worktree").then(|| value.trim().trim_matches('"'))
    });
    value.map(PathBuf::from)
}

/// Text of a small regular file.
fn small_text(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    (meta.is_file() && meta.len() <= LARGEST).then_some(())?;
    let mut text = String::new();
    fs::File::open(path).ok()?.take(LARGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkouts(tops: &[&str]) -> Checkouts {
        let tops = tops.iter().map(PathBuf::from).collect();
        Checkouts { repositories: vec![Repository { common: PathBuf::from("/p/.git"), tops }] }
    }

    #[test]
    fn rule_start_is_mapped_to_other_checkouts() {
        let found = checkouts(&["/p", "/p/.claude/worktrees/a", "/else/b"]);
        let all = |rows: &[(&str, &str)]| -> Vec<Twin> {
            let twin = |(base, prefix): &(&str, &str)| Twin { base: base.into(), prefix: prefix.into() };
            rows.iter().map(twin).collect()
        };
        for (start, has_glob, want) in [
            ("/p/secret", false, all(&[("/p/.claude/worktrees/a/secret", ""), ("/else/b/secret", "")])),
            ("/else/b/x", false, all(&[("/p/x", ""), ("/p/.claude/worktrees/a/x", "")])),
            ("/p", false, all(&[])),
            ("/other/x", true, all(&[])),
            ("/else", false, all(&[])),
            ("/else", true, all(&[("/p", "b"), ("/p/.claude/worktrees/a", "b")])),
        ] {
            assert_eq!(found.twins(Path::new(start), has_glob), want, "{start} {has_glob}");
        }
        let all_files = found.twins(Path::new("/p"), true);
        for base in ["/p/.claude/worktrees/a", "/else/b"] {
            assert!(all_files.contains(&Twin { base: base.into(), prefix: "".into() }), "{all_files:?}");
        }
    }
}
