//! Reads memory files and their imports.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use haft_agent::{MemoryFile, MemoryOwner};

use super::{LoadedMemory, MayRead, PathRule};
use crate::extensions::{FrontMatter, LinkGuard, PathGlobs, pages};

/// Maximum depth of imports.
const MAX_DEPTH: usize = 4;

/// Maximum bytes of a file; the rest is cut off.
const MAX_BYTES: usize = 200 << 10;

pub(super) struct MemoryReader<'a> {
    /// The home directory (`~`).
    home: Option<&'a Path>,
    /// Directory that files must not leave; `None` for the user's own files, which may import from
    /// anywhere.
    pub(super) root: Option<PathBuf>,
    /// Owner of the files being read.
    pub(super) owner: MemoryOwner,
    may_read: MayRead<'a>,
    excludes: PathGlobs,
    pub(super) found: LoadedMemory,
}

impl<'a> MemoryReader<'a> {
    pub(super) fn new(home: Option<&'a Path>, may_read: MayRead<'a>, excludes: PathGlobs) -> Self {
        let owner = MemoryOwner::default();
        Self { home, root: None, owner, may_read, excludes, found: LoadedMemory::default() }
    }

    /// Reads the first existing file of several.
    pub(super) fn read_first(&mut self, dir: &Path, names: &[&str]) {
        if let Some(name) = names.iter().find(|name| dir.join(name).is_file()) {
            self.read(&dir.join(name));
        }
    }

    /// Reads a file and its imports, each as a separate part.
    pub(super) fn read(&mut self, path: &Path) {
        if let Some(text) = self.read_regular(path, None) {
            self.take(path, text, &mut Vec::new());
        }
    }

    /// Reads the rules of a directory. Rules with globs are stored for later.
    pub(super) fn read_rules(&mut self, dir: &Path, root: &Path) {
        for (_, path) in pages(dir, &LinkGuard::default()) {
            let Some(text) = self.read_regular(&path, None) else { continue };
            let front = FrontMatter::parse(&text);
            let patterns = front.names("paths").unwrap_or_default();
            if patterns.is_empty() {
                self.take(&path, front.body, &mut Vec::new());
                continue;
            }
            let (globs, wrong) = PathGlobs::new(&patterns);
            for pattern in wrong {
                let line = front.line_of("paths");
                let (path, line) = (path.display(), line);
                self.found.refused.push(format!("{path}:{line}: the glob {pattern:?} makes no sense"));
            }
            let text = without_comments(&front.body);
            let file = MemoryFile { path, text, owner: self.owner, imported_by: None };
            let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
            self.found.rules.push(PathRule { file, patterns, globs, root });
        }
    }

    /// Adds a text, followed by its imports.
    fn take(&mut self, path: &Path, text: String, open: &mut Vec<PathBuf>) {
        let text = without_comments(&text);
        let imports: Vec<String> = imports(&text).map(str::to_owned).collect();
        if !text.trim().is_empty() {
            let imported_by = open.last().cloned();
            self.found.memory.files.push(MemoryFile {
                path: path.to_owned(),
                text,
                owner: self.owner,
                imported_by,
            });
        }
        open.push(path.to_owned());
        for name in imports {
            let Some(import) = self.place_of(&name, path) else { continue };
            let is_known = self.found.memory.files.iter().any(|it| it.path == import);
            if MAX_DEPTH < open.len() || is_known || open.contains(&import) {
                continue;
            }
            if let Some(text) = self.read_regular(&import, open.last().map(PathBuf::as_path)) {
                self.take(&import, text, open);
            }
        }
        open.pop();
    }

    fn place_of(&self, name: &str, from: &Path) -> Option<PathBuf> {
        let path = match (name.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => from.parent()?.join(name),
        };
        Some(haft_paths::lexical(&path))
    }

    /// Reads regular files only: a FIFO named `CLAUDE.md` must not block the session.
    fn read_regular(&mut self, path: &Path, from: Option<&Path>) -> Option<String> {
        let real = path.canonicalize().ok()?;
        if !std::fs::metadata(&real).ok()?.is_file() {
            return None;
        }
        let as_relative = real.strip_prefix("/").unwrap_or(&real);
        if self.excludes.matches(as_relative) {
            return None;
        }
        if self.root.as_ref().is_some_and(|root| !real.starts_with(root)) {
            self.refuse(path, from, "it lies outside of the project");
            return None;
        }
        if !(self.may_read)(&real) {
            self.refuse(path, from, "it must not be read");
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&real).ok()?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
        if bytes.contains(&0) {
            self.refuse(path, from, "it is no text");
            return None;
        }
        if MAX_BYTES < bytes.len() {
            bytes.truncate(MAX_BYTES);
            let kept = MAX_BYTES >> 10;
            let notice = format!("{}: only its first {kept} KiB are in the prompt", path.display());
            self.found.refused.push(notice);
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn refuse(&mut self, path: &Path, from: Option<&Path>, why: &str) {
        let place = match from {
            Some(from) => format!("{}: the import of {}", from.display(), path.display()),
            None => path.display().to_string(),
        };
        self.found.refused.push(format!("{place} is left out of the prompt: {why}"));
    }
}

/// Import paths (`@path`) outside of code.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    let mut in_fence = false;
    let lines = text.lines().filter(move |line| {
        let is_mark = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        in_fence ^= is_mark;
        !in_fence && !is_mark
    });
    lines.flat_map(|line| {
        // Text between backquotes is code.
        let prose = line.split('`').step_by(2);
        prose.flat_map(|part| {
            part.split_whitespace().filter_map(|word| {
                let name = word.strip_prefix('@')?.trim_end_matches(['.', ',', ';', ':', ')', '!', '?']);
                (!name.is_empty()).then_some(name)
            })
        })
    })
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

    fn reader<'a>(root: &Path, home: &'a Path, may_read: MayRead<'a>) -> MemoryReader<'a> {
        let mut reader = MemoryReader::new(Some(home), may_read, PathGlobs::new(&[]).0);
        reader.root = Some(root.canonicalize().unwrap());
        reader
    }

    #[test]
    fn imports_are_parts_of_their_own_four_deep() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(
            root,
            "CLAUDE.md",
            "top <!-- hidden @x.md --> see @a.md, and\n```\n@code.md\n```\n`@code.md` mail@x.md @missing.md",
        );
        for (name, text) in [("a.md", "a @b.md @b.md"), ("b.md", "b\n@c.md"), ("c.md", "c @d.md @a.md")] {
            write(root, name, text);
        }
        for name in ["d.md", "e.md", "x.md", "code.md"] {
            write(root, name, &format!("{} @e.md", &name[..1]));
        }
        let mut reader = reader(root, root, &|_| true);
        reader.read(&root.join("CLAUDE.md"));
        let found = reader.found;
        let names: Vec<String> = found
            .memory
            .files
            .iter()
            .map(|it| it.path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["CLAUDE.md", "a.md", "b.md", "c.md", "d.md"]);
        assert!(!found.memory.files[0].text.contains("hidden"));
        assert_eq!(found.memory.files[2].imported_by.as_deref(), Some(root.join("a.md").as_path()));
        assert_eq!(found.refused, [""; 0]);
    }

    /// Whatever way a file of a project names something elsewhere, it is not in
    /// the prompt, and a word says so.
    #[test]
    fn nothing_from_outside_comes_in() {
        for (memory, says) in [
            ("@~/key", "outside of the project"),
            ("text @../key text", "outside of the project"),
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
            write(root, "repo/sub/x", "");
            write(root, "repo/CLAUDE.md", memory);
            write(root, "repo/inner.md", "@~/key");
            write(root, "repo/denied.md", "SECRET-4711");
            std::os::unix::fs::symlink(root.join("key"), root.join("repo/leads-out")).unwrap();
            std::os::unix::fs::symlink(root, root.join("repo/linked")).unwrap();
            let mut reader = reader(&root.join("repo"), root, &|path| !path.ends_with("denied.md"));
            reader.read(&root.join("repo/CLAUDE.md"));
            let text: String = reader.found.memory.files.iter().map(|it| it.text.as_str()).collect();
            assert!(!text.contains("SECRET-4711") && !text.contains("PATH="), "{memory}: {text}");
            let refused = reader.found.refused;
            assert!(refused.join("\n").contains(says), "{memory}: {refused:?}");
        }
    }

    #[test]
    fn a_memory_file_that_is_a_link_out_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "key", "SECRET-4711");
        write(root, "repo/x", "");
        std::os::unix::fs::symlink("../key", root.join("repo/CLAUDE.md")).unwrap();
        let mut reader = reader(&root.join("repo"), root, &|_| true);
        reader.read(&root.join("repo/CLAUDE.md"));
        assert_eq!((reader.found.memory.files.len(), reader.found.refused.len()), (0, 1));
    }

    #[test]
    fn what_is_no_text_or_too_long_is_said() {
        let long = "x".repeat(MAX_BYTES + 1);
        for (text, parts, says) in
            [("a\0b", 0, "it is no text"), (long.as_str(), 1, "only its first 200 KiB"), (&long[1..], 1, "")]
        {
            let dir = tempfile::tempdir().unwrap();
            write(dir.path(), "AGENTS.md", text);
            let mut reader = reader(dir.path(), dir.path(), &|_| true);
            reader.read(&dir.path().join("AGENTS.md"));
            let LoadedMemory { memory, refused, .. } = reader.found;
            assert_eq!((memory.files.len(), refused.len()), (parts, usize::from(!says.is_empty())));
            assert!(refused.join("").contains(says), "{refused:?}");
        }
    }
}
