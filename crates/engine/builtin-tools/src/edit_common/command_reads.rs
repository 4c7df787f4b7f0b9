use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_bash_analysis::{SharedAnalysis, views_of};
use haft_workspace::{ReadBy, SessionFiles};

use crate::bash::{CommandInspector, InteractiveHint, PrintedOutput};

/// A command inspector that also records file lines the model has seen in command output: lines printed
/// by `cat`, `sed -n` and the like count as read.
pub(crate) struct CommandReads {
    /// Analyses the command line.
    pub(crate) facts: Arc<dyn CommandInspector>,
    /// The files whose read state is updated.
    pub(crate) files: Arc<SessionFiles>,
}

impl CommandInspector for CommandReads {
    fn read(&self, command: &str, cwd: &Path) -> Arc<SharedAnalysis> {
        self.facts.read(command, cwd)
    }

    fn is_read_only(&self, reading: &SharedAnalysis) -> bool {
        self.facts.is_read_only(reading)
    }

    fn stays(&self, reading: &SharedAnalysis) -> bool {
        self.facts.stays(reading)
    }

    fn refused_removal(&self, reading: &SharedAnalysis) -> Option<PathBuf> {
        self.facts.refused_removal(reading)
    }

    fn precious(&self, reading: &SharedAnalysis) -> Vec<PathBuf> {
        self.facts.precious(reading)
    }

    fn preview(&self, reading: &SharedAnalysis) -> Option<String> {
        self.facts.preview(reading)
    }

    fn exit_meaning(&self, reading: &SharedAnalysis, code: i32) -> Option<&'static str> {
        self.facts.exit_meaning(reading, code)
    }

    fn may_go_on(&self, reading: &SharedAnalysis) -> bool {
        self.facts.may_go_on(reading)
    }

    fn without_person(&self, reading: &SharedAnalysis) -> Option<InteractiveHint> {
        self.facts.without_person(reading)
    }

    fn is_silent(&self, reading: &SharedAnalysis) -> bool {
        self.facts.is_silent(reading)
    }

    fn shows_files(&self, reading: &SharedAnalysis) -> bool {
        !views_of(reading.line(), &reading.analysis).is_empty()
    }

    fn printed(&self, printed: &PrintedOutput) {
        let viewer = ReadBy { agent: printed.agent.clone(), call: printed.call.clone() };
        for path in views_of(printed.reading.line(), &printed.reading.analysis) {
            // A file that can no longer be opened does not count as read; a later Read reports why.
            if let Ok(real) = haft_paths::real(&path) {
                self.files.printed(&viewer, &real, &printed.output).ok();
            }
        }
    }
}
