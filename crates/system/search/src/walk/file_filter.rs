use std::path::Path;

use ignore::{
    Match,
    overrides::{Override, OverrideBuilder},
    types::{Types, TypesBuilder},
};

use super::ignore_rules::IgnoreRules;

/// Which files a walk visits.
#[derive(Clone, Debug)]
pub struct WalkFilter {
    /// Skip what ignore files exclude.
    pub respect_ignore: bool,
    /// Skip names that start with a dot.
    pub skip_hidden: bool,
    /// Skip directories of version control systems.
    pub skip_vcs: bool,
    /// Globs to include or exclude.
    pub globs: GlobFilter,
    /// Visit only files of these types.
    pub types: Option<Types>,
}

impl Default for WalkFilter {
    /// The defaults of `rg`.
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

/// Why an entry is skipped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum IgnoreReason {
    Keep,
    /// Does not match the request.
    Unwanted,
    Ignored,
    Hidden,
    Vcs,
}

/// Directories of version control systems.
pub const VCS_DIRS: [&str; 6] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"];

fn is_vcs(name: &[u8]) -> bool {
    name.first() == Some(&b'.') && VCS_DIRS.iter().any(|it| it.as_bytes() == name)
}

impl WalkFilter {
    /// Whether the decision needs the path, not only the name.
    pub(crate) fn needs_path(&self, rules: &IgnoreRules) -> bool {
        rules.any() || !self.globs.is_empty() || self.types.is_some()
    }

    /// Decides about one entry with ripgrep's precedence: globs, ignore files, types, hidden. `path` is
    /// absolute; it may be empty if [`WalkFilter::needs_path`] is false.
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

/// Globs that include or, with `!`, exclude files. The last match decides.
///
/// They are relative to up to two directories: the working directory, as in `rg`, and the searched
/// directory, as users expect.
#[derive(Clone, Debug, Default)]
pub struct GlobFilter {
    places: Vec<FilterKey>,
}

#[derive(Clone, Debug)]
struct FilterKey {
    all: Override,
    /// The `!` globs alone, to distinguish "excluded" from "not included".
    excluding: Option<Override>,
}

impl GlobFilter {
    /// Compiles globs relative to each of `places`. The error names the invalid glob.
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

    /// Whether a file passes the globs.
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

/// A file type by its `rg --type-list` name.
pub fn file_type(name: &str) -> Result<Types, UnknownType> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder.build().map_err(|_| UnknownType { known: type_names() })
}

/// Unknown file type.
#[derive(Clone, Debug)]
pub struct UnknownType {
    /// The known types.
    pub known: Vec<String>,
}

fn type_names() -> Vec<String> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.definitions().iter().map(|it| it.name().to_owned()).collect()
}
