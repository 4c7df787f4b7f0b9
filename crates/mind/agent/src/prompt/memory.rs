//! `CLAUDE.md` and `AGENTS.md`: what every session should know.
//!
//! **Invariant:** a file of a project brings nothing from outside of the project
//! into the prompt, neither by an import nor by being a link; and nothing is read
//! that a rule denies.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// Imports inside imports, and no further.
const MAX_DEPTH: usize = 4;

/// Of one file; more would crowd out the conversation.
const MAX_BYTES: u64 = 200 << 10;

/// Where memory is looked for.
#[derive(Clone, Debug)]
pub struct MemoryPlaces {
    /// The user's configuration directories, the one that wins last.
    pub user: Vec<PathBuf>,
    /// Where the session works; its ancestors up to the project's root count
    /// too.
    pub cwd: PathBuf,
    /// What `~` means in imports.
    pub home: Option<PathBuf>,
}

/// One file and what it says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MemoryFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its text, without comments, with its imports in place.
    pub text: String,
}

/// All files, from the most general to the most specific.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Memory {
    /// The files.
    pub files: Vec<MemoryFile>,
}

/// Whether a file may be read, by its real path: no rule denies it, and no kernel
/// makes it up.
pub type MayRead<'a> = &'a dyn Fn(&Path) -> bool;

impl Memory {
    /// Reads what there is, and says what was not read although a file asks for it.
    /// A file that is not there is no problem.
    pub fn load(places: &MemoryPlaces, may_read: MayRead<'_>) -> (Self, Vec<String>) {
        let mut files = Vec::new();
        let mut reader = MemoryReader {
            home: places.home.as_deref(),
            root: None,
            may_read,
            open: Vec::new(),
            refused: Vec::new(),
        };
        for dir in &places.user {
            files.extend(reader.read_first(dir, &["CLAUDE.md", "AGENTS.md"]));
        }
        let dirs = project_dirs(&places.cwd);
        reader.root =
            dirs.first().and_then(|root| root.canonicalize().ok()).or_else(|| dirs.first().cloned());
        for dir in dirs {
            let names = ["CLAUDE.md", ".claude/CLAUDE.md", ".haft/CLAUDE.md", "AGENTS.md"];
            files.extend(reader.read_first(&dir, &names));
            files.extend(reader.read_first(&dir, &["CLAUDE.local.md"]));
        }
        (Self { files }, reader.refused)
    }

    /// As a part of the prompt.
    pub(crate) fn text(&self) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        let mut text = String::from(
            "# What the user and the project want you to know\nFollow it; where it contradicts itself, the later part counts.",
        );
        for file in &self.files {
            text.push_str(&format!("\n\n## {}\n{}", file.path.display(), file.text.trim()));
        }
        Some(text)
    }
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

/// Reads files and what they import.
struct MemoryReader<'a> {
    /// What `~` means.
    home: Option<&'a Path>,
    /// Where the files of a project end; none for the person's own files, which
    /// may import from anywhere.
    root: Option<PathBuf>,
    may_read: MayRead<'a>,
    /// The files we are inside of.
    open: Vec<PathBuf>,
    refused: Vec<String>,
}

impl MemoryReader<'_> {
    fn read_first(&mut self, dir: &Path, names: &[&str]) -> Option<MemoryFile> {
        names.iter().find_map(|name| {
            let path = dir.join(name);
            let text = self.expanded(&path)?;
            (!text.trim().is_empty()).then_some(MemoryFile { path, text })
        })
    }

    /// A file's text with comments dropped and imports in place.
    fn expanded(&mut self, path: &Path) -> Option<String> {
        if MAX_DEPTH < self.open.len() || self.open.iter().any(|open| open == path) {
            return None;
        }
        let text = without_comments(&self.read_regular(path)?);
        self.open.push(path.to_owned());
        let mut out = String::new();
        let mut in_code = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            match import(line).filter(|_| !in_code).and_then(|name| self.imported(name, path)) {
                Some(text) => out.push_str(text.trim_end()),
                None => out.push_str(line),
            }
            out.push('\n');
        }
        self.open.pop();
        Some(out)
    }

    fn imported(&mut self, name: &str, from: &Path) -> Option<String> {
        let path = match (name.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => from.parent()?.join(name),
        };
        self.expanded(&path)
    }

    /// Only regular files: a FIFO named `CLAUDE.md` must not stop the session.
    fn read_regular(&mut self, path: &Path) -> Option<String> {
        let real = path.canonicalize().ok()?;
        if !std::fs::metadata(&real).ok()?.is_file() {
            return None;
        }
        if self.root.as_ref().is_some_and(|root| !real.starts_with(root)) {
            self.refuse(path, "it lies outside of the project");
            return None;
        }
        if !(self.may_read)(&real) {
            self.refuse(path, "it must not be read");
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&real).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn refuse(&mut self, path: &Path, why: &str) {
        let place = match self.open.last() {
            Some(from) => format!("{}: the import of {}", from.display(), path.display()),
            None => path.display().to_string(),
        };
        self.refused.push(format!("{place} is left out of the prompt: {why}"));
    }
}

/// A line that is nothing but `@path`.
fn import(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('@')?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("<!--") {
        out.push_str(&rest[..start]);
        match rest[start..].find("-->") {
            Some(end) => rest = &rest[start + end + 3..],
            None => return out,
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn finds_files_from_general_to_specific_and_follows_imports() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "home/CLAUDE.md", "user <!-- hidden --> rules\n@~/extra.md");
        write(root, "home/extra.md", "extra");
        write(root, "AGENTS.md", "above the repository: not read");
        write(root, "repo/.git/HEAD", "");
        write(
            root,
            "repo/CLAUDE.md",
            "project\n@docs/a.md\n```\n@docs/a.md\n```\nmail@example.com\n@missing.md",
        );
        write(root, "repo/AGENTS.md", "not read beside CLAUDE.md");
        write(root, "repo/docs/a.md", "imported\n@b.md");
        write(root, "repo/docs/b.md", "deeper\n@a.md");
        write(root, "repo/sub/AGENTS.md", "sub");
        write(root, "repo/sub/CLAUDE.local.md", "mine");
        let places = MemoryPlaces {
            user: vec![root.join("home")],
            cwd: root.join("repo/sub"),
            home: Some(root.join("home")),
        };
        let (memory, refused) = Memory::load(&places, &|_| true);
        assert_eq!(refused, [""; 0]);
        let texts: Vec<&str> = memory.files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "user  rules\nextra\n",
                "project\nimported\ndeeper\n@a.md\n```\n@docs/a.md\n```\nmail@example.com\n@missing.md\n",
                "sub\n",
                "mine\n"
            ]
        );
    }

    /// Whatever way a file of a project names something elsewhere, it is not in
    /// the prompt, and a word says so.
    #[test]
    fn nothing_from_outside_comes_in() {
        for (memory, says) in [
            ("@~/key", "outside of the project"),
            ("@../key", "outside of the project"),
            ("@/proc/self/environ", "outside of the project"),
            ("@sub/../../key", "outside of the project"),
            ("@leads-out", "outside of the project"),
            ("@linked/key", "outside of the project"),
            ("@inner.md", "outside of the project"),
            ("@denied.md", "must not be read"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path();
            write(root, "key", "SECRET-4711");
            write(root, "repo/.git/HEAD", "");
            write(root, "repo/sub/x", "");
            write(root, "repo/CLAUDE.md", memory);
            write(root, "repo/inner.md", "@~/key");
            write(root, "repo/denied.md", "SECRET-4711");
            std::os::unix::fs::symlink(root.join("key"), root.join("repo/leads-out")).unwrap();
            std::os::unix::fs::symlink(root, root.join("repo/linked")).unwrap();
            let places =
                MemoryPlaces { user: Vec::new(), cwd: root.join("repo"), home: Some(root.to_owned()) };
            let (loaded, refused) = Memory::load(&places, &|path| !path.ends_with("denied.md"));
            let text = loaded.text().unwrap_or_default();
            assert!(!text.contains("SECRET-4711") && !text.contains("PATH="), "{memory}: {text}");
            assert!(refused.join("\n").contains(says), "{memory}: {refused:?}");
        }
    }

    #[test]
    fn a_memory_file_that_is_a_link_out_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "key", "SECRET-4711");
        write(root, "repo/.git/HEAD", "");
        std::os::unix::fs::symlink("../key", root.join("repo/CLAUDE.md")).unwrap();
        let places = MemoryPlaces { user: Vec::new(), cwd: root.join("repo"), home: None };
        let (loaded, refused) = Memory::load(&places, &|_| true);
        assert_eq!((loaded.files.len(), refused.len()), (0, 1));
    }
}
