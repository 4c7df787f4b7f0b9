use std::sync::Arc;

use haft_tool::{
    AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits, Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CreateTeam, Teams};

/// Makes a team that you lead: agents you start with a name from now on are its members, and all of
/// you share a task list of the team's own. Members reach each other and you (`team-lead`) with
/// SendMessage. A session leads one team at a time; end it with TeamDelete. Without a team agents
/// can talk as well: use one where several work on one list of tasks.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What the team is called: letters, digits, - and _.
    #[schemars(length(min = 1, max = 64))]
    pub team_name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What kind its lead is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
}

/// The new team.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    team_name: String,
    team_file_path: std::path::PathBuf,
    lead_agent_id: String,
}

pub struct TeamCreate {
    teams: Arc<dyn Teams>,
}

impl TeamCreate {
    pub fn new(teams: Arc<dyn Teams>) -> Self {
        Self { teams }
    }
}

impl Tool for TeamCreate {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TeamCreate";

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "team create agents together",
            exposure: Exposure::Deferred,
            ..Traits::default()
        }
    }

    fn is_enabled(&self) -> bool {
        self.teams.is_open()
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        let fits = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        let name = input.team_name.trim();
        if name.starts_with(|it: char| it.is_ascii_alphanumeric()) && name.chars().all(fits) {
            Ok(())
        } else {
            Err(ToolError::invalid(format!(
                "the name {name:?} does not fit: letters, digits, - and _, beginning with a letter or digit"
            )))
        }
    }

    /// Creating a team grants no rights.
    fn check_permissions(&self, _input: &Input, _cx: &CallContext) -> Verdict {
        Verdict::Allow
    }

    fn describe(&self, input: &Input) -> String {
        format!("Make the team {}", input.team_name)
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let order = CreateTeam {
            name: input.team_name.trim().to_owned(),
            description: input.description,
            agent_type: input.agent_type,
        };
        let made = self.teams.create(order, cx).await.map_err(ToolError::failed)?;
        Ok(Output { team_name: made.name, team_file_path: made.file, lead_agent_id: made.lead }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(format!(
            "The team {} is there, and you lead it. Agents you start with a name are its members; the task tools show its list.",
            output.team_name
        ))
    }
}
