use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use globset::GlobMatcher;

use crate::rule::compile;

/// As many files as are looked at one by one.
const MAX_FILES: usize = 256;
/// As many directory entries as are compared.
const MAX_ENTRIES: usize = 20_000;

/// What a pattern of the shell finds.
#[derive(Debug, Default)]
pub(crate) struct Expansion {
    /// The part without wildcards: everything found lies below.
    pub(crate) start: PathBuf,
    pub(crate) found: Vec<PathBuf>,
    /// Whether more could have been found.
    pub(crate) cut: bool,
    /// The pattern itself, if it can be compared.
    pub(crate) shape: Option<GlobMatcher>,
}

/// Finds the files of an absolute pattern, one segment at a time. Hidden files
/// are found by every `*`, so this never finds less than a shell.
pub(crate) fn expand(pattern: &Path) -> Expansion {
    let mut segments = pattern.components().peekable();
    let mut start = PathBuf::new();
    while let Some(segment) = segments.next_if(|it| !is_wild(it.as_os_str())) {
        start.push(segment);
    }
    let shape = pattern.to_str().and_then(|text| compile(text).ok()).map(|glob| glob.compile_matcher());
    let mut out = Expansion { found: vec![start.clone()], start, cut: false, shape };
    let mut budget = MAX_ENTRIES;
    for segment in segments {
        out.found = match segment {
            Component::Normal(name) if is_wild(name) => match matcher(name) {
                Some(matcher) => step(&out.found, &matcher, &mut budget, &mut out.cut),
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

fn step(dirs: &[PathBuf], matcher: &GlobMatcher, budget: &mut usize, cut: &mut bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in dirs {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if *budget == 0 || MAX_FILES <= found.len() {
                *cut = true;
                return found;
            }
            *budget -= 1;
            if matcher.is_match(entry.file_name()) {
                found.push(entry.path());
            }
        }
    }
    found
}

fn matcher(name: &OsStr) -> Option<GlobMatcher> {
    Some(compile(name.to_str()?).ok()?.compile_matcher())
}

fn is_wild(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().any(|it| b"*?[".contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_find_what_a_shell_would_find_and_hidden_files() {
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
