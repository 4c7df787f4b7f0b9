use std::path::{Path, PathBuf};

use super::{AnalysisContext, LineAnalysis, analyse};

/// A command line with everything found out about it, made once per call and
/// shared by everyone who asks: permission, undo, walls, and the answer.
#[derive(Debug)]
pub struct SharedAnalysis {
    line: String,
    cwd: PathBuf,
    home: Option<PathBuf>,
    roots: Vec<PathBuf>,
    /// What the line would do.
    pub analysis: LineAnalysis,
}

impl SharedAnalysis {
    /// Analyses a line that would run in this place.
    pub fn new(line: &str, place: AnalysisContext<'_>) -> Self {
        Self {
            line: line.to_owned(),
            cwd: place.cwd.to_owned(),
            home: place.home.map(Path::to_owned),
            roots: place.roots.to_vec(),
            analysis: analyse(line, place),
        }
    }

    /// The command line as it was written.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Where it would run.
    pub fn place(&self) -> AnalysisContext<'_> {
        AnalysisContext { cwd: &self.cwd, home: self.home.as_deref(), roots: &self.roots }
    }

    /// Whether an analysis of this line in this place would find the same. What
    /// must not be removed depends on the roots, so other roots are another
    /// place.
    pub fn is_for(&self, line: &str, place: AnalysisContext<'_>) -> bool {
        let has = |roots: &[PathBuf], root: &PathBuf| roots.contains(root);
        self.line == line
            && self.cwd == place.cwd
            && self.home.as_deref() == place.home
            && self.roots.iter().all(|root| has(place.roots, root))
            && place.roots.iter().all(|root| has(&self.roots, root))
    }
}
