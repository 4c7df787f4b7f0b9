//! Asks the user questions.

use std::collections::BTreeMap;

use haft_tool::{
    AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
    UserInteraction, UserQuestion, Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Asks the user one to four questions with two to four answers each; they may also answer in their
/// own words. For decisions only they can make and that change what you do next: not for what you
/// can find out, and not to ask whether a plan is fine.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The questions.
    #[schemars(length(min = 1, max = 4))]
    pub questions: Vec<UserQuestion>,
    /// Filled in by whoever answers: the answer to each question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, String>>,
    /// Filled in by whoever answers: notes beside answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<serde_json::Value>,
    /// Ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Output {
    pub questions: Vec<UserQuestion>,
    /// The answers, by the text of the question.
    pub answers: BTreeMap<String, String>,
    /// Notes the user added to answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<serde_json::Value>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct AskUserQuestion;

impl Tool for AskUserQuestion {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "AskUserQuestion";

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "ask user question choice decision",
            exposure: Exposure::Deferred,
            timeout: None,
            needs_user: true,
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        let mut seen = std::collections::HashSet::new();
        match input.questions.iter().find(|it| !seen.insert(it.question.as_str())) {
            Some(twice) => {
                Err(ToolError::invalid(format!("the question {:?} stands there twice", twice.question)))
            }
            None => Ok(()),
        }
    }

    /// Always asks: nothing may answer for the user.
    fn check_permissions(&self, _input: &Input, _cx: &CallContext) -> Verdict {
        Verdict::Insist(String::from("only the user can answer"))
    }

    fn user_interaction(&self, input: &Input) -> UserInteraction {
        UserInteraction::Questions(input.questions.clone())
    }

    fn describe(&self, input: &Input) -> String {
        let questions: Vec<&str> = input.questions.iter().map(|it| it.question.as_str()).collect();
        format!("Answer: {}", questions.join(" / "))
    }

    async fn call(&self, input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let mut answers = input.answers.unwrap_or_default();
        answers.retain(|_, answer| !answer.trim().is_empty());
        Ok(Output { questions: input.questions, answers, annotations: input.annotations }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        let mut lines = Vec::new();
        for it in &output.questions {
            let notes = output.annotations.as_ref().and_then(|all| all[&it.question]["notes"].as_str());
            let notes = notes.map(|it| format!(" (notes: {it})")).unwrap_or_default();
            lines.push(match output.answers.get(&it.question) {
                Some(answer) => format!("{:?} = {answer:?}{notes}", it.question),
                None => format!("{:?}: not answered{notes}", it.question),
            });
        }
        let head = if output.answers.is_empty() {
            "The user answered none of the questions. Decide yourself, say what you assumed, and go on:"
        } else {
            "The user's answers:"
        };
        Content::text(format!("{head}\n{}", lines.join("\n")))
    }
}
