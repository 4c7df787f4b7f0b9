use std::{future::Future, pin::Pin};

use haft_permission::{Behavior, Decision, DecisionSource};
use haft_types::{AgentId, CallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Writes down that a call is about to act.
///
/// The pipeline asks the witness after permission was given and before the tool
/// runs, for every call that is not read-only. The call runs only if the witness
/// returns `Ok`, and what it returned has come true. The witness must not wait for
/// anything but a write: all calls of a batch pass here.
pub trait CallLog: Send + Sync {
    /// Writes down that this call starts. An error is a sentence for the model:
    /// why the call did not run, and what to do about it. A future is waited for
    /// before the call runs.
    fn starting(&self, call: &CallStart<'_>) -> Result<Option<Persisted>, String>;
}

/// Comes when what was written down is kept where it has to be.
pub type Persisted = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A call that may act and was allowed to.
#[derive(Clone, Copy, Debug)]
pub struct CallStart<'a> {
    /// The `tool_use` id.
    pub call_id: &'a CallId,
    /// The agent that made the call.
    pub agent_id: &'a AgentId,
    /// The tool's name.
    pub tool: &'a str,
    /// The input the tool gets: canonical, after all rewrites.
    pub input: &'a Value,
    /// Why it may run.
    pub decision: Option<&'a CallDecision>,
}

/// What stage four decided about a call, for logs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CallDecision {
    /// What hooks, rules and mode said together.
    pub behavior: Behavior,
    /// Which of them decided: `rule`, `mode`, `hook`, `check` or `classifier`;
    /// `none` where nothing spoke for or against the call.
    pub source: String,
    /// The rule, as written, where a rule decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, in words for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What a person can do so that it runs next time, where it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
    /// What came of the question, where one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<ApprovalRecord>,
}

/// What came of a permission question.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ApprovalRecord {
    /// Who answered.
    #[serde(rename = "who")]
    pub answered_by: AnsweredBy,
    /// What the answer was.
    #[serde(rename = "said")]
    pub answer: Behavior,
}

/// Who answers permission questions.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A hook for permission requests.
    Hook,
    /// The person, or the host in their place. Older lines say so where nobody was there, too.
    Person,
    /// Nobody was there to ask, which is a no.
    Nobody,
}

impl ApprovalRecord {
    /// Whether somebody was there to answer.
    pub fn reached_somebody(self) -> bool {
        self.answered_by != AnsweredBy::Nobody
    }

    /// A few words for a person.
    pub fn words(self) -> String {
        match self.answered_by {
            AnsweredBy::Hook | AnsweredBy::Person => format!("asked: {}", self.answer),
            AnsweredBy::Nobody => String::from("nobody was there to ask"),
        }
    }
}

impl CallDecision {
    pub(crate) fn from_decision(decision: &Decision) -> Self {
        let (source, rule) = match &decision.source {
            DecisionSource::Rule(rule) => ("rule", Some(rule.clone())),
            DecisionSource::Mode => ("mode", None),
            DecisionSource::Hook => ("hook", None),
            DecisionSource::SafetyCheck | DecisionSource::WorkingDir => ("check", None),
            DecisionSource::Classifier => ("classifier", None),
            DecisionSource::Other => ("none", None),
        };
        let way_out = (decision.behavior == Behavior::Ask).then(|| decision.way_out());
        // What ran without a question says enough by its source and rule.
        let reason = match decision.behavior {
            Behavior::Allow => String::new(),
            Behavior::Ask | Behavior::Deny => decision.reason.clone(),
        };
        let (behavior, source) = (decision.behavior, source.to_owned());
        Self { behavior, source, rule, reason, way_out, asked: None }
    }
}
