use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a call is itself a question that only the user can answer. A frontend
/// shows such a call as that question, and what the user says becomes part of its
/// input.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum UserInteraction {
    /// It is not: the user is asked at most whether the call may run.
    #[default]
    None,
    /// The user chooses answers. No two questions have the same text, because
    /// answers are stored under it, in the field `answers` of the input.
    Questions(Vec<UserQuestion>),
    /// The user approves a plan, which is Markdown.
    Plan(String),
}

impl UserInteraction {
    /// Whether only the user can answer.
    pub fn is_required(&self) -> bool {
        *self != Self::None
    }
}

/// One question.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct UserQuestion {
    /// The whole question, ending with a question mark.
    #[schemars(length(min = 1))]
    pub question: String,
    /// What it is about, in at most 12 characters.
    #[schemars(length(min = 1, max = 30))]
    pub header: String,
    /// Answers to choose from; "Other" is added by itself.
    #[schemars(length(min = 2, max = 4))]
    pub options: Vec<AnswerOption>,
    /// Whether several may be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

/// An answer to choose.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerOption {
    /// One to five words.
    #[schemars(length(min = 1))]
    pub label: String,
    /// What it means or leads to.
    pub description: String,
    /// Something to look at, as Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}
