//! Teams: agents that share a task list under a name.

mod create;
mod delete;

use std::{path::PathBuf, sync::Arc};

use haft_tool::{BoxFuture, CallContext, DynTool, erase};

pub use create::TeamCreate;
pub use delete::TeamDelete;

/// Parameters of a new team.
#[derive(Clone, Debug, Default)]
pub struct CreateTeam {
    pub name: String,
    /// Purpose of the team.
    pub description: Option<String>,
    /// Agent type of its lead.
    pub agent_type: Option<String>,
}

/// A team that was created.
#[derive(Clone, Debug)]
pub struct CreatedTeam {
    pub name: String,
    /// File that records the team.
    pub file: PathBuf,
    /// Agent id of its lead.
    pub lead: String,
}

/// The result of ending a team.
#[derive(Clone, Debug)]
pub struct EndedTeam {
    /// Whether the team was ended.
    pub success: bool,
    /// Text for the model.
    pub message: String,
    /// Name of the team, if there is one.
    pub name: Option<String>,
}

/// Creates and ends teams. Implemented by the session.
pub trait Teams: Send + Sync {
    /// Whether the team tools are available.
    fn is_open(&self) -> bool;

    /// Creates a team led by the calling agent. An error says why it cannot be created.
    fn create<'a>(
        &'a self,
        order: CreateTeam,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<CreatedTeam, String>>;

    /// Ends the team of the calling agent. Fails while a member is working.
    fn delete<'a>(&'a self, cx: &'a CallContext) -> BoxFuture<'a, EndedTeam>;
}

/// No agents: every call fails.
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

/// Returns the team tools.
pub fn tools(teams: &Arc<dyn Teams>) -> Vec<Arc<dyn DynTool>> {
    vec![erase(TeamCreate::new(Arc::clone(teams))), erase(TeamDelete::new(Arc::clone(teams)))]
}
