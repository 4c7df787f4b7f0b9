use std::{
    fmt,
    path::{Path, PathBuf},
};

use haft_paths::{PathError, expand, lexical};

use super::pattern::{GlobPattern, PatternPart};

/// Where a glob pattern looks, and for what.
///
/// The names before the first wildcard decide where the walk begins, so
/// `apps/**/tsconfig.json` never looks outside of `apps`, and a pattern that
/// leads elsewhere (`../**`, `~/.ssh/*`, `/etc/*`) says so before it runs.
#[derive(Clone, Debug)]
pub struct GlobPlan {
    searches: Vec<GlobSearch>,
}

/// The patterns that share a place to begin at.
#[derive(Clone, Debug)]
pub(crate) struct GlobSearch {
    pub(crate) root: PathBuf,
    pub(crate) patterns: Vec<GlobPattern>,
}

/// Why a text is not a usable pattern.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GlobProblem {
    /// Not a path.
    Path(PathError),
    /// The glob itself is wrong.
    Syntax(String),
    /// `..` where it cannot be followed.
    UpAfterWildcard,
    /// Alternatives that lead to too many places.
    TooManyPlaces,
    /// More directories than any tree has.
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

/// As many alternatives with a slash or dots in them are followed.
const MAX_PLACES: usize = 64;

impl GlobPlan {
    /// Reads a pattern. `base` is absolute: where relative patterns begin.
    pub fn parse(pattern: &str, base: &Path, home: Option<&Path>) -> Result<Self, GlobProblem> {
        // The same checks as for any path: empty, NUL, too long.
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

    /// The directories the walks begin at, absolute.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.searches.iter().map(|search| search.root.as_path())
    }

    pub(crate) fn search(&self, root: &Path) -> Option<&GlobSearch> {
        self.searches.iter().find(|search| search.root == root)
    }
}

/// Where one alternative begins, and what it asks for below.
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

/// Writes out the braces that hold a slash or `..`, because those decide where
/// to look. The others stay: they match within one name, and written out, two
/// dozen of them would be millions of patterns.
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

/// The first outermost `{…}` with a slash or a choice of `..` in it.
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

/// The parts of a group between its own commas.
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
    fn the_names_before_a_wildcard_decide_where_to_begin() {
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
    fn unusable_patterns_are_errors() {
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
    fn patterns_match_as_everybody_expects() {
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
