use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use haft_bash_analysis::FileNamePattern;

/// Maximum number of matches examined one by one.
const MAX_FILES: usize = 256;
/// Maximum number of directory entries compared.
const MAX_ENTRIES: usize = 20_000;

/// Expansion of a shell glob.
#[derive(Debug, Default)]
pub(crate) struct PatternExpansion {
    /// The part before the first wildcard; all matches are below it.
    pub(crate) start: PathBuf,
    pub(crate) found: Vec<PathBuf>,
    /// Whether there may be more matches.
    pub(crate) cut: bool,
    /// The glob.
    pub(crate) shape: PathShape,
}

/// A glob for whole paths: one pattern per component.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathShape(Vec<FileNamePattern>);

impl PathShape {
    fn new(pattern: &Path) -> Self {
        Self(names(pattern).map(|name| FileNamePattern::new(&name)).collect())
    }

    /// Whether a path matches.
    pub(crate) fn is_match(&self, path: &Path) -> bool {
        let found: Vec<String> = names(path).collect();
        found.len() == self.0.len() && self.0.iter().zip(&found).all(|(pattern, name)| pattern.matches(name))
    }
}

fn names(path: &Path) -> impl Iterator<Item = String> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    })
}

/// Expands an absolute glob component by component. `*` also matches hidden files, so the result
/// includes everything a shell would find.
pub(crate) fn expand(pattern: &Path) -> PatternExpansion {
    let mut segments = pattern.components().peekable();
    let mut start = PathBuf::new();
    while let Some(segment) = segments.next_if(|it| !is_wild(it.as_os_str())) {
        start.push(segment);
    }
    let shape = PathShape::new(pattern);
    let mut out = PatternExpansion { found: vec![start.clone()], start, cut: false, shape };
    let mut budget = MAX_ENTRIES;
    for segment in segments {
        out.found = match segment {
            Component::Normal(name) if is_wild(name) => match name.to_str() {
                Some(text) => step(&out.found, text, &mut budget, &mut out.cut),
                None => {
                    out.cut = true;
                    Vec::new()
                }
            },
            other => out.found.iter().map(|path| path.join(other)).collect(),
        };
    }
    out
}

fn step(dirs: &[PathBuf], text: &str, budget: &mut usize, cut: &mut bool) -> Vec<PathBuf> {
    let pattern = FileNamePattern::new(text);
    // Before version 5.2, and with an option since, bash globs also match the parent directory. A
    // pattern matches hidden names only if it starts with a dot.
    let finds_parent = text.trim_start_matches('\\').starts_with('.') && pattern.matches("..");
    let mut found = Vec::new();
    for dir in dirs {
        if finds_parent {
            found.push(dir.join(".."));
        }
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if *budget == 0 || MAX_FILES <= found.len() {
                *cut = true;
                return found;
            }
            *budget -= 1;
            if pattern.matches(&entry.file_name().to_string_lossy()) {
                found.push(entry.path());
            }
        }
    }
    found
}

fn is_wild(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().any(|it| b"*?[\\".contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_expansion_includes_shell_matches_and_hidden_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in [".env", "a/x.txt", "b/x.txt", "b/y.md", "b/c/z.txt"] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "").unwrap();
        }
        for (pattern, start, want) in [
            (".e*", "", vec![".env"]),
            ("*/x.txt", "", vec!["a/x.txt", "b/x.txt"]),
            ("b/?.[mt]*", "b", vec!["b/y.md", "b/x.txt"]),
            ("b/*/z.txt", "b", vec!["b/a/z.txt", "b/c/z.txt"]),
            ("gone/*", "gone", vec![]),
        ] {
            let found = expand(&root.join(pattern));
            let mut got = found.found.clone();
            got.retain(|path| path.exists());
            let mut want: Vec<PathBuf> =
                want.iter().map(|it| root.join(it)).filter(|path| path.exists()).collect();
            got.sort();
            want.sort();
            assert_eq!((got, found.cut), (want, false), "{pattern}");
            assert_eq!(found.start, root.join(start), "{pattern}");
        }
        for file in 0..300 {
            std::fs::write(root.join(format!("b/f{file}")), "").unwrap();
        }
        assert!(expand(&root.join("b/f*")).cut);
    }
}
