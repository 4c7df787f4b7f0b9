//! Builds the preview for the permission prompt: what would be removed and written.

mod dry_run;

use std::path::{Path, PathBuf};

use haft_bash_analysis::{
    AnalyzedCommand, EffectAccess, EffectOrigin, EffectTarget, LineAnalysis, Word, fits,
};

/// Maximum number of directory entries counted.
const MOST: u64 = 100_000;
/// Maximum number of paths named.
const SHOWN: usize = 4;

/// Returns a short preview; `None` if nothing is removed or written.
pub(super) fn preview(analysis: &LineAnalysis) -> Option<String> {
    let effects = || analysis.parts.iter().flat_map(|part| &part.effects);
    let known = |access: EffectAccess| -> Vec<PathBuf> {
        let found = effects().filter(|it| it.access == access && it.origin != EffectOrigin::Mention);
        let mut paths: Vec<PathBuf> = found.flat_map(|it| paths_of(&it.target)).collect();
        paths.sort();
        paths.dedup();
        paths
    };
    let (mut removed, written) = (known(EffectAccess::Delete), known(EffectAccess::Write));
    removed.extend(analysis.parts.iter().flat_map(patterns_of_rm));
    removed.extend(analysis.parts.iter().flat_map(dry_run::removed));
    removed.sort();
    removed.dedup();
    let mut lines = Vec::new();
    if !removed.is_empty() {
        lines.push(format!("removes {}: {}", list(&removed), Count::of(&removed).words(&removed)));
    }
    let written: Vec<PathBuf> = written.into_iter().filter(|it| !removed.contains(it)).collect();
    if !written.is_empty() {
        let (old, new): (Vec<PathBuf>, Vec<PathBuf>) = written.into_iter().partition(|it| it.exists());
        let part =
            |verb: &str, paths: &[PathBuf]| (!paths.is_empty()).then(|| format!("{verb} {}", list(paths)));
        lines.extend(part("changes", &old));
        lines.extend(part("creates", &new));
    }
    let unknown = effects().any(|it| {
        matches!(it.access, EffectAccess::Delete | EffectAccess::Write)
            && matches!(it.target, EffectTarget::Unknown(_))
    });
    if unknown {
        lines.push(String::from("what else it changes is known only when it runs"));
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Returns the paths matched by the globs of an `rm`.
fn patterns_of_rm(part: &AnalyzedCommand) -> Vec<PathBuf> {
    let is_rm = matches!(part.words.first(), Some(Word::Literal(name)) if name == "rm");
    let Some(dir) = part.directory.single().filter(|_| is_rm) else { return Vec::new() };
    let patterns = part.words.iter().filter_map(|word| match word {
        Word::Pattern(text) => Some(dir.join(text)),
        _ => None,
    });
    patterns.flat_map(|pattern| matching(&pattern)).collect()
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().take(SHOWN).map(|it| it.display().to_string()).collect();
    let more = paths.len().saturating_sub(SHOWN);
    let more = if 0 < more { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Returns the existing paths of a target.
fn paths_of(target: &EffectTarget) -> Vec<PathBuf> {
    match target {
        EffectTarget::Path(path) => vec![haft_paths::lexical(path)],
        EffectTarget::Pattern(pattern) => matching(pattern),
        EffectTarget::Unknown(_) => Vec::new(),
    }
}

/// Returns the matches of a glob. Only its last component may contain wildcards.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|it| it.to_str()))
    else {
        return Vec::new();
    };
    let names = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|it| it.file_name());
    let hidden = |name: &str| name.starts_with('.');
    let found = |it: &str| fits(name, it) && hidden(it) == hidden(name);
    names.filter(|it| it.to_str().is_some_and(found)).map(|it| parent.join(it)).collect()
}

#[derive(Default)]
struct Count {
    files: u64,
    bytes: u64,
    looked: u64,
}

impl Count {
    fn of(paths: &[PathBuf]) -> Self {
        let mut count = Self::default();
        // Nested paths are counted once.
        let inside = |path: &PathBuf| paths.iter().any(|it| it != path && path.starts_with(it));
        let mut open: Vec<PathBuf> = paths.iter().filter(|it| !inside(it)).cloned().collect();
        while let Some(path) = open.pop() {
            count.looked += 1;
            let Ok(meta) = path.symlink_metadata() else { continue };
            if MOST < count.looked {
                break;
            }
            if meta.is_dir() {
                open.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|it| it.path()));
            } else {
                count.files += 1;
                count.bytes += meta.len();
            }
        }
        count
    }

    fn words(&self, paths: &[PathBuf]) -> String {
        let more = if MOST < self.looked { "more than " } else { "" };
        let noun = if self.files == 1 { "file" } else { "files" };
        let bytes = match self.bytes {
            0..1_024 => format!("{} bytes", self.bytes),
            1_024..1_048_576 => format!("{} KiB", self.bytes >> 10),
            _ => format!("{} MiB", self.bytes >> 20),
        };
        let untracked = match tracked(paths) {
            Some(tracked) => format!(", {} of them not in git", self.files.saturating_sub(tracked)),
            None => String::new(),
        };
        format!("{more}{} {noun}, {bytes}{untracked}", self.files)
    }
}

/// Returns how many files below these paths git tracks; `None` outside a repository. Ignores the
/// repository's own configuration, which could run programs.
fn tracked(paths: &[PathBuf]) -> Option<u64> {
    let parent = paths.first()?.parent()?;
    let quiet = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "ls-files", "-z", "--"];
    let quiet = quiet.into_iter().map(str::to_owned);
    let named: Option<Vec<String>> =
        paths.iter().take(200).map(|path| path.to_str().map(str::to_owned)).collect();
    let listed = dry_run::output("git", quiet.chain(named?).collect(), parent)?;
    let count = listed.iter().filter(|it| **it == 0).count();
    Some(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use haft_bash_analysis::{AnalysisContext, analyse};

    use super::*;

    #[test]
    fn preview_counts_files_to_be_removed() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let root = dir.path().canonicalize()?;
        std::fs::create_dir_all(root.join("a/b"))?;
        for name in ["a/1", "a/b/2", "a/b/3", "old.txt", "x.log", "y.log"] {
            std::fs::write(root.join(name), "12345")?;
        }
        let roots = [root.clone()];
        let shown = |command: &str| {
            let place = AnalysisContext { cwd: &root, home: None, roots: &roots };
            let text = preview(&analyse(command, place)).unwrap_or_default();
            text.replace(&root.display().to_string(), "WS")
        };
        for (command, want) in [
            ("ls a", ""),
            ("rm -rf a", "removes WS/a: 3 files, 15 bytes"),
            ("rm *.log", "removes WS/x.log, WS/y.log: 2 files, 10 bytes"),
            ("echo x > new.txt", "creates WS/new.txt"),
            ("echo x > old.txt", "changes WS/old.txt"),
            ("find . -name '*.log' -delete", "removes WS/x.log, WS/y.log: 2 files, 10 bytes"),
            (
                "find a -type f -delete; echo x > new.txt",
                "removes WS/a/1, WS/a/b/2, WS/a/b/3: 3 files, 15 bytes; creates WS/new.txt",
            ),
            ("rm -rf a && echo x > old.txt", "removes WS/a: 3 files, 15 bytes; changes WS/old.txt"),
        ] {
            assert_eq!(shown(command), want, "{command}");
        }
        Ok(())
    }

    #[test]
    fn preview_counts_files_git_clean_would_remove() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let root = dir.path().canonicalize()?;
        let git = |args: &[&str]| Command::new("git").args(args).current_dir(&root).output();
        git(&["init", "-q"])?;
        std::fs::create_dir_all(root.join("u/v"))?;
        for name in ["tracked", "loose", "u/1", "u/v/2", "x.o"] {
            std::fs::write(root.join(name), "12345")?;
        }
        std::fs::write(root.join(".gitignore"), "*.o\n")?;
        git(&["add", "tracked", ".gitignore"])?;
        let roots = [root.clone()];
        for (command, want) in [
            ("git clean -f", "removes WS/loose: 1 file, 5 bytes, 1 of them not in git"),
            ("git clean -fd", "removes WS/loose, WS/u: 3 files, 15 bytes, 3 of them not in git"),
            ("git clean -fdx", "removes WS/loose, WS/u, WS/x.o: 4 files, 20 bytes, 4 of them not in git"),
            ("git clean -fdX -q", "removes WS/x.o: 1 file, 5 bytes, 1 of them not in git"),
        ] {
            let place = AnalysisContext { cwd: &root, home: None, roots: &roots };
            let shown = preview(&analyse(command, place)).unwrap_or_default();
            assert_eq!(shown.replace(&root.display().to_string(), "WS"), want, "{command}");
            assert!(root.join("loose").exists() && root.join("x.o").exists());
        }
        Ok(())
    }
}
