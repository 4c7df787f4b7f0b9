//! Teams: agents that share a task list under a name.

mod create;
mod delete;

use std::{path::PathBuf, sync::Arc};

use haft_tool::{BoxFuture, CallContext, DynTool, erase};

pub use create::TeamCreate;
pub use delete::TeamDelete;

/// A team that is to be.
#[derive(Clone, Debug, Default)]
pub struct CreateTeam {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The kind its lead is.
    pub agent_type: Option<String>,
}

/// A team that is there.
#[derive(Clone, Debug)]
pub struct CreatedTeam {
    /// What it is called.
    pub name: String,
    /// Where it is written down.
    pub file: PathBuf,
    /// Who leads it.
    pub lead: String,
}

/// What came of ending a team.
#[derive(Clone, Debug)]
pub struct EndedTeam {
    /// Whether it has ended.
    pub success: bool,
    /// In words.
    pub message: String,
    /// Which one.
    pub name: Option<String>,
}

/// Makes and ends teams. Whoever runs agents implements this.
pub trait Teams: Send + Sync {
    /// Whether there are agents at all.
    fn is_open(&self) -> bool;

    /// Makes a team whose lead is the one that calls; an error says why not.
    fn create<'a>(
        &'a self,
        order: CreateTeam,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<CreatedTeam, String>>;

    /// Ends the team of the one that calls, unless somebody works in it.
    fn delete<'a>(&'a self, cx: &'a CallContext) -> BoxFuture<'a, EndedTeam>;
}

/// There are no agents.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTeams;

impl Teams for NoTeams {
    fn is_open(&self) -> bool {
        true
    }

    fn create<'a>(
        &'a self,
        _order: CreateTeam,
        _cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<CreatedTeam, String>> {
        Box::pin(async { Err(String::from("there are no agents here")) })
    }

    fn delete<'a>(&'a self, _cx: &'a CallContext) -> BoxFuture<'a, EndedTeam> {
        let message = String::from("there are no agents here");
        Box::pin(async { EndedTeam { success: false, message, name: None } })
    }
}

/// The tools.
pub fn tools(teams: &Arc<dyn Teams>) -> Vec<Arc<dyn DynTool>> {
    vec![erase(TeamCreate::new(Arc::clone(teams))), erase(TeamDelete::new(Arc::clone(teams)))]
}
