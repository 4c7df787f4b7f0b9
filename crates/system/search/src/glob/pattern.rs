use globset::{GlobBuilder, GlobMatcher};

use super::GlobProblem;
use crate::fs::as_path;

/// A glob split into components, so that a walk enters only directories below which it can match.
#[derive(Clone, Debug)]
pub(crate) struct GlobPattern {
    parts: Vec<PatternPart>,
}

#[derive(Clone, Debug)]
pub(crate) enum PatternPart {
    /// `**`: any number of directories.
    Deep,
    /// `*`.
    Any,
    /// A literal name.
    Name(Vec<u8>),
    /// `*` followed by this suffix.
    Ending(Vec<u8>),
    /// Any other pattern for one name.
    Glob(Box<GlobMatcher>),
}

/// Bit set of the components that the next name may match.
pub(crate) type PatternPositions = u64;

/// Maximum number of components; one bit is reserved for the end.
const MAX_PARTS: usize = 62;

impl GlobPattern {
    /// Builds a pattern. The last component matches file names.
    pub(crate) fn new(mut parts: Vec<PatternPart>) -> Result<Self, GlobProblem> {
        if matches!(parts.last(), None | Some(PatternPart::Deep)) {
            parts.push(PatternPart::Any);
        }
        parts.dedup_by(|a, b| matches!((a, b), (PatternPart::Deep, PatternPart::Deep)));
        if MAX_PARTS < parts.len() {
            return Err(GlobProblem::TooDeep);
        }
        Ok(Self { parts })
    }

    /// Initial positions.
    pub(crate) fn start(&self) -> PatternPositions {
        self.spread(1)
    }

    /// Positions after entering a directory of this name; zero if nothing below can match.
    pub(crate) fn enter(&self, places: PatternPositions, name: &[u8]) -> PatternPositions {
        let mut next = 0;
        for (index, part) in self.parts.iter().enumerate() {
            if places & (1 << index) == 0 {
                continue;
            }
            match part {
                PatternPart::Deep => next |= 1 << index,
                part if part.fits(name) => next |= 1 << (index + 1),
                _ => (),
            }
        }
        self.spread(next) & !(1 << self.parts.len())
    }

    /// Whether a file of this name matches.
    pub(crate) fn takes(&self, places: PatternPositions, name: &[u8]) -> bool {
        let last = self.parts.len() - 1;
        places & (1 << last) != 0 && self.parts[last].fits(name)
    }

    /// `**` may match no directory.
    fn spread(&self, mut places: PatternPositions) -> PatternPositions {
        for (index, part) in self.parts.iter().enumerate() {
            if places & (1 << index) != 0 && matches!(part, PatternPart::Deep) {
                places |= 1 << (index + 1);
            }
        }
        places
    }
}

impl PatternPart {
    /// Parses one component.
    pub(crate) fn parse(text: &str) -> Result<Self, GlobProblem> {
        match text {
            "**" => return Ok(Self::Deep),
            "*" => return Ok(Self::Any),
            _ => (),
        }
        if let Some(name) = literal(text) {
            return Ok(Self::Name(name));
        }
        if let Some(rest) = text.strip_prefix('*')
            && let Some(ending) = literal(rest)
        {
            return Ok(Self::Ending(ending));
        }
        let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
        match glob {
            Ok(glob) => Ok(Self::Glob(Box::new(glob.compile_matcher()))),
            Err(error) => Err(GlobProblem::Syntax(error.to_string())),
        }
    }

    fn fits(&self, name: &[u8]) -> bool {
        match self {
            Self::Deep | Self::Any => true,
            Self::Name(wanted) => wanted == name,
            Self::Ending(ending) => name.ends_with(ending),
            Self::Glob(glob) => glob.is_match(as_path(name)),
        }
    }
}

/// The unescaped text if the component has no wildcard.
fn literal(text: &str) -> Option<Vec<u8>> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => out.push(chars.next()?),
            '*' | '?' | '[' | '{' | '}' => return None,
            other => out.push(other),
        }
    }
    Some(out.into_bytes())
}
