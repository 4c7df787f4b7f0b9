use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_bash_analysis::{CommandReading, views_of};
use haft_workspace::{Files, Viewer};

use crate::bash::{CommandFacts, Printed, UnattendedHint};

/// Facts about commands, and an eye on what they show: lines that `cat`,
/// `sed -n` and their kind print count as read.
pub(crate) struct SeenCommands {
    /// What is known about a command before it runs.
    pub(crate) facts: Arc<dyn CommandFacts>,
    /// Whose files they are.
    pub(crate) files: Arc<Files>,
}

impl CommandFacts for SeenCommands {
    fn read(&self, command: &str, cwd: &Path) -> Arc<CommandReading> {
        self.facts.read(command, cwd)
    }

    fn is_read_only(&self, reading: &CommandReading) -> bool {
        self.facts.is_read_only(reading)
    }

    fn stays(&self, reading: &CommandReading) -> bool {
        self.facts.stays(reading)
    }

    fn refused_removal(&self, reading: &CommandReading) -> Option<PathBuf> {
        self.facts.refused_removal(reading)
    }

    fn precious(&self, reading: &CommandReading) -> Vec<PathBuf> {
        self.facts.precious(reading)
    }

    fn preview(&self, reading: &CommandReading) -> Option<String> {
        self.facts.preview(reading)
    }

    fn exit_meaning(&self, reading: &CommandReading, code: i32) -> Option<&'static str> {
        self.facts.exit_meaning(reading, code)
    }

    fn may_go_on(&self, reading: &CommandReading) -> bool {
        self.facts.may_go_on(reading)
    }

    fn without_person(&self, reading: &CommandReading) -> Option<UnattendedHint> {
        self.facts.without_person(reading)
    }

    fn is_silent(&self, reading: &CommandReading) -> bool {
        self.facts.is_silent(reading)
    }

    fn shows_files(&self, reading: &CommandReading) -> bool {
        !views_of(reading.line(), &reading.analysis).is_empty()
    }

    fn printed(&self, printed: &Printed) {
        let viewer = Viewer { agent: printed.agent.clone(), call: printed.call.clone() };
        for path in views_of(printed.reading.line(), &printed.reading.analysis) {
            // What cannot be opened any more was not seen; a Read will say why.
            if let Ok(real) = haft_paths::real(&path) {
                self.files.printed(&viewer, &real, &printed.output).ok();
            }
        }
    }
}
