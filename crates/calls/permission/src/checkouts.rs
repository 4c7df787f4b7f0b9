//! The checkouts of a project's repository. What a rule says about a file of
//! the project also holds for the same file in its worktrees.

use std::{
    collections::HashSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use haft_paths::{lexical, real};

/// Larger files below `.git` are not what they should be.
const LARGEST: u64 = 64 << 10;

/// The checkouts of every repository that some directories belong to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Checkouts {
    repositories: Vec<Repository>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Repository {
    /// The directory that all checkouts share.
    common: PathBuf,
    /// Where the main checkout and the worktrees are, in every form.
    tops: Vec<PathBuf>,
}

/// Where a rule about one checkout starts in another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Twin {
    pub(crate) base: PathBuf,
    /// What stands before a path below `base` when it is compared with the
    /// rule's glob.
    pub(crate) prefix: PathBuf,
}

impl Checkouts {
    /// Looks up the repositories that `dirs` lie in.
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

    /// Where a rule that starts at `start` starts in other checkouts. A rule
    /// about a whole checkout, or about what lies above it, names a place and
    /// has no twins, unless its glob goes on from there.
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

/// Without the slash that joining nothing leaves at the end.
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

/// The directory that all checkouts of a repository share, from the `.git` of
/// one of them.
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

/// The main checkout and every worktree that a repository lists.
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

/// `core.worktree`, which a submodule's repository has.
fn work_tree_setting(common: &Path) -> Option<PathBuf> {
    let text = small_text(&common.join("config"))?;
    let value = text.lines().filter_map(|line| line.split_once('=')).find_map(|(key, value)| {
        key.trim().eq_ignore_ascii_case("worktree").then(|| value.trim().trim_matches('"'))
    });
    value.map(PathBuf::from)
}

/// The text of a small ordinary file.
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
    fn twins_start_where_the_rule_would_in_every_other_checkout() {
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
