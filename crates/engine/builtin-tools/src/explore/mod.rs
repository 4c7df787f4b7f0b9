//! Explores the code base with a read-only agent.

use std::sync::Arc;

use haft_tool::{
    Access, AccessSet, CallContext, Content, Exposure, Outcome, Rendered, Stage, Tool, ToolContext,
    ToolError, Traits, Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{Output, SubagentOutcome, SubagentRequest, SubagentSpawner, report_outcome, report_text};

/// The agent kind this tool starts.
const KIND: &str = "Explore";

/// Looks something up in the code by an agent that can only read, and waits for its report. For
/// questions that take many searches ("where is X decided?"); for one known file use Read, for one
/// pattern Grep. Several calls in one message run side by side.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The question, with everything the agent must know.
    #[schemars(length(min = 1))]
    pub prompt: String,
    /// `medium`, or `very thorough` to look in every place and under every name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breadth: Option<Breadth>,
}

/// How far to look.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Breadth {
    /// Where it is likely.
    #[serde(rename = "medium")]
    Medium,
    /// Everywhere.
    #[serde(rename = "very thorough")]
    VeryThorough,
}

pub struct Explore {
    spawner: Arc<dyn SubagentSpawner>,
}

impl Explore {
    pub fn new(spawner: Arc<dyn SubagentSpawner>) -> Self {
        Self { spawner }
    }
}

impl Tool for Explore {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Explore";

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "explore look around code base question",
            exposure: Exposure::Deferred,
            timeout: None,
            ..Traits::default()
        }
    }

    fn is_enabled(&self) -> bool {
        self.spawner.is_available()
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::Declared(vec![Access::Named(KIND.to_owned())])
    }

    fn check_permissions(&self, _input: &Input, _cx: &CallContext) -> Verdict {
        Verdict::Allow
    }

    fn describe(&self, input: &Input) -> String {
        format!("Explore: {}", haft_types::text::one_line(&input.prompt, 120))
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let how = match input.breadth {
            Some(Breadth::VeryThorough) => {
                "\n\nBe very thorough: look in every place and under every name it may have."
            }
            Some(Breadth::Medium) | None => "",
        };
        let order = SubagentRequest {
            kind: KIND.to_owned(),
            description: haft_types::text::one_line(&input.prompt, 60),
            prompt: format!("{}{how}", input.prompt),
            background: Some(false),
            ..SubagentRequest::default()
        };
        match self.spawner.spawn(order, cx).await {
            Err(refusal) => Err(ToolError::failed(refusal)),
            Ok(SubagentOutcome::Launched(launched)) => Ok(Output::Launched(launched).into()),
            Ok(SubagentOutcome::Ended(report)) => report_outcome(report),
        }
    }

    fn to_content(&self, output: &Output) -> Content {
        match output {
            Output::Report(report) => Content::text(report_text(report)),
            Output::Launched(launched) => {
                Content::text(format!("The agent {} goes on in the background.", launched.id))
            }
        }
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Done(Output::Report(report)) => {
                let mut shown = Rendered::preview(report.text.trim_end());
                shown.headline = report.headline();
                shown
            }
            Stage::Done(Output::Launched(it)) => {
                Rendered::headline(format!("{} works in the background", it.id))
            }
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }
}
