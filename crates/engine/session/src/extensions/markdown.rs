//! Markdown files with a head: commands, skills, agents.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Longer ones are no instructions for a model.
const LONGEST: u64 = 1 << 20;

/// Deeper ones are not looked for: a link may lead in circles.
const DEEPEST: usize = 6;

/// A file with a head.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Page {
    pub(crate) head: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Page {
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        if !found.is_file() || LONGEST < found.len() {
            return None;
        }
        Some(Self::parse(&String::from_utf8_lossy(&std::fs::read(path).ok()?)))
    }

    /// Own code: what these heads hold is `key: value` per line, and a whole
    /// YAML reader would be the largest part of this crate.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let Some(rest) = text.strip_prefix("---").and_then(|it| it.split_once('\n')).map(|it| it.1) else {
            return Self { head: BTreeMap::new(), body: text.trim().to_owned() };
        };
        let mut head = BTreeMap::new();
        let mut offset = 0;
        for line in rest.split_inclusive('\n') {
            offset += line.len();
            if line.trim_end() == "---" {
                return Self { head, body: rest[offset..].trim().to_owned() };
            }
            if let Some((key, value)) = line.split_once(':')
                && !key.starts_with([' ', '\t', '-', '#'])
            {
                head.insert(key.trim().to_owned(), unquoted(value.trim()).to_owned());
            }
        }
        Self { head: BTreeMap::new(), body: text.trim().to_owned() }
    }

    /// What it says about itself: its description, or its first line.
    pub(crate) fn description(&self) -> String {
        let first = || self.body.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default();
        let told = self.head.get("description").map(String::as_str).filter(|it| !it.is_empty());
        told.unwrap_or_else(first).trim_start_matches('#').trim().to_owned()
    }
}

fn unquoted(value: &str) -> &str {
    let inner = |mark| value.strip_prefix(mark).and_then(|it| it.strip_suffix(mark));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

/// Markdown files below a directory, in order, with their paths inside it.
pub(crate) fn pages(dir: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    collect(dir, Path::new(""), 0, &mut found);
    found.sort();
    found
}

fn collect(dir: &Path, inside: &Path, depth: usize, found: &mut Vec<(PathBuf, PathBuf)>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, inside) = (entry.path(), inside.join(entry.file_name()));
        if path.is_dir() && depth < DEEPEST {
            collect(&path, &inside, depth + 1, found);
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push((inside, path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_and_bodies_kept() {
        for (text, head, body) in [
            ("plain", vec![], "plain"),
            (
                "---\ndescription: 'A b'\nargument-hint: \"[x]\"\n---\nBody\n---\nmore",
                vec![("argument-hint", "[x]"), ("description", "A b")],
                "Body\n---\nmore",
            ),
            ("---\nnever closed\n", vec![], "---\nnever closed"),
            ("\u{feff}---\r\nname: x\r\n---\r\nB", vec![("name", "x")], "B"),
            ("---\n# note: no\nlist:\n  - a: b\n---\n", vec![("list", "")], ""),
        ] {
            let page = Page::parse(text);
            let found: Vec<_> = page.head.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!((found, page.body.as_str()), (head, body), "{text:?}");
        }
        assert_eq!(Page::parse("\n# Title\nmore").description(), "Title");
    }
}
