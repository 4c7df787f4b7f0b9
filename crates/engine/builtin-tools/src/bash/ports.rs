use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_bash_analysis::SharedAnalysis;
use haft_shell::sandbox::{Confinement, ReadOnlySandbox};
use haft_tool::{CallId, ErrorKind, Permit, ToolError};
use haft_types::AgentId;

/// Analyses command lines without running them. All methods but the first take the analysis that
/// [`CommandInspector::read`] returned, so a line is analysed once per call.
pub trait CommandInspector: Send + Sync {
    /// Analyses a command line that would run in `cwd`.
    fn read(&self, command: &str, cwd: &Path) -> Arc<SharedAnalysis>;

    /// Whether the line certainly changes nothing.
    fn is_read_only(&self, reading: &SharedAnalysis) -> bool;

    /// Whether the shell certainly ends in the directory it started in.
    fn stays(&self, reading: &SharedAnalysis) -> bool;

    /// Returns the meaning of a non-zero exit code that is a result rather than a failure, such as "no
    /// matches".
    fn exit_meaning(&self, reading: &SharedAnalysis, code: i32) -> Option<&'static str>;

    /// Whether the line may continue in the background after its timeout. Not if it starts with `sleep`,
    /// uses git (which would block later git commands) or could not be analysed.
    fn may_go_on(&self, reading: &SharedAnalysis) -> bool;

    /// Returns the hint for a program in the line that needs an interactive user.
    fn without_person(&self, reading: &SharedAnalysis) -> Option<InteractiveHint>;

    /// Returns the protected directory this line would delete, if any: `/`, any directory directly below
    /// `/`, the home directory, a workspace root, or an ancestor of one of these. Resolves symlinks, so
    /// it reads the disk.
    fn refused_removal(&self, reading: &SharedAnalysis) -> Option<PathBuf>;

    /// Returns directories to protect while the line runs, because what it deletes is not known in
    /// advance.
    fn precious(&self, reading: &SharedAnalysis) -> Vec<PathBuf>;

    /// Returns a preview for the permission prompt: what would be written and removed. Reads the disk,
    /// and may run `find` and `git clean` in dry-run mode.
    fn preview(&self, reading: &SharedAnalysis) -> Option<String>;

    /// Whether success without output is normal for this line.
    fn is_silent(&self, reading: &SharedAnalysis) -> bool;

    /// Whether the output of the line shows file content that [`CommandInspector::printed`] wants to
    /// see. Does not read the disk. Default false.
    fn shows_files(&self, _reading: &SharedAnalysis) -> bool {
        false
    }

    /// Called on a blocking thread when a line with [`CommandInspector::shows_files`] has ended.
    fn printed(&self, _printed: &PrintedOutput) {}
}

/// A hint about a program that needs an interactive user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InteractiveHint {
    /// When to show the hint.
    pub when: Said,
    /// The alternative.
    pub instead: &'static str,
}

/// When a hint about an interactive program is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Said {
    /// If the program failed and complained about missing input, or printed nothing.
    Failed,
    /// Also if it succeeded without output, because it found no input.
    Silent,
    /// Always, because it behaves differently without a user.
    Always,
}

/// The shown output of a command that has ended.
#[derive(Clone, Debug)]
pub struct PrintedOutput {
    pub call: CallId,
    /// The agent that made the call.
    pub agent: haft_types::AgentId,
    /// Analysis of the command line, with its working directory.
    pub reading: Arc<SharedAnalysis>,
    /// The part of the output that is shown to the model.
    pub output: String,
}

/// The directories a session works in. They may change during the session.
pub trait WorkingDirs: Send + Sync {
    /// Returns the workspace first, then additional directories. Never empty.
    fn roots(&self) -> Vec<PathBuf>;
}

impl WorkingDirs for Vec<PathBuf> {
    fn roots(&self) -> Vec<PathBuf> {
        self.clone()
    }
}

/// Chooses the sandbox of a command, by the session's current mode and rules.
pub trait CommandConfiner: Send + Sync {
    fn choose(&self, about: &ConfinedCommand<'_>) -> ConfinementChoice;
}

/// A command to be confined.
#[derive(Clone, Copy, Debug)]
pub struct ConfinedCommand<'a> {
    /// The command line, or the code for an interpreter.
    pub command: &'a str,
    /// Working directory of the command.
    pub cwd: &'a Path,
    /// The agent that made the call.
    pub agent: &'a AgentId,
    /// Whether the call asked to run outside the sandbox, and was allowed to.
    pub outside: OutsideSandbox,
    /// The permission for this call, with the rules and the mode of the agent that made it.
    pub permit: &'a Permit,
}

/// Whether a command asked to run outside the sandbox. Such a call asks in every mode, so the user has
/// approved it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutsideSandbox {
    No,
    /// It asked, and the user approved.
    Agreed,
}

/// The sandbox of a command line: at most one of the two is set.
pub(crate) type ConfinedBy = (Option<Arc<Confinement>>, Option<Arc<ReadOnlySandbox>>);

/// The sandbox of a command.
#[derive(Clone, Debug)]
pub enum ConfinementChoice {
    /// No sandbox.
    Free,
    /// This sandbox.
    Walls(Arc<Confinement>),
    /// A sandbox that enforces that the command only reads.
    Reading(Arc<ReadOnlySandbox>),
    /// The command must not run, because its sandbox is not available; the text gives the reason.
    Refused(String),
}

impl ConfinementChoice {
    /// Returns the sandbox, if there is one, or the error if the command must not run. A read-only
    /// sandbox counts as none.
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

    /// Like [`ConfinementChoice::walls`], for a command line, which may have a read-only sandbox.
    pub(crate) fn held(self) -> Result<ConfinedBy, ToolError> {
        match self {
            Self::Reading(walls) => Ok((None, Some(walls))),
            other => Ok((other.walls()?, None)),
        }
    }
}

/// Runs commands without a sandbox.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoConfiner;

impl CommandConfiner for NoConfiner {
    fn choose(&self, _about: &ConfinedCommand<'_>) -> ConfinementChoice {
        ConfinementChoice::Free
    }
}
