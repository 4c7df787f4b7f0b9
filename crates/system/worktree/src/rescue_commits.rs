//! Saves the work in a worktree as commits with refs.

use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
};

use haft_git::quoted;

use crate::{UnsavedWork, WorktreeManager, WorktreeRecord, repository::RepositoryInfo};

/// Prefix of these refs; each worktree has its own directory below.
const NAMES: &str = "refs/haft/rescue";
/// Author and committer of these commits.
const AUTHOR: &str = "GIT_AUTHOR_NAME=Haft GIT_AUTHOR_EMAIL=haft@localhost GIT_COMMITTER_NAME=Haft \
    GIT_COMMITTER_EMAIL=haft@localhost";

impl WorktreeManager {
    /// Saves changed files (byte for byte) and loose commits of a worktree. Returns the refs that hold
    /// them. Does not change the worktree.
    pub fn rescue(&self, record: &WorktreeRecord, found: &UnsavedWork) -> Result<Vec<String>, String> {
        let repository = self.runner.repository_of(record)?;
        let mut commits = found.loose.clone();
        if !found.changed.is_empty() || found.is_staged {
            commits.extend(self.commit_changes(&repository, record, found)?);
        }
        self.name_commits(&repository, record, commits)
    }

    /// Creates refs for commits below the worktree's prefix.
    pub(crate) fn name_commits(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
        commits: Vec<String>,
    ) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        let first = self.next_number(repository, record)?;
        for (number, commit) in (first..).zip(commits) {
            let name = format!("{NAMES}/{}/{number}", record.name.replace('/', "+"));
            // Only creates the ref, never overwrites.
            let nothing = "0".repeat(commit.len());
            let line = repository.line("update-ref").plain(&name).plain(&commit).plain(&nothing).text();
            self.runner.run(&repository.top, &line)?.checked("what is in it could not be named")?;
            names.push(name);
        }
        Ok(names)
    }

    fn next_number(&self, repository: &RepositoryInfo, record: &WorktreeRecord) -> Result<usize, String> {
        let below = format!("{NAMES}/{}/", record.name.replace('/', "+"));
        let line = repository.line("for-each-ref").flag("--format=%(refname)").plain(&below).text();
        let said = self.runner.run(&repository.top, &line)?.checked("git cannot list names")?;
        let text = said.text();
        let numbers = text.lines().filter_map(|it| it.rsplit('/').next()?.parse::<usize>().ok());
        Ok(numbers.max().unwrap_or(0) + 1)
    }

    /// A commit with every changed file as on disk, preceded by one with the index if that differs.
    fn commit_changes(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
        found: &UnsavedWork,
    ) -> Result<Option<String>, String> {
        let index = record.admin_dir.join(format!("haft-rescue-{}.index", std::process::id()));
        let tree = self.tree_of_files(repository, record, found, &index);
        fs::remove_file(&index).ok();
        let tree = tree?;
        let head_tree = self.printed(repository, record, &format!("{}^{{tree}}", found.head))?;
        let mut parents = vec![found.head.clone()];
        // An index with conflicts cannot be written as a tree; its parts are in commits already.
        let staged = self.runner.run(&record.path, &repository.line("write-tree").text())?;
        if staged.code == 0 && staged.text() != head_tree && staged.text() != tree {
            let staged = staged.text();
            parents.push(self.commit(repository, record, &staged, &parents, "what was staged")?);
        }
        if tree == head_tree && parents.len() == 1 {
            return Ok(None);
        }
        self.commit(repository, record, &tree, &parents, "files as they were").map(Some)
    }

    fn commit(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
        tree: &str,
        parents: &[String],
        what: &str,
    ) -> Result<String, String> {
        let message = format!("Worktree {}: {what}", record.name);
        let line = repository.line("commit-tree").set("commit.gpgSign=false").with("-m", &message);
        let line = parents.iter().fold(line, |line, parent| line.with("-p", parent)).plain(tree).text();
        let said = self.runner.run(&record.path, &format!("{AUTHOR} {line}"))?;
        Ok(said.checked("what is in it could not be committed")?.text())
    }

    fn printed(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
        name: &str,
    ) -> Result<String, String> {
        let line = repository.line("rev-parse").flag("--verify").plain(name).text();
        Ok(self.runner.run(&record.path, &line)?.checked("git cannot find its commit")?.text())
    }

    /// A tree with the unmodified bytes of the files: no filters, no line ending conversion.
    fn tree_of_files(
        &self,
        repository: &RepositoryInfo,
        record: &WorktreeRecord,
        found: &UnsavedWork,
        index: &Path,
    ) -> Result<String, String> {
        let with_index = |line: String| format!("GIT_INDEX_FILE={} {line}", quoted(&index.to_string_lossy()));
        let read = repository.line("read-tree").plain(&found.head).text();
        self.runner.run(&record.path, &with_index(read))?.checked("git cannot read its commit")?;
        let nothing = "0".repeat(found.head.len());
        let (mut entries, mut plain) = (Vec::new(), Vec::new());
        let mut entry = |mode: &str, hash: &str, path: &Path| {
            entries.extend_from_slice(format!("{mode} {hash}\t").as_bytes());
            entries.extend_from_slice(path.as_os_str().as_bytes());
            entries.push(0);
        };
        for file in &found.changed {
            let full = record.path.join(&file.path);
            match full.symlink_metadata() {
                Err(_) => entry("0", &nothing, &file.path),
                Ok(meta) if meta.is_symlink() => {
                    let target = fs::read_link(&full).map_err(|err| unreadable(&full, &err))?;
                    let line = repository.line("hash-object").flag("-w").flag("--stdin").text();
                    let bytes = target.as_os_str().as_bytes().to_vec();
                    let said =
                        self.runner.feed(&record.path, &line, bytes)?.checked("git cannot keep a link")?;
                    entry("120000", &said.text(), &file.path);
                }
                Ok(meta) if meta.is_file() => plain.push((&file.path, meta.mode())),
                Ok(_) => return Err(format!("{} is neither a file nor a link", full.display())),
            }
        }
        let names: Vec<u8> = plain.iter().flat_map(|(path, _)| c_quoted(path)).collect();
        let line =
            repository.line("hash-object").flag("-w").flag("--no-filters").flag("--stdin-paths").text();
        let said = self.runner.feed(&record.path, &line, names)?.checked("a changed file cannot be kept")?;
        let text = said.text();
        let hashes: Vec<&str> = text.lines().collect();
        if hashes.len() != plain.len() {
            return Err(String::from("git kept fewer files than it was given"));
        }
        for ((path, mode), hash) in plain.iter().zip(hashes) {
            entry(if mode & 0o100 == 0 { "100644" } else { "100755" }, hash, path);
        }
        let line = repository.line("update-index").flag("-z").flag("--index-info").text();
        self.runner
            .feed(&record.path, &with_index(line), entries)?
            .checked("git cannot list changed files")?;
        let line = repository.line("write-tree").text();
        Ok(self.runner.run(&record.path, &with_index(line))?.checked("git cannot keep changed files")?.text())
    }
}

fn unreadable(path: &Path, err: &std::io::Error) -> String {
    format!("{} cannot be read: {err}", path.display())
}

/// A path in git's quoted notation, with a line end.
pub(crate) fn c_quoted(path: &Path) -> Vec<u8> {
    let mut out = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            other => out.extend(format!("\\{other:03o}").into_bytes()),
        }
    }
    out.extend(*b"\"\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_quoted_path_is_one_line() {
        for (name, want) in
            [("a b", "\"a b\"\n"), ("a\"\\\n", "\"a\\\"\\\\\\012\"\n"), ("ä", "\"\\303\\244\"\n")]
        {
            assert_eq!(String::from_utf8_lossy(&c_quoted(name.as_ref())), want);
        }
    }
}
