//! File completion for `@` in the prompt.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Maximum number of files listed; further ones are not offered.
const MAX_FILES: usize = 200_000;
/// How long a file list is cached before the next query reads the directory tree again.
const FRESH: Duration = Duration::from_secs(10);
/// Maximum number of completions returned for a query.
const MAX_OFFERED: usize = 50;

/// The files of the project. Listed on the first query, then cached for `FRESH`.
pub(super) struct FileList {
    root: PathBuf,
    ignored: IgnoredFiles,
    known: Mutex<Option<(Instant, Vec<String>)>>,
}

/// Whether completion offers files that `.gitignore` excludes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum IgnoredFiles {
    Offered,
    LeftOut,
}

impl IgnoredFiles {
    /// From the setting `respectGitignore`.
    pub(super) fn from_setting(respected: Option<bool>) -> Self {
        if respected == Some(false) { Self::Offered } else { Self::LeftOut }
    }
}

impl FileList {
    pub(super) fn new(root: PathBuf, ignored: IgnoredFiles) -> Self {
        Self { root, ignored, known: Mutex::new(None) }
    }

    /// Returns the paths that match `query`, best match first, at most `MAX_OFFERED`. Blocks: walks the
    /// directory tree if the cached list is older than `FRESH`.
    pub(super) fn fitting(&self, query: &str) -> Vec<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(when, _)| FRESH < when.elapsed()) {
            *known = Some((Instant::now(), self.list()));
        }
        let files = known.as_ref().map_or(&[][..], |(_, files)| files);
        let query = query.to_lowercase();
        let mut found: Vec<(u32, &String)> =
            files.iter().filter_map(|file| score(&query, file).map(|score| (score, file))).collect();
        found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.len().cmp(&b.1.len())).then(a.1.cmp(b.1)));
        found.into_iter().take(MAX_OFFERED).map(|(_, file)| file.clone()).collect()
    }

    fn list(&self) -> Vec<String> {
        let respects = self.ignored == IgnoredFiles::LeftOut;
        let mut walk = ignore::WalkBuilder::new(&self.root);
        walk.require_git(false).git_ignore(respects).git_global(respects).git_exclude(respects);
        let walk = walk.build();
        let mut files: Vec<String> = Vec::new();
        for entry in walk.flatten() {
            let Ok(path) = entry.path().strip_prefix(&self.root) else { continue };
            if path.as_os_str().is_empty() {
                continue;
            }
            let mut name = path.to_string_lossy().into_owned();
            if entry.file_type().is_some_and(|it| it.is_dir()) {
                name.push('/');
            }
            files.push(name);
            if MAX_FILES <= files.len() {
                break;
            }
        }
        files
    }
}

/// Scores how well a path matches the query, higher is better. `None` if the query is not a subsequence
/// of the path.
fn score(query: &str, path: &str) -> Option<u32> {
    if query.is_empty() {
        let depth = path.trim_end_matches('/').matches('/').count();
        return Some(100 - u32::try_from(depth.min(99)).unwrap_or(99));
    }
    let path = path.to_lowercase();
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(&path);
    if name.starts_with(query) {
        return Some(1000);
    }
    if name.contains(query) {
        return Some(800);
    }
    if path.contains(query) {
        return Some(600);
    }
    let (mut rest, mut runs, mut last) = (path.char_indices(), 0, None);
    for letter in query.chars() {
        let (at, _) = rest.find(|(_, it)| *it == letter)?;
        runs += u32::from(last.is_none_or(|last: usize| last + 1 != at));
        last = Some(at);
    }
    Some(400_u32.saturating_sub(10 * runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_ignores_is_offered_when_the_settings_say_so() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [(".gitignore", "built.txt\n"), ("built.txt", ""), ("own.txt", "")] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        for (setting, want) in [
            (None, vec!["own.txt"]),
            (Some(true), vec!["own.txt"]),
            (Some(false), vec!["own.txt", "built.txt"]),
        ] {
            let list = FileList::new(dir.path().to_owned(), IgnoredFiles::from_setting(setting));
            assert_eq!(list.fitting("txt"), want, "{setting:?}");
        }
    }

    #[test]
    fn names_are_worth_more_than_folders() {
        let order = |query: &str| {
            let mut files = vec!["src/main.rs", "domain/x.rs", "a/m/ai/n.rs", "README.md"];
            files.retain(|file| score(query, file).is_some());
            files.sort_by_key(|file| std::cmp::Reverse(score(query, file)));
            files.join(" ")
        };
        assert_eq!(order("main"), "src/main.rs domain/x.rs a/m/ai/n.rs");
        assert_eq!(order("read"), "README.md");
        assert_eq!(order("zzz"), "");
    }
}
