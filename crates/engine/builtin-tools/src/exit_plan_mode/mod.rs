//! Presents a plan for approval and leaves plan mode.

use std::path::PathBuf;

use haft_tool::{
    AccessSet, CallContext, CallEffect, Content, ContextChange, Exposure, Outcome, Rendered, Stage, Tool,
    ToolContext, ToolError, Traits, UserInteraction, Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hands your plan to the user for approval and leaves plan mode when they agree. Only for work that
/// changes something. The user may change the plan: what comes back is what holds. If they say no,
/// plan mode stays on and their words say why.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct Input {
    /// The plan, as Markdown: what changes, where, in which order, and how it is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Filled in: where the plan is kept.
    #[serde(default, rename = "planFilePath", skip_serializing_if = "Option::is_none")]
    pub plan_file_path: Option<String>,
    /// Ignored.
    #[serde(default, rename = "allowedPrompts", skip_serializing_if = "Option::is_none")]
    pub allowed_prompts: Option<Vec<AllowedPrompt>>,
}

/// Ignored.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct AllowedPrompt {
    /// The tool.
    pub tool: String,
    /// What it would be allowed.
    pub prompt: String,
}

/// The approved plan.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Text of the plan as approved.
    pub plan: Option<String>,
    /// Always false: only the main agent plans with the user.
    pub is_agent: bool,
    /// File the plan was saved to; `None` if it could not be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_path: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct ExitPlanMode {
    dir: PathBuf,
    name: String,
}

impl ExitPlanMode {
    /// Creates the tool. Plans are saved in `dir`, in a file named after `name`.
    pub fn new(dir: PathBuf, name: impl Into<String>) -> Self {
        Self { dir, name: name.into() }
    }

    fn file(&self) -> PathBuf {
        self.dir.join(format!("{}.md", self.name))
    }
}

impl Tool for ExitPlanMode {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "ExitPlanMode";

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "plan mode exit approve",
            exposure: Exposure::Deferred,
            timeout: None,
            needs_user: true,
            ..Traits::default()
        }
    }

    fn canonicalize(&self, input: &mut Input, _cx: &CallContext) {
        input.plan_file_path = Some(self.file().display().to_string());
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        match input.plan.as_deref().map(str::trim) {
            None | Some("") => Err(ToolError::invalid(
                "`plan` is empty: write the whole plan into it, so that the user can decide",
            )),
            Some(_) => Ok(()),
        }
    }

    /// Always asks: no mode and no rule may approve a plan for the user.
    fn check_permissions(&self, _input: &Input, _cx: &CallContext) -> Verdict {
        Verdict::Insist(String::from("the plan needs the user's approval"))
    }

    fn user_interaction(&self, input: &Input) -> UserInteraction {
        UserInteraction::Plan(input.plan.clone().unwrap_or_default())
    }

    fn describe(&self, input: &Input) -> String {
        format!("Approve this plan: {}", input.plan.as_deref().unwrap_or_default())
    }

    async fn call(&self, input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let plan = input.plan.unwrap_or_default();
        let file = self.file();
        let kept = async {
            tokio::fs::create_dir_all(&self.dir).await?;
            tokio::fs::write(&file, &plan).await
        };
        let file_path = kept.await.ok().map(|()| file.clone());
        let output = Output { plan: Some(plan.clone()), is_agent: false, file_path };
        Ok(Outcome::from(output).with_change(ContextChange::LeavePlan).with_trace(CallEffect::Plan(plan)))
    }

    fn to_content(&self, output: &Output) -> Content {
        let kept = output.file_path.as_ref().map(|it| format!(" It is kept in {}.", it.display()));
        Content::text(format!(
            "The user approved the plan; plan mode is off and you may begin.{} This is what was approved:\n\n{}",
            kept.unwrap_or_default(),
            output.plan.as_deref().unwrap_or_default()
        ))
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::preview(input.plan.as_deref().unwrap_or_default()),
            Stage::Done(output) => {
                let mut shown = Rendered::preview(output.plan.as_deref().unwrap_or_default());
                shown.headline = String::from("The plan was approved");
                shown
            }
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }
}
