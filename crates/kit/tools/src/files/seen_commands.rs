use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_command::{Place, views};
use haft_workspace::{Files, Viewer};

use crate::bash::{CommandFacts, Printed, Unattended, Workspace};

/// Facts about commands, and an eye on what they show: lines that `cat`,
/// `sed -n` and their kind print count as read.
pub(crate) struct SeenCommands {
    /// What is known about a command before it runs.
    pub(crate) facts: Arc<dyn CommandFacts>,
    /// The directories commands may stay in.
    pub(crate) workspace: Arc<dyn Workspace>,
    /// Whose files they are.
    pub(crate) files: Arc<Files>,
}

impl CommandFacts for SeenCommands {
    fn is_read_only(&self, command: &str, cwd: &Path) -> bool {
        self.facts.is_read_only(command, cwd)
    }

    fn refused_removal(&self, command: &str, cwd: &Path) -> Option<PathBuf> {
        self.facts.refused_removal(command, cwd)
    }

    fn precious(&self, command: &str, cwd: &Path) -> Vec<PathBuf> {
        self.facts.precious(command, cwd)
    }

    fn preview(&self, command: &str, cwd: &Path) -> Option<String> {
        self.facts.preview(command, cwd)
    }

    fn exit_meaning(&self, command: &str, code: i32) -> Option<&'static str> {
        self.facts.exit_meaning(command, code)
    }

    fn may_go_on(&self, command: &str) -> bool {
        self.facts.may_go_on(command)
    }

    fn without_person(&self, command: &str) -> Option<Unattended> {
        self.facts.without_person(command)
    }

    fn is_silent(&self, command: &str) -> bool {
        self.facts.is_silent(command)
    }

    fn printed(&self, printed: &Printed) {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let roots = self.workspace.roots();
        let place = Place { cwd: &printed.cwd, home: home.as_deref(), roots: &roots };
        let viewer = Viewer { agent: printed.agent.clone(), call: printed.call.clone() };
        for path in views(&printed.command, place) {
            // What cannot be opened any more was not seen; a Read will say why.
            if let Ok(real) = haft_paths::real(&path) {
                self.files.printed(&viewer, &real, &printed.output).ok();
            }
        }
    }
}
