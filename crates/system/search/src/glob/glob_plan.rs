use std::{
    fmt,
    path::{Path, PathBuf},
};

use haft_paths::{PathError, expand, lexical};

use super::pattern::{GlobPattern, PatternPart};

/// A parsed glob with the directories it starts from.
///
/// The components before the first wildcard determine where the walk starts: `apps/**/tsconfig.json`
/// never reads outside `apps`, and a pattern that leaves the base directory (`../**`, `~/.ssh/*`,
/// `/etc/*`) is recognised before it runs.
#[derive(Clone, Debug)]
pub struct GlobPlan {
    searches: Vec<GlobSearch>,
}

/// Patterns with the same start directory.
#[derive(Clone, Debug)]
pub(crate) struct GlobSearch {
    pub(crate) root: PathBuf,
    pub(crate) patterns: Vec<GlobPattern>,
}

/// Why a text is not a usable glob.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GlobProblem {
    /// It is not a valid path.
    Path(PathError),
    /// Invalid glob syntax; the reason.
    Syntax(String),
    /// `..` after a wildcard.
    UpAfterWildcard,
    /// Alternatives with too many start directories.
    TooManyPlaces,
    /// Too many components.
    TooDeep,
}

impl fmt::Display for GlobProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(problem) => problem.fmt(f),
            Self::Syntax(message) => f.write_str(message),
            Self::UpAfterWildcard => {
                f.write_str("`..` cannot follow a wildcard; give that directory as `path`")
            }
            Self::TooManyPlaces => write!(
                f,
                "the braces lead to more than {MAX_PLACES} places; use fewer alternatives with `/` in them"
            ),
            Self::TooDeep => f.write_str("the pattern has too many directories in it"),
        }
    }
}

impl std::error::Error for GlobProblem {}

/// Maximum number of alternatives that contain a slash or `..`.
const MAX_PLACES: usize = 64;

impl GlobPlan {
    /// Parses a glob. Relative patterns start at `base`, which must be absolute.
    pub fn parse(pattern: &str, base: &Path, home: Option<&Path>) -> Result<Self, GlobProblem> {
        // The usual path checks: empty, NUL, too long.
        expand(Path::new(pattern), base, home).map_err(GlobProblem::Path)?;
        let mut searches: Vec<GlobSearch> = Vec::new();
        for alternative in alternatives(pattern)? {
            let (root, pattern) = place(&alternative, base, home)?;
            match searches.iter_mut().find(|search| search.root == root) {
                Some(search) => search.patterns.push(pattern),
                None => searches.push(GlobSearch { root, patterns: vec![pattern] }),
            }
        }
        Ok(Self { searches })
    }

    /// The absolute directories where walks start.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.searches.iter().map(|search| search.root.as_path())
    }

    pub(crate) fn search(&self, root: &Path) -> Option<&GlobSearch> {
        self.searches.iter().find(|search| search.root == root)
    }
}

/// Start directory and remaining pattern of one alternative.
fn place(text: &str, base: &Path, home: Option<&Path>) -> Result<(PathBuf, GlobPattern), GlobProblem> {
    let (mut root, rest) = match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => (home.to_owned(), rest),
        _ if text.starts_with('/') => (PathBuf::from("/"), text),
        _ => (base.to_owned(), text),
    };
    let anchored = rest.contains('/') || rest.len() < text.len();
    let names: Vec<&str> = rest.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let mut parts = Vec::new();
    if !anchored {
        parts.push(PatternPart::Deep);
    }
    for (index, name) in names.iter().enumerate() {
        let is_last = index + 1 == names.len() && !rest.ends_with('/');
        match (PatternPart::parse(name)?, parts.is_empty()) {
            (PatternPart::Name(name), true) if name == b".." => {
                root.pop();
            }
            (PatternPart::Name(name), false) if name == b".." => return Err(GlobProblem::UpAfterWildcard),
            (PatternPart::Name(name), true) if !is_last => root.push(crate::fs::as_path(&name)),
            (part, _) => parts.push(part),
        }
    }
    Ok((lexical(&root), GlobPattern::new(parts)?))
}

/// Expands braces that contain a slash or `..`, because they determine the start directories. Others
/// stay: they match within one component, and expanding two dozen of them would give millions of
/// patterns.
fn alternatives(pattern: &str) -> Result<Vec<String>, GlobProblem> {
    let mut done = Vec::new();
    let mut todo = vec![pattern.to_owned()];
    while let Some(text) = todo.pop() {
        match first_telling_group(&text) {
            None => done.push(text),
            Some(group) => {
                let (before, after) = (&text[..group.start], &text[group.end..]);
                let choices = choices(&text[group.start + 1..group.end - 1]);
                todo.extend(choices.iter().rev().map(|choice| format!("{before}{choice}{after}")));
            }
        }
        if MAX_PLACES < done.len() + todo.len() {
            return Err(GlobProblem::TooManyPlaces);
        }
    }
    Ok(done)
}

/// The first outermost `{…}` that contains a slash or a `..` alternative.
fn first_telling_group(text: &str) -> Option<std::ops::Range<usize>> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut in_class = false;
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => {
                chars.next();
            }
            '[' if !in_class => in_class = text[at..].contains(']'),
            ']' => in_class = false,
            '{' if !in_class => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            '}' if !in_class && 0 < depth => {
                depth -= 1;
                let inside = &text[start + 1..at];
                if depth == 0 && (inside.contains('/') || choices(inside).iter().any(|it| it == "..")) {
                    return Some(start..at + 1);
                }
            }
            _ => (),
        }
    }
    None
}

/// Splits a brace group at its top-level commas.
fn choices(inside: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut depth = 0_usize;
    let mut escaped = false;
    for char in inside.chars() {
        match char {
            ',' if depth == 0 && !escaped => {
                out.push(String::new());
                continue;
            }
            '{' if !escaped => depth += 1,
            '}' if !escaped => depth = depth.saturating_sub(1),
            _ => (),
        }
        escaped = char == '\\' && !escaped;
        if let Some(last) = out.last_mut() {
            last.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(pattern: &str) -> Vec<String> {
        let plan = GlobPlan::parse(pattern, Path::new("/ws/p"), Some(Path::new("/home/u"))).unwrap();
        plan.roots().map(|root| root.display().to_string()).collect()
    }

    #[test]
    fn glob_plan_starts_at_components_before_the_wildcard() {
        for (pattern, want) in [
            ("*.rs", "/ws/p"),
            ("**/*.rs", "/ws/p"),
            ("src/**/*.rs", "/ws/p/src"),
            ("./src/a/*.rs", "/ws/p/src/a"),
            ("src/main.rs", "/ws/p/src"),
            ("main.rs", "/ws/p"),
            ("src/", "/ws/p/src"),
            ("../**", "/ws"),
            ("../../../../x/*", "/x"),
            ("a/../b/*", "/ws/p/b"),
            ("~/.ssh/*", "/home/u/.ssh"),
            ("~x/*", "/ws/p/~x"),
            ("/etc/*", "/etc"),
            ("/etc/passwd", "/etc"),
            (r"we\[ird\]/*", "/ws/p/we[ird]"),
            ("{src,lib}/*.rs", "/ws/p"),
            ("{src/a,../o}/*", "/ws/p/src/a,/ws/o"),
            ("{..,src}/*", "/ws,/ws/p/src"),
            ("{a,{../x,b}}/*", "/ws/p/a,/ws/x,/ws/p/b"),
            ("a{/b,/c}/*", "/ws/p/a/b,/ws/p/a/c"),
        ] {
            assert_eq!(roots(pattern).join(","), want, "{pattern}");
        }
    }

    #[test]
    fn glob_plan_rejects_unusable_patterns() {
        for (pattern, want) in [
            ("", "the path is empty"),
            ("a\0b", "NUL"),
            ("*/../x", "cannot follow a wildcard"),
            ("[a", "unclosed character class"),
            ("{a", "unclosed alternate"),
            (&"a/*/".repeat(80), "too many directories"),
            (&"{a/b,c/d}".repeat(12), "more than 64 places"),
        ] {
            let error = GlobPlan::parse(pattern, Path::new("/ws"), None).unwrap_err().to_string();
            assert!(error.contains(want), "{pattern}: {error}");
        }
    }

    #[test]
    fn glob_pattern_matches_expected_paths() {
        let check = |pattern: &str, path: &str| {
            let plan = GlobPlan::parse(pattern, Path::new("/w"), None).unwrap();
            plan.searches.iter().any(|search| {
                let Ok(rel) = Path::new("/w").join(path).strip_prefix(&search.root).map(Path::to_owned)
                else {
                    return false;
                };
                search.patterns.iter().any(|pattern| {
                    let mut names: Vec<&str> = rel.to_str().unwrap().split('/').collect();
                    let file = names.pop().unwrap();
                    let places = names
                        .iter()
                        .fold(pattern.start(), |places, name| pattern.enter(places, name.as_bytes()));
                    pattern.takes(places, file.as_bytes())
                })
            })
        };
        for (pattern, hits, misses) in [
            ("*.rs", "a.rs d/a.rs d/e/.a.rs", "a.rs2 d.rs/x"),
            ("./*.rs", "a.rs", "d/a.rs"),
            ("**/*.rs", "a.rs d/a.rs", "a.py"),
            ("src/**", "src/a src/d/a", "a d/src/a"),
            ("src/**/x", "src/x src/a/x src/a/b/x", "x src/x/y"),
            ("**/src/*/x", "src/a/x b/src/a/x", "src/x src/a/b/x"),
            ("a?c.{ts,tsx}", "abc.ts d/axc.tsx", "ac.ts abc.js"),
            ("[!a]*.txt", "b.txt", "a.txt"),
            ("{a,b}/c", "a/c b/c", "c d/c"),
            (r"\*.rs", "*.rs", "a.rs"),
            ("Makefile", "Makefile d/Makefile", "makefile"),
            ("a**b", "ab axxb", "a/b"),
        ] {
            for path in hits.split(' ') {
                assert!(check(pattern, path), "{pattern} takes {path}");
            }
            for path in misses.split(' ') {
                assert!(!check(pattern, path), "{pattern} leaves {path}");
            }
        }
    }
}
