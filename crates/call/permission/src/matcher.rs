use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    path::{Path, PathBuf},
};

use globset::{Candidate, GlobSet, GlobSetBuilder};
use haft_paths::real;

use crate::{
    Behavior,
    places::{Anchors, Spot},
    rule::{Anchor, Covers, PathPattern, Rule, RuleSubject, compile},
};

/// Whether a path is read or written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PathUse {
    Read,
    Write,
}

/// Path rules of one list, ready to be compared with absolute, folded paths.
///
/// A rule without wildcards is a key in a map, found by walking up from the
/// path; the others are one set of globs per directory they start in. So the
/// cost hardly depends on the number of rules.
#[derive(Debug, Default)]
pub(crate) struct PathMatcher {
    /// A rule about every path.
    bare: Option<usize>,
    /// A rule that could have been about any path.
    broken: Option<usize>,
    exact: HashMap<OsString, Vec<MatcherEntry>>,
    globs: Vec<GlobGroup>,
    /// Paths that rules name outright, to recognise other names of the same
    /// file.
    named: Vec<(PathBuf, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct MatcherEntry {
    rule: usize,
    covers: Covers,
}

#[derive(Debug)]
struct GlobGroup {
    base: PathBuf,
    set: GlobSet,
    entries: Vec<MatcherEntry>,
}

/// How a comparison came out at one level of a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Level {
    Own(PathUse),
    Above,
}

impl PathMatcher {
    /// Compiles the path rules among `rules`, given with their numbers.
    pub(crate) fn new<'a>(rules: impl Iterator<Item = (usize, &'a Rule)>, anchors: &Anchors) -> Self {
        let mut matcher = Self::default();
        let mut groups: BTreeMap<PathBuf, (GlobSetBuilder, Vec<MatcherEntry>)> = BTreeMap::new();
        for (number, rule) in rules {
            match &rule.about {
                RuleSubject::Everything => matcher.bare = first(matcher.bare, Some(number)),
                RuleSubject::Broken(_) => matcher.broken = first(matcher.broken, Some(number)),
                RuleSubject::Path(pattern) => matcher.add(number, rule, pattern, anchors, &mut groups),
                RuleSubject::Command(_)
                | RuleSubject::Domain(_)
                | RuleSubject::Named(_)
                | RuleSubject::Input => (),
            }
        }
        matcher.globs = groups
            .into_iter()
            .filter_map(|(base, (set, entries))| Some(GlobGroup { base, set: set.build().ok()?, entries }))
            .collect();
        matcher
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bare.is_none() && self.broken.is_none() && self.exact.is_empty() && self.globs.is_empty()
    }

    /// The first rule that covers this use of the path.
    pub(crate) fn find(&self, path: &Path, using: PathUse) -> Option<usize> {
        first(self.bare, self.find_path(path, using))
    }

    /// The same without rules about every path: those of the other family bind
    /// the tools they name, not every use of a path.
    pub(crate) fn find_path(&self, path: &Path, using: PathUse) -> Option<usize> {
        let mut best = self.broken;
        for (at, level) in levels(path, using) {
            best = first(best, self.find_exact(at, level));
            best = first(best, self.find_glob(at, level));
        }
        best
    }

    /// The first rule that covers reading the path itself, its parents aside.
    pub(crate) fn find_leaf(&self, path: &Path) -> Option<usize> {
        let level = Level::Own(PathUse::Read);
        first(self.find_exact(path, level), self.find_glob(path, level))
    }

    /// The first rule that covers everything below a directory.
    pub(crate) fn find_below(&self, dir: &Path) -> Option<usize> {
        let mut best = first(self.bare, self.broken);
        for at in dir.ancestors() {
            best = first(best, self.find_exact(at, Level::Above));
            best = first(best, self.find_glob(at, Level::Above));
        }
        best
    }

    /// A rule that could be about something below a directory. Patterns are not
    /// looked into: one that starts on the way counts.
    pub(crate) fn may_match_below(&self, dir: &Path) -> Option<usize> {
        let exact = self.exact.iter().filter(|(path, _)| Path::new(path).starts_with(dir));
        let exact = exact.flat_map(|(_, entries)| entries).map(|entry| entry.rule).min();
        let globs = self.globs.iter().filter(|it| it.base.starts_with(dir) || dir.starts_with(&it.base));
        first(exact, globs.flat_map(|group| &group.entries).map(|entry| entry.rule).min())
    }

    /// The rule that keeps a whole directory, or one file, from this use; rules
    /// about every path and about the directories above aside.
    pub(crate) fn fences(&self, path: &Path, using: PathUse) -> Option<usize> {
        let both = |level| first(self.find_exact(path, level), self.find_glob(path, level));
        first(both(Level::Own(using)), both(Level::Above))
    }

    /// Where patterns start, each with a rule that starts there.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.globs.iter().filter_map(|it| Some((it.base.as_path(), it.entries.first()?.rule)))
    }

    /// Paths that rules name outright, patterns aside.
    pub(crate) fn exact(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.exact.iter().filter_map(|(path, entries)| Some((Path::new(path), entries.first()?.rule)))
    }

    /// Paths that rules name outright.
    pub(crate) fn named(&self) -> &[(PathBuf, usize)] {
        &self.named
    }

    fn find_exact(&self, path: &Path, level: Level) -> Option<usize> {
        if self.exact.is_empty() {
            return None;
        }
        let entries = self.exact.get(path.as_os_str())?;
        entries.iter().filter(|entry| entry.covers(level)).map(|entry| entry.rule).min()
    }

    fn find_glob(&self, path: &Path, level: Level) -> Option<usize> {
        let mut best = None;
        for group in &self.globs {
            let Ok(below) = path.strip_prefix(&group.base) else { continue };
            if below.as_os_str().is_empty() {
                continue;
            }
            let hits = group.set.matches_candidate(&Candidate::new(below));
            let rules = hits.into_iter().filter_map(|hit| group.entries.get(hit));
            best = first(best, rules.filter(|it| it.covers(level)).map(|it| it.rule).min());
        }
        best
    }

    fn add(
        &mut self,
        number: usize,
        rule: &Rule,
        pattern: &PathPattern,
        anchors: &Anchors,
        groups: &mut BTreeMap<PathBuf, (GlobSetBuilder, Vec<MatcherEntry>)>,
    ) {
        let entry = MatcherEntry { rule: number, covers: pattern.covers };
        let forbids = rule.entry.behavior != Behavior::Allow;
        for base in bases(rule, pattern, anchors) {
            let start: PathBuf = base.iter().chain(pattern.literal.iter().map(AsRef::as_ref)).collect();
            let mut starts = vec![start];
            // A deny names a thing, not a spelling: it also holds where the
            // named directory leads. An allow holds only where it says.
            if forbids
                && let Ok(followed) = real(&starts[0])
                && !starts.contains(&followed)
            {
                starts.push(followed);
            }
            for start in starts {
                match pattern.glob.as_ref().and_then(|glob| compile(glob).ok()) {
                    None => {
                        self.named.push((start.clone(), number));
                        self.exact.entry(start.into_os_string()).or_default().push(entry);
                    }
                    Some(glob) => {
                        let name = pattern.any_depth_name();
                        self.named.extend(name.map(|name| (start.join(name), number)));
                        let group =
                            groups.entry(start).or_insert_with(|| (GlobSetBuilder::new(), Vec::new()));
                        group.0.add(glob);
                        group.1.push(entry);
                    }
                }
            }
            // Names such as `[id].tsx` look like a pattern and are none.
            if forbids && pattern.glob.is_some() {
                let written = base.join(&pattern.written);
                self.exact.entry(written.into_os_string()).or_default().push(entry);
            }
        }
    }
}

impl MatcherEntry {
    fn covers(&self, level: Level) -> bool {
        match level {
            Level::Own(PathUse::Read) => self.covers.own_read,
            Level::Own(PathUse::Write) => self.covers.own_write,
            Level::Above => self.covers.below,
        }
    }
}

/// Where a pattern starts, in both forms. A rule whose anchor does not exist
/// (no home) starts nowhere.
fn bases(rule: &Rule, pattern: &PathPattern, anchors: &Anchors) -> Vec<PathBuf> {
    let spot = match pattern.anchor {
        Anchor::Root => return vec![PathBuf::from("/")],
        Anchor::Home => anchors.home.clone(),
        Anchor::Cwd => Some(anchors.cwd.clone()),
        Anchor::Source => match &rule.entry.origin.root {
            Some(root) => Some(Spot::new(root)),
            None => Some(anchors.cwd.clone()),
        },
    };
    let Some(spot) = spot else { return Vec::new() };
    spot.forms().map(|form| form.ancestors().nth(pattern.up).unwrap_or(Path::new("/")).to_owned()).collect()
}

/// The path and everything above it.
fn levels(path: &Path, using: PathUse) -> impl Iterator<Item = (&Path, Level)> {
    let own = std::iter::once((path, Level::Own(using)));
    own.chain(path.ancestors().skip(1).map(|at| (at, Level::Above)))
}

fn first(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
