use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    path::{Path, PathBuf},
};

use globset::{Candidate, GlobSet, GlobSetBuilder};
use haft_paths::real;

use crate::{
    Behavior,
    policy_dirs::{PolicyDir, ResolvedDirs},
    rule::{Anchor, PathPattern, PatternCoverage, Rule, RuleSubject, Spelling, compile},
    spelling::{fold_path, is_loosely_spelled},
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
    exact: PathTable,
    /// The rules that forbid something, for names folded by
    /// [`crate::spelling`]: they count where a directory takes several spellings
    /// for the same name.
    folded: Option<PathTable>,
    /// Paths that rules name outright, to recognise other names of the same
    /// file.
    named: Vec<(PathBuf, usize)>,
}

/// Path rules compiled for names of one spelling.
#[derive(Debug, Default)]
struct PathTable {
    exact: HashMap<OsString, Vec<MatcherEntry>>,
    globs: Vec<GlobGroup>,
}

#[derive(Clone, Copy, Debug)]
struct MatcherEntry {
    rule: usize,
    covers: PatternCoverage,
}

#[derive(Debug)]
struct GlobGroup {
    base: PathBuf,
    /// What stands before a path below `base` when it is compared.
    prefix: PathBuf,
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
    pub(crate) fn new<'a>(rules: impl Iterator<Item = (usize, &'a Rule)>, anchors: &ResolvedDirs) -> Self {
        let mut matcher = Self::default();
        let mut exact = TableBuilder::new(Spelling::Exact);
        let mut folded = TableBuilder::new(Spelling::Folded);
        for (number, rule) in rules {
            match &rule.about {
                RuleSubject::Everything => matcher.bare = first(matcher.bare, Some(number)),
                RuleSubject::Broken(_) => matcher.broken = first(matcher.broken, Some(number)),
                RuleSubject::Path(pattern) => {
                    let entry = MatcherEntry { rule: number, covers: pattern.covers };
                    for start in starts(rule, pattern, anchors) {
                        matcher.named.extend(start.named.iter().map(|name| (name.clone(), number)));
                        exact.add(&start, entry);
                        if rule.entry.behavior != Behavior::Allow {
                            folded.add(&start, entry);
                        }
                    }
                }
                RuleSubject::Command(_)
                | RuleSubject::Domain(_)
                | RuleSubject::Named(_)
                | RuleSubject::Input => (),
            }
        }
        matcher.exact = exact.build();
        matcher.folded = Some(folded.build()).filter(|it| !it.is_empty());
        matcher
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bare.is_none() && self.broken.is_none() && self.exact.is_empty()
    }

    /// The first rule that covers this use of the path.
    pub(crate) fn find(&self, path: &Path, using: PathUse) -> Option<usize> {
        first(self.bare, self.find_path(path, using))
    }

    /// The same without rules about every path: those of the other family bind
    /// the tools they name, not every use of a path.
    pub(crate) fn find_path(&self, path: &Path, using: PathUse) -> Option<usize> {
        let found = self.spelled(path, |table, path| {
            levels(path, using).filter_map(|(at, level)| table.at(at, level)).min()
        });
        first(self.broken, found)
    }

    /// The first rule that covers reading the path itself, its parents aside.
    pub(crate) fn find_leaf(&self, path: &Path) -> Option<usize> {
        self.spelled(path, |table, path| table.at(path, Level::Own(PathUse::Read)))
    }

    /// The first rule that covers everything below a directory.
    pub(crate) fn find_below(&self, dir: &Path) -> Option<usize> {
        let found =
            self.spelled(dir, |table, dir| dir.ancestors().filter_map(|at| table.at(at, Level::Above)).min());
        first(first(self.bare, self.broken), found)
    }

    /// A rule that could be about something below a directory. Patterns are not
    /// looked into: one that starts on the way counts.
    pub(crate) fn may_match_below(&self, dir: &Path) -> Option<usize> {
        self.spelled(dir, PathTable::may_match_below)
    }

    /// The rule that keeps a whole directory, or one file, from this use; rules
    /// about every path and about the directories above aside.
    pub(crate) fn fences(&self, path: &Path, using: PathUse) -> Option<usize> {
        self.spelled(path, |table, path| {
            first(table.at(path, Level::Own(using)), table.at(path, Level::Above))
        })
    }

    /// Where patterns start, each with a rule that starts there.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.exact.globs.iter().filter_map(|it| Some((it.base.as_path(), it.entries.first()?.rule)))
    }

    /// Paths that rules name outright, patterns aside.
    pub(crate) fn exact(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.exact.exact.iter().filter_map(|(path, entries)| Some((Path::new(path), entries.first()?.rule)))
    }

    /// Paths that rules name outright.
    pub(crate) fn named(&self) -> &[(PathBuf, usize)] {
        &self.named
    }

    /// Compares a path as it is spelled, and folded where its directory finds it
    /// under other spellings as well.
    fn spelled(&self, path: &Path, find: impl Fn(&PathTable, &Path) -> Option<usize>) -> Option<usize> {
        let exactly = find(&self.exact, path);
        if exactly.is_some() {
            return exactly;
        }
        find(self.folded.as_ref()?, &fold_path(path)).filter(|_| is_loosely_spelled(path))
    }
}

impl PathTable {
    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.globs.is_empty()
    }

    /// The first rule that covers a path at this level.
    fn at(&self, path: &Path, level: Level) -> Option<usize> {
        first(self.find_exact(path, level), self.find_glob(path, level))
    }

    fn may_match_below(&self, dir: &Path) -> Option<usize> {
        let exact = self.exact.iter().filter(|(path, _)| Path::new(path).starts_with(dir));
        let exact = exact.flat_map(|(_, entries)| entries).map(|entry| entry.rule).min();
        let globs = self.globs.iter().filter(|it| it.base.starts_with(dir) || dir.starts_with(&it.base));
        first(exact, globs.flat_map(|group| &group.entries).map(|entry| entry.rule).min())
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
            let hits = if group.prefix.as_os_str().is_empty() {
                group.set.matches_candidate(&Candidate::new(below))
            } else {
                group.set.matches_candidate(&Candidate::new(&group.prefix.join(below)))
            };
            let rules = hits.into_iter().filter_map(|hit| group.entries.get(hit));
            best = first(best, rules.filter(|it| it.covers(level)).map(|it| it.rule).min());
        }
        best
    }
}

/// A directory or file that a pattern starts at.
struct PatternStart<'a> {
    path: PathBuf,
    prefix: PathBuf,
    glob: Option<&'a str>,
    /// The path that is named outright.
    named: Option<PathBuf>,
}

/// Where a pattern starts. A deny names a thing, not a spelling: it also holds
/// where the named directory leads, and in every checkout of the project. An
/// allow holds only where it says.
fn starts<'a>(rule: &Rule, pattern: &'a PathPattern, anchors: &ResolvedDirs) -> Vec<PatternStart<'a>> {
    let glob = pattern.glob.as_deref();
    let forbids = rule.entry.behavior != Behavior::Allow;
    let named = |path: &Path| match glob {
        None => Some(path.to_owned()),
        Some(_) => pattern.any_depth_name().map(|name| path.join(name)),
    };
    let mut starts: Vec<PatternStart<'a>> = Vec::new();
    for base in bases(rule, pattern, anchors) {
        let start: PathBuf = base.iter().chain(pattern.literal.iter().map(AsRef::as_ref)).collect();
        let followed = real(&start).ok().filter(|it| forbids && *it != start);
        for path in std::iter::once(start).chain(followed) {
            starts.push(PatternStart { named: named(&path), path, prefix: PathBuf::new(), glob });
        }
        // Names such as `[id].tsx` look like a pattern and are none.
        if forbids && glob.is_some() {
            let path = base.join(&pattern.written);
            starts.push(PatternStart { path, prefix: PathBuf::new(), glob: None, named: None });
        }
    }
    if forbids {
        let twins = starts.iter().flat_map(|it| {
            let twins = anchors.checkouts.twins(&it.path, it.glob.is_some()).into_iter();
            twins.map(|twin| PatternStart {
                named: it.named.as_ref().and_then(|_| named(&twin.base)),
                path: twin.base,
                prefix: twin.prefix,
                glob: it.glob,
            })
        });
        let twins: Vec<PatternStart<'a>> = twins.collect();
        starts.extend(twins);
    }
    starts
}

/// A table that is being filled.
struct TableBuilder {
    spelling: Spelling,
    exact: HashMap<OsString, Vec<MatcherEntry>>,
    groups: BTreeMap<(PathBuf, PathBuf), (GlobSetBuilder, Vec<MatcherEntry>)>,
}

impl TableBuilder {
    fn new(spelling: Spelling) -> Self {
        Self { spelling, exact: HashMap::new(), groups: BTreeMap::new() }
    }

    fn add(&mut self, start: &PatternStart<'_>, entry: MatcherEntry) {
        let spelled = |path: &Path| match self.spelling {
            Spelling::Exact => path.to_owned(),
            Spelling::Folded => fold_path(path).into_owned(),
        };
        let path = spelled(&start.path);
        let Some(glob) = start.glob else {
            self.exact.entry(path.into_os_string()).or_default().push(entry);
            return;
        };
        let Ok(glob) = compile(glob, self.spelling) else { return };
        let key = (path, spelled(&start.prefix));
        let group = self.groups.entry(key).or_insert_with(|| (GlobSetBuilder::new(), Vec::new()));
        group.0.add(glob);
        group.1.push(entry);
    }

    fn build(self) -> PathTable {
        let groups = self.groups.into_iter();
        let globs = groups.filter_map(|((base, prefix), (set, entries))| {
            Some(GlobGroup { base, prefix, set: set.build().ok()?, entries })
        });
        PathTable { exact: self.exact, globs: globs.collect() }
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
fn bases(rule: &Rule, pattern: &PathPattern, anchors: &ResolvedDirs) -> Vec<PathBuf> {
    let spot = match pattern.anchor {
        Anchor::Root => return vec![PathBuf::from("/")],
        Anchor::Home => anchors.home.clone(),
        Anchor::Cwd => Some(anchors.cwd.clone()),
        Anchor::Source => match &rule.entry.origin.root {
            Some(root) => Some(PolicyDir::new(root)),
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
