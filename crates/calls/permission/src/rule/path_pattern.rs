use globset::{Glob, GlobBuilder};

use super::bracket_expr::Spelling;
use crate::Behavior;

/// Base of a path pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Anchor {
    /// `//x`: the file system root.
    Root,
    /// `~/x`: the home directory.
    Home,
    /// `/x`: the directory of the settings that contain the rule.
    Source,
    /// `./x` and `x`: the session's working directory.
    Cwd,
}

/// The pattern in `Read(...)` and `Edit(...)`, similar to `.gitignore`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PathPattern {
    pub(crate) anchor: Anchor,
    /// Number of levels above the base at which it starts (`../x`).
    pub(crate) up: usize,
    /// Leading components without wildcards, unescaped.
    pub(crate) literal: Vec<String>,
    /// The rest as a glob.
    pub(crate) glob: Option<String>,
    /// The components as written, for names that only look like globs.
    pub(crate) written: String,
    pub(crate) covers: PatternCoverage,
}

/// What a match of the pattern covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PatternCoverage {
    /// Reading the matched path.
    pub(crate) own_read: bool,
    /// Writing the matched path.
    pub(crate) own_write: bool,
    /// Everything below it.
    pub(crate) below: bool,
}

const MAX_LENGTH: usize = 4096;

impl PathPattern {
    /// Parses a pattern. A deny or ask rule covers the widest possible meaning, an allow rule the
    /// narrowest.
    pub(crate) fn parse(spec: &str, behavior: Behavior) -> Result<Self, &'static str> {
        let spec = spec.trim();
        if MAX_LENGTH < spec.len() || spec.contains('\0') {
            return Err("the path is longer than 4096 bytes or contains NUL");
        }
        if spec.starts_with('!') {
            return Err("`!` is not supported; write a rule of another list instead");
        }
        let (anchor, rest, free) = anchor_of(spec);
        let (up, mut segments) = fold(rest)?;
        let single = segments.iter().filter(|segment| **segment != "**").count() == 1;
        let tail = trim_tail(&mut segments) || rest.ends_with('/');
        let any_depth =
            free && single && up == 0 && segments.len() == 1 && (!tail || behavior != Behavior::Allow);
        let covers = match behavior {
            Behavior::Ask | Behavior::Deny => {
                PatternCoverage { own_read: true, own_write: true, below: true }
            }
            Behavior::Allow => PatternCoverage {
                own_read: true,
                own_write: !tail,
                below: tail || segments.last().is_none_or(|last| plain(last).is_some()),
            },
        };
        let written = segments.join("/");
        let mut literal = Vec::new();
        while !any_depth && let Some(name) = segments.first().and_then(|segment| plain(segment)) {
            literal.push(name);
            segments.remove(0);
        }
        if any_depth {
            segments.insert(0, "**");
        }
        let glob = (!segments.is_empty()).then(|| segments.join("/"));
        if let Some(glob) = &glob {
            compile(glob, Spelling::Exact)?;
        }
        Ok(Self { anchor, up, literal, glob, written, covers })
    }

    /// The name, if the pattern is a plain name at any depth.
    pub(crate) fn any_depth_name(&self) -> Option<String> {
        let name = self.glob.as_ref()?.strip_prefix("**/")?;
        plain(name).filter(|_| self.literal.is_empty() && !name.contains('/'))
    }
}

/// Compiles the glob for names of this spelling; `*` does not match `/`.
pub(crate) fn compile(glob: &str, spelling: Spelling) -> Result<Glob, &'static str> {
    let glob = super::bracket_expr::respelled(glob, spelling)
        .ok_or("a bracket expression of the path pattern is not known")?;
    let built =
        GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).empty_alternates(true).build();
    built.map_err(|_| "the path pattern is broken (a bracket or brace is not closed?)")
}

/// Escapes a path so that it matches only itself.
pub(crate) fn escape(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for it in path.chars() {
        if matches!(it, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            out.push('\\');
        }
        out.push(it);
    }
    out
}

/// The base, the rest, and whether a lone name matches at any depth.
fn anchor_of(spec: &str) -> (Anchor, &str, bool) {
    if let Some(rest) = spec.strip_prefix("//") {
        (Anchor::Root, rest, false)
    } else if let Some(rest) = spec.strip_prefix('/') {
        (Anchor::Source, rest, false)
    } else if spec == "~" {
        (Anchor::Home, "", false)
    } else if let Some(rest) = spec.strip_prefix("~/") {
        (Anchor::Home, rest, false)
    } else {
        (Anchor::Cwd, spec, !spec.starts_with("./") && spec != "." && spec != "..")
    }
}

/// Folds `.` and `..`; counts levels above the base.
fn fold(text: &str) -> Result<(usize, Vec<&str>), &'static str> {
    let mut up = 0;
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match segment {
            "" | "." => (),
            ".." => match segments.pop() {
                None => up += 1,
                Some(last) if plain(last).is_some() => (),
                Some(_) => return Err("`..` cannot follow a wildcard"),
            },
            _ => segments.push(segment),
        }
    }
    Ok((up, segments))
}

/// Removes a trailing `/**`; returns whether there was one.
fn trim_tail(segments: &mut Vec<&str>) -> bool {
    let before = segments.len();
    while segments.last() == Some(&"**") {
        segments.pop();
    }
    segments.len() < before
}

/// A component without its escapes, if it has no wildcard.
fn plain(segment: &str) -> Option<String> {
    let mut out = String::with_capacity(segment.len());
    let mut characters = segment.chars();
    while let Some(it) = characters.next() {
        match it {
            '*' | '?' | '[' | '{' => return None,
            '\\' => out.push(characters.next()?),
            _ => out.push(it),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spec: &str, behavior: Behavior, want: &str) {
        let shown = match PathPattern::parse(spec, behavior) {
            Err(problem) => problem.to_owned(),
            Ok(it) => {
                let covers = [(it.covers.own_read, 'r'), (it.covers.own_write, 'w'), (it.covers.below, 'b')];
                let covers: String = covers.iter().filter(|it| it.0).map(|it| it.1).collect();
                let glob = it.glob.as_deref().unwrap_or("-");
                format!("{:?}^{} {} {glob} {covers}", it.anchor, it.up, it.literal.join("/"))
            }
        };
        assert_eq!(shown, want, "{spec} {behavior:?}");
    }

    #[test]
    fn path_pattern_parses_anchor_depth_and_coverage() {
        use Behavior::{Allow, Deny};
        check(".env", Deny, "Cwd^0  **/.env rwb");
        check(".env", Allow, "Cwd^0  **/.env rwb");
        check("./.env", Deny, "Cwd^0 .env - rwb");
        check("src/x", Allow, "Cwd^0 src/x - rwb");
        check("//etc/passwd", Deny, "Root^0 etc/passwd - rwb");
        check("//", Deny, "Root^0  - rwb");
        check("//**/.env", Deny, "Root^0  **/.env rwb");
        check("~", Deny, "Home^0  - rwb");
        check("~/.ssh/**", Deny, "Home^0 .ssh - rwb");
        check("~/.ssh/**", Allow, "Home^0 .ssh - rb");
        check("/docs/*.md", Allow, "Source^0 docs *.md rw");
        check("/docs/*.md", Deny, "Source^0 docs *.md rwb");
        check("secrets/**", Allow, "Cwd^0 secrets - rb");
        check("secrets/**", Deny, "Cwd^0  **/secrets rwb");
        check("secrets/", Deny, "Cwd^0  **/secrets rwb");
        check("secrets/", Allow, "Cwd^0 secrets - rb");
        check("./secrets/**", Deny, "Cwd^0 secrets - rwb");
        check("a/b/**", Deny, "Cwd^0 a/b - rwb");
        check("**", Allow, "Cwd^0  - rb");
        check("**/*.pem", Deny, "Cwd^0  **/*.pem rwb");
        check("*.pem", Deny, "Cwd^0  **/*.pem rwb");
        check("../x/**", Deny, "Cwd^1 x - rwb");
        check("a/../../b", Deny, "Cwd^1 b - rwb");
        check("a\\*b/c", Allow, "Cwd^0 a*b/c - rwb");
        check("a/[0-9]/b", Allow, "Cwd^0 a [0-9]/b rwb");
        check("!x", Deny, "`!` is not supported; write a rule of another list instead");
        check("*/../x", Deny, "`..` cannot follow a wildcard");
        check("a/[x", Deny, "the path pattern is broken (a bracket or brace is not closed?)");
    }

    #[test]
    fn escaped_paths_match_themselves_only() {
        for path in ["a b/c", "we[i]rd/{x,y}/*.txt", "back\\slash?"] {
            let pattern = PathPattern::parse(&format!("./{}", escape(path)), Behavior::Allow).unwrap();
            assert_eq!((pattern.literal.join("/"), pattern.glob), (path.to_owned(), None));
        }
    }
}
