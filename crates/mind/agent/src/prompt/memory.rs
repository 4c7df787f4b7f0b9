//! `CLAUDE.md` and `AGENTS.md`: what every session should know.

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

impl Memory {
    /// Reads what there is. A file that cannot be read is not there.
    pub fn load(places: &MemoryPlaces) -> Self {
        let mut files = Vec::new();
        for dir in &places.user {
            files.extend(read_first(dir, &["CLAUDE.md", "AGENTS.md"], places));
        }
        for dir in project_dirs(&places.cwd) {
            files.extend(read_first(
                &dir,
                &["CLAUDE.md", ".claude/CLAUDE.md", ".haft/CLAUDE.md", "AGENTS.md"],
                places,
            ));
            files.extend(read_first(&dir, &["CLAUDE.local.md"], places));
        }
        Self { files }
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

fn read_first(dir: &Path, names: &[&str], places: &MemoryPlaces) -> Option<MemoryFile> {
    names.iter().find_map(|name| {
        let path = dir.join(name);
        let text = expanded(&path, places, &mut vec![path.clone()])?;
        (!text.trim().is_empty()).then_some(MemoryFile { path, text })
    })
}

/// A file's text with comments dropped and imports in place. `open` are the
/// files we are inside of.
fn expanded(path: &Path, places: &MemoryPlaces, open: &mut Vec<PathBuf>) -> Option<String> {
    let text = without_comments(&read_regular(path)?);
    let mut out = String::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        match import(line).filter(|_| !in_code) {
            Some(name) => {
                out.push_str(&imported(name, path, places, open).unwrap_or_else(|| line.to_owned()))
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    Some(out)
}

/// A line that is nothing but `@path`.
fn import(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('@')?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

fn imported(name: &str, from: &Path, places: &MemoryPlaces, open: &mut Vec<PathBuf>) -> Option<String> {
    let path = match (name.strip_prefix("~/"), &places.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => from.parent()?.join(name),
    };
    if MAX_DEPTH < open.len() || open.contains(&path) {
        return None;
    }
    open.push(path.clone());
    let text = expanded(&path, places, open);
    open.pop();
    text.map(|text| text.trim_end().to_owned())
}

/// Only regular files: a FIFO named `CLAUDE.md` must not stop the session.
fn read_regular(path: &Path) -> Option<String> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
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
        let memory = Memory::load(&places);
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
}
