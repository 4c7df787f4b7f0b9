use std::path::{Path, PathBuf};

use super::{AnalysisContext, LineAnalysis, analyse};

/// A command line with its analysis. Computed once per call and shared by permission checks, undo,
/// sandbox and result formatting.
#[derive(Debug)]
pub struct SharedAnalysis {
    line: String,
    cwd: PathBuf,
    home: Option<PathBuf>,
    roots: Vec<PathBuf>,
    /// The analysis.
    pub analysis: LineAnalysis,
}

impl SharedAnalysis {
    /// Analyses `line` as if it ran in `place`.
    pub fn new(line: &str, place: AnalysisContext<'_>) -> Self {
        Self {
            line: line.to_owned(),
            cwd: place.cwd.to_owned(),
            home: place.home.map(Path::to_owned),
            roots: place.roots.to_vec(),
            analysis: analyse(line, place),
        }
    }

    pub fn line(&self) -> &str {
        &self.line
    }

    /// The environment it was analysed for.
    pub fn place(&self) -> AnalysisContext<'_> {
        AnalysisContext { cwd: &self.cwd, home: self.home.as_deref(), roots: &self.roots }
    }

    /// Whether this analysis applies to `line` in `place`. The workspace roots must be equal too,
    /// because they decide which deletions are critical.
    pub fn is_for(&self, line: &str, place: AnalysisContext<'_>) -> bool {
        let has = |roots: &[PathBuf], root: &PathBuf| roots.contains(root);
        self.line == line
            && self.cwd == place.cwd
            && self.home.as_deref() == place.home
            && self.roots.iter().all(|root| has(place.roots, root))
            && place.roots.iter().all(|root| has(&self.roots, root))
    }
}
