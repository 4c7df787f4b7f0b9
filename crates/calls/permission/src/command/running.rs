//! Commands that are still running while another one is evaluated.

use std::{fmt, sync::Arc};

use haft_bash_analysis::SharedAnalysis;
use haft_tool::CommandLine;

use super::{BashJudge, analyse, stale::RunningLine};
use crate::{CommandAnalysis, CommandContext, CommandJudge};

/// Lists the running commands of a session.
pub trait RunningCommands: Send + Sync {
    /// All running command lines with their analyses.
    fn running(&self) -> Vec<Arc<SharedAnalysis>>;
}

/// Analyses command lines while earlier commands of the session may be running. Those were allowed for
/// the files they named at that time, so a line that would make these names refer to other files asks,
/// as does a line that uses names which a running command may change.
#[derive(Clone)]
pub struct SessionCommands {
    running: Arc<dyn RunningCommands>,
}

impl SessionCommands {
    /// Uses `running` to list the running commands.
    pub fn new(running: Arc<dyn RunningCommands>) -> Self {
        Self { running }
    }
}

impl fmt::Debug for SessionCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCommands").finish_non_exhaustive()
    }
}

impl CommandJudge for SessionCommands {
    fn analyse(&self, line: &CommandLine, place: &CommandContext<'_>) -> CommandAnalysis {
        analyse(line, place, &self.running.running())
    }

    fn propose(&self, line: &CommandLine, place: &CommandContext<'_>) -> Vec<String> {
        BashJudge.propose(line, place)
    }
}

/// The running lines in relation to the evaluated one.
pub(super) fn beside<'a>(
    running: &'a [Arc<SharedAnalysis>],
    place: &CommandContext<'a>,
) -> Vec<RunningLine<'a>> {
    let beside = |it: &'a Arc<SharedAnalysis>| RunningLine {
        analysis: &it.analysis,
        text: it.line(),
        place: CommandContext { cwd: it.place().cwd, ..*place },
    };
    running.iter().map(beside).collect()
}
