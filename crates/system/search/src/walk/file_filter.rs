use std::path::Path;

use ignore::{
    Match,
    overrides::{Override, OverrideBuilder},
    types::{Types, TypesBuilder},
};

use super::ignore_rules::IgnoreRules;

/// Which files a walk is about, beyond their place.
#[derive(Clone, Debug)]
pub struct WalkFilter {
    /// Leave out what ignore files name.
    pub respect_ignore: bool,
    /// Leave out names that begin with a dot.
    pub skip_hidden: bool,
    /// Leave out the insides of version control.
    pub skip_vcs: bool,
    /// Only what these globs take.
    pub globs: GlobFilter,
    /// Only files of these types.
    pub types: Option<Types>,
}

impl Default for WalkFilter {
    /// As `rg` does without options.
    fn default() -> Self {
        Self {
            respect_ignore: true,
            skip_hidden: true,
            skip_vcs: true,
            globs: GlobFilter::default(),
            types: None,
        }
    }
}

/// Why an entry is left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum IgnoreReason {
    Keep,
    /// Does not fit what was asked for.
    Unwanted,
    Ignored,
    Hidden,
    Vcs,
}

/// Directories in which version control systems keep their own files.
pub const VCS_DIRS: [&str; 6] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"];

fn is_vcs(name: &[u8]) -> bool {
    name.first() == Some(&b'.') && VCS_DIRS.iter().any(|it| it.as_bytes() == name)
}

impl WalkFilter {
    /// Whether deciding needs the path, not only the name.
    pub(crate) fn needs_path(&self, rules: &IgnoreRules) -> bool {
        rules.any() || !self.globs.is_empty() || self.types.is_some()
    }

    /// Decides about one entry, in ripgrep's order: globs over ignore files
    /// over types over the dot. `path` is absolute and may be left empty when
    /// [`WalkFilter::needs_path`] says so.
    pub(crate) fn rule(&self, rules: &IgnoreRules, path: &Path, name: &[u8], is_dir: bool) -> IgnoreReason {
        match self.globs.matched(path, is_dir) {
            Match::Whitelist(()) => return IgnoreReason::Keep,
            Match::Ignore(()) => return IgnoreReason::Unwanted,
            Match::None => (),
        }
        if self.skip_vcs && is_vcs(name) {
            return IgnoreReason::Vcs;
        }
        let mut wanted = false;
        if self.respect_ignore {
            match rules.matched(path, is_dir) {
                Match::Ignore(()) => return IgnoreReason::Ignored,
                Match::Whitelist(()) => wanted = true,
                Match::None => (),
            }
        }
        if let Some(types) = &self.types {
            match types.matched(path, is_dir) {
                Match::Ignore(_) => return IgnoreReason::Unwanted,
                Match::Whitelist(_) => wanted = true,
                Match::None => (),
            }
        }
        match name.first() {
            Some(b'.') if self.skip_hidden && !wanted => IgnoreReason::Hidden,
            _ => IgnoreReason::Keep,
        }
    }
}

/// Globs that take or, with `!`, leave out. The last one that fits decides.
///
/// They are read relative to up to two places: the working directory, as `rg`
/// does, and the directory that is searched, as everybody expects.
#[derive(Clone, Debug, Default)]
pub struct GlobFilter {
    places: Vec<FilterKey>,
}

#[derive(Clone, Debug)]
struct FilterKey {
    all: Override,
    /// Those with `!` alone: they tell "left out" from "not taken".
    excluding: Option<Override>,
}

impl GlobFilter {
    /// Compiles globs. The error says which one is wrong, and how.
    pub fn new(globs: &[String], places: &[&Path]) -> Result<Self, String> {
        let mut compiled = Self::default();
        if globs.is_empty() {
            return Ok(compiled);
        }
        let mut seen: Vec<&Path> = Vec::new();
        for place in places {
            if seen.contains(place) {
                continue;
            }
            seen.push(place);
            let all = build(globs.iter(), place)?;
            let excluding: Vec<&String> = globs.iter().filter(|glob| glob.starts_with('!')).collect();
            let excluding =
                if excluding.is_empty() { None } else { Some(build(excluding.into_iter(), place)?) };
            compiled.places.push(FilterKey { all, excluding });
        }
        Ok(compiled)
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether a file fits.
    pub fn take(&self, path: &Path) -> bool {
        !self.matched(path, /*is_dir*/ false).is_ignore()
    }

    fn matched(&self, path: &Path, is_dir: bool) -> Match<()> {
        let mut taken = false;
        let mut refused = false;
        for place in &self.places {
            match place.all.matched(path, is_dir) {
                Match::Whitelist(_) => taken = true,
                Match::Ignore(_) => {
                    let excluded = place.excluding.as_ref();
                    if excluded.is_some_and(|it| it.matched(path, is_dir).is_ignore()) {
                        return Match::Ignore(());
                    }
                    refused = true;
                }
                Match::None => (),
            }
        }
        match (taken, refused) {
            (true, _) => Match::Whitelist(()),
            (false, true) => Match::Ignore(()),
            (false, false) => Match::None,
        }
    }
}

fn build<'a>(globs: impl Iterator<Item = &'a String>, place: &Path) -> Result<Override, String> {
    let mut builder = OverrideBuilder::new(place);
    for glob in globs {
        builder.add(glob).map_err(|err| err.to_string())?;
    }
    builder.build().map_err(|err| err.to_string())
}

/// The files of one type, by the names `rg --type-list` knows.
pub fn file_type(name: &str) -> Result<Types, UnknownType> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder.build().map_err(|_| UnknownType { known: type_names() })
}

/// There is no file type of that name.
#[derive(Clone, Debug)]
pub struct UnknownType {
    /// Those there are.
    pub known: Vec<String>,
}

fn type_names() -> Vec<String> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.definitions().iter().map(|it| it.name().to_owned()).collect()
}
