//! Globs over files: `paths` of skills and rules.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// A set of globs.
#[derive(Clone, Debug)]
pub(crate) struct PathGlobs {
    globs: Vec<GlobMatcher>,
}

impl PathGlobs {
    /// Compiles globs. Returns the invalid ones, which match nothing.
    pub(crate) fn new(patterns: &[String]) -> (Self, Vec<String>) {
        let (mut globs, mut wrong) = (Vec::new(), Vec::new());
        for pattern in patterns {
            match GlobBuilder::new(&whole(pattern)).literal_separator(true).build() {
                Ok(glob) => globs.push(glob.compile_matcher()),
                Err(_) => wrong.push(pattern.clone()),
            }
        }
        (Self { globs }, wrong)
    }

    /// Whether a path matches, relative to the base directory of the globs.
    pub(crate) fn matches(&self, inside: &Path) -> bool {
        self.globs.iter().any(|it| it.is_match(inside))
    }
}

/// Completes a glob: without a slash it matches names in any directory; with a final slash it matches
/// everything below.
fn whole(pattern: &str) -> String {
    let pattern = pattern.trim().trim_start_matches("./");
    let pattern = if pattern.ends_with('/') { format!("{pattern}**") } else { pattern.to_owned() };
    match pattern.strip_prefix('/') {
        Some(rooted) => rooted.to_owned(),
        None if !pattern.contains('/') => format!("**/{pattern}"),
        None => pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_about_paths_from_the_root() {
        for (pattern, path, want) in [
            ("*.rs", "src/a/b.rs", true),
            ("src/**/*.{ts,tsx}", "src/x/y.tsx", true),
            ("src/*.ts", "src/x/y.ts", false),
            ("docs/", "docs/a/b.md", true),
            ("/top.md", "sub/top.md", false),
            ("/top.md", "top.md", true),
            ("./lib/**", "lib/a", true),
        ] {
            let (globs, wrong) = PathGlobs::new(&[pattern.to_owned()]);
            assert!(wrong.is_empty());
            assert_eq!(globs.matches(Path::new(path)), want, "{pattern} {path}");
        }
        assert_eq!(PathGlobs::new(&[String::from("a[")]).1, ["a["]);
    }
}
