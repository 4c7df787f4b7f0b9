use std::sync::Arc;

use haft_tool::{
    AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits, Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Teams;

/// Ends the team you lead, when none of its members works any more: ask them to end with SendMessage
/// and `{"type": "shutdown_request"}` first. The list of its tasks is put away, not lost.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Clone, Debug, Serialize)]
pub struct Output {
    success: bool,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    team_name: Option<String>,
}

pub struct TeamDelete {
    teams: Arc<dyn Teams>,
}

impl TeamDelete {
    pub fn new(teams: Arc<dyn Teams>) -> Self {
        Self { teams }
    }
}

impl Tool for TeamDelete {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TeamDelete";

    fn traits(&self) -> Traits {
        Traits { search_hint: "team delete end", exposure: Exposure::Deferred, ..Traits::default() }
    }

    fn is_enabled(&self) -> bool {
        self.teams.is_open()
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn check_permissions(&self, _input: &Input, _cx: &CallContext) -> Verdict {
        Verdict::Allow
    }

    fn describe(&self, _input: &Input) -> String {
        String::from("End the team")
    }

    async fn call(&self, _input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let ended = self.teams.delete(cx).await;
        Ok(Output { success: ended.success, message: ended.message, team_name: ended.name }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.message.clone())
    }
}
