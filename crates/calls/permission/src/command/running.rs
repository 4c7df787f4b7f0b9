//! Commands of a session that are still running while another one is judged.

use std::{fmt, sync::Arc};

use haft_bash_analysis::SharedAnalysis;
use haft_tool::CommandLine;

use super::{BashJudge, analyse, stale::RunningLine};
use crate::{CommandAnalysis, CommandContext, CommandJudge};

/// Knows which commands of a session are still running.
pub trait RunningCommands: Send + Sync {
    /// Every command line that is still running, analysed where it runs.
    fn running(&self) -> Vec<Arc<SharedAnalysis>>;
}

/// Judges command lines of a session whose earlier commands may still be
/// running: each was allowed for the files that it named at that time, so a line
/// that would give these names to other files asks, and so does a line that uses
/// names which a running command may change.
#[derive(Clone)]
pub struct SessionCommands {
    running: Arc<dyn RunningCommands>,
}

impl SessionCommands {
    /// A judge that asks this for the commands that are still running.
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

/// Running lines as they concern a line that is judged here.
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
