use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_bash_analysis::SharedAnalysis;
use haft_shell::sandbox::{Confinement, ReadOnlySandbox};
use haft_tool::{CallId, ErrorKind, Permit, ToolError};
use haft_types::AgentId;

/// What is known about a command line without running it. Everything but the
/// first is asked of the reading that [`CommandInspector::read`] made, so a line is
/// analysed once per call.
pub trait CommandInspector: Send + Sync {
    /// Analyses a command line that would run in this directory.
    fn read(&self, command: &str, cwd: &Path) -> Arc<SharedAnalysis>;

    /// Whether it can do nothing but read.
    fn is_read_only(&self, reading: &SharedAnalysis) -> bool;

    /// Whether the shell is afterwards where it was before.
    fn stays(&self, reading: &SharedAnalysis) -> bool;

    /// What a code other than zero means, where it is an answer and no failure.
    fn exit_meaning(&self, reading: &SharedAnalysis, code: i32) -> Option<&'static str>;

    /// Whether it may go on unattended when its time is up. A pause has no
    /// reason to, a half-done repository operation would get in the way of the
    /// next, and what was not understood is stopped.
    fn may_go_on(&self, reading: &SharedAnalysis) -> bool;

    /// What to do instead where it would ask a person at a terminal.
    fn without_person(&self, reading: &SharedAnalysis) -> Option<InteractiveHint>;

    /// Returns the protected directory this command would delete, if any: `/`, any
    /// directory directly below `/`, the home directory, a workspace root, or an
    /// ancestor of one of these. Resolves symbolic links, so it reads the disk.
    fn refused_removal(&self, reading: &SharedAnalysis) -> Option<PathBuf>;

    /// Directories to guard while it runs, because what it removes is known only
    /// then.
    fn precious(&self, reading: &SharedAnalysis) -> Vec<PathBuf>;

    /// What a person should see before they say yes: what would be written and
    /// removed. Looks at the disk.
    fn preview(&self, reading: &SharedAnalysis) -> Option<String>;

    /// Whether success without a word is how it usually succeeds.
    fn is_silent(&self, reading: &SharedAnalysis) -> bool;

    /// Whether what it prints shows something that somebody keeps track of. Pure;
    /// nobody does unless told so.
    fn shows_files(&self, _reading: &SharedAnalysis) -> bool {
        false
    }

    /// A command that shows files has ended and printed this. Called beside the
    /// runtime.
    fn printed(&self, _printed: &PrintedOutput) {}
}

/// What a program does that wants a person, and what to do instead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InteractiveHint {
    /// When to say it.
    pub when: Said,
    /// What to do instead.
    pub instead: &'static str,
}

/// When a hint about a program that wants a person is worth its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Said {
    /// When it failed and complained about missing input, or said nothing.
    Failed,
    /// Also when it succeeded without a word: it found no input.
    Silent,
    /// Always: it behaved otherwise than it would have with a person.
    Always,
}

/// What a command that has ended has shown.
#[derive(Clone, Debug)]
pub struct PrintedOutput {
    /// The call it belongs to.
    pub call: CallId,
    /// Who called.
    pub agent: haft_types::AgentId,
    /// The command line, and where it ran.
    pub reading: Arc<SharedAnalysis>,
    /// What of its output is shown.
    pub output: String,
}

/// The directories a session works in. They change while it lives.
pub trait WorkingDirs: Send + Sync {
    /// The workspace first, then what was added to it. Never empty.
    fn roots(&self) -> Vec<PathBuf>;
}

impl WorkingDirs for Vec<PathBuf> {
    fn roots(&self) -> Vec<PathBuf> {
        self.clone()
    }
}

/// Decides what holds a command, in the mode the session is in right now.
pub trait CommandConfiner: Send + Sync {
    /// For this command.
    fn choose(&self, about: &ConfinedCommand<'_>) -> ConfinementChoice;
}

/// A command that is to be held.
#[derive(Clone, Copy, Debug)]
pub struct ConfinedCommand<'a> {
    /// The command line, or the code.
    pub command: &'a str,
    /// Where it will run.
    pub cwd: &'a Path,
    /// Who called.
    pub agent: &'a AgentId,
    /// Whether it asked to run outside, and was let.
    pub outside: OutsideSandbox,
    /// What the permission engine said: rules and mode of this very call, also
    /// those of the agent that called.
    pub permit: &'a Permit,
}

/// Whether a command asked to run outside the sandbox. A person agreed: such a
/// call asks in every mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutsideSandbox {
    /// It did not ask.
    No,
    /// It asked and was let.
    Agreed,
}

/// What holds a command line: at most one of the two.
pub(crate) type ConfinedBy = (Option<Arc<Confinement>>, Option<Arc<ReadOnlySandbox>>);

/// What holds a command.
#[derive(Clone, Debug)]
pub enum ConfinementChoice {
    /// Nothing.
    Free,
    /// These walls.
    Walls(Arc<Confinement>),
    /// Walls around what is believed to only read.
    Reading(Arc<ReadOnlySandbox>),
    /// It may not run, because the walls it needs cannot be built.
    Refused(String),
}

impl ConfinementChoice {
    /// The walls, if there are any, or why there is nothing to run.
    pub(crate) fn walls(self) -> Result<Option<Arc<Confinement>>, ToolError> {
        match self {
            Self::Free | Self::Reading(_) => Ok(None),
            Self::Walls(walls) => Ok(Some(walls)),
            Self::Refused(why) => {
                let message = format!("This cannot run in the sandbox, and may not run without: {why}");
                Err(ToolError::new(ErrorKind::Denied, message))
            }
        }
    }

    /// The same for a command line, which may also be one that only reads.
    pub(crate) fn held(self) -> Result<ConfinedBy, ToolError> {
        match self {
            Self::Reading(walls) => Ok((None, Some(walls))),
            other => Ok((other.walls()?, None)),
        }
    }
}

/// Nothing holds commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoConfiner;

impl CommandConfiner for NoConfiner {
    fn choose(&self, _about: &ConfinedCommand<'_>) -> ConfinementChoice {
        ConfinementChoice::Free
    }
}
