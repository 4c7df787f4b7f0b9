//! Enters plan mode.

use haft_tool::{
    AccessSet, CallContext, Content, ContextChange, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
};
use haft_types::PermissionMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Goes into plan mode: from now on nothing can be changed, by you or by agents you start, until the
/// user has approved a plan. Use it before work whose way is not clear, or that is hard to take
/// back; not for small or clear changes. Look around, then hand the plan over with ExitPlanMode.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {}

/// The result of entering plan mode.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// Text for the model.
    pub message: String,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct EnterPlanMode;

impl Tool for EnterPlanMode {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "EnterPlanMode";

    fn traits(&self) -> Traits {
        // Plan mode ends with the user's approval, so without a user the model could not leave it.
        Traits {
            search_hint: "plan mode enter",
            exposure: Exposure::Deferred,
            needs_user: true,
            ..Traits::default()
        }
    }

    /// Entering plan mode only removes permissions.
    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn describe(&self, _input: &Input) -> String {
        String::from("Go into plan mode")
    }

    async fn call(&self, _input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let message = "Plan mode is on: look around and change nothing. When the plan is complete, call ExitPlanMode with it; the user decides.";
        let output = Output { message: message.to_owned() };
        Ok(Outcome::from(output).with_change(ContextChange::Mode(PermissionMode::Plan)))
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.message.clone())
    }
}
