use std::{future::Future, pin::Pin};

use haft_permission::{Behavior, Decision, DecisionSource};
use haft_types::{AgentId, CallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Records that a call is about to act (a write-ahead log of calls).
///
/// After permission was given and before the tool runs, the pipeline calls [`CallLog::starting`] for
/// every call that is not read-only. The call runs only if that returns `Ok` and the returned future, if
/// any, resolves to `Ok`. `starting` must not wait for anything but a write: all calls of a batch pass
/// through it.
pub trait CallLog: Send + Sync {
    /// Records that `call` starts. If it returns a future, the call waits for that future (or for its
    /// own cancellation). An error stops the call; its text is sent to the model and must say why the
    /// call did not run and what to do about it.
    fn starting(&self, call: &CallStart<'_>) -> Result<Option<Persisted>, String>;
}

/// Resolves once the record is durable. An error stops the call, like one from [`CallLog::starting`].
pub type Persisted = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A call that was allowed, may change something, and is about to run.
#[derive(Clone, Copy, Debug)]
pub struct CallStart<'a> {
    /// The `tool_use` id.
    pub call_id: &'a CallId,
    /// The agent that made the call.
    pub agent_id: &'a AgentId,
    /// The tool's name.
    pub tool: &'a str,
    /// The input the tool will run with: canonical, after all rewrites by hooks and approvers.
    pub input: &'a Value,
    /// Why the call was allowed; `None` if the permission stage made no decision.
    pub decision: Option<&'a CallDecision>,
}

/// The decision of the permission stage (stage four) about a call, as it is logged.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CallDecision {
    /// The decision of hooks, rules and permission mode together, before an approver was asked.
    pub behavior: Behavior,
    /// What decided: `rule`, `mode`, `hook`, `check` or `classifier`; `none` if nothing matched the
    /// call.
    pub source: String,
    /// The matching rule as the user wrote it, if a rule decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The reason, for users. Empty for a call that was allowed without a prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// How the user can allow the call next time. Set only if the decision was to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
    /// The answer to the prompt, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<ApprovalRecord>,
}

/// The answer to a permission prompt, as it is logged.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ApprovalRecord {
    /// Who answered the prompt.
    #[serde(rename = "who")]
    pub answered_by: AnsweredBy,
    /// [`Behavior::Allow`] or [`Behavior::Deny`].
    #[serde(rename = "said")]
    pub answer: Behavior,
}

/// Who answered a permission prompt.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A `PermissionRequest` hook.
    Hook,
    /// The user, or the embedding program in the user's place. Logs of older versions use it also when
    /// no approver was available.
    Person,
    /// No approver was available, so the call was denied.
    Nobody,
}

impl ApprovalRecord {
    /// Whether an approver (user, host or hook) answered the prompt.
    pub fn was_answered(self) -> bool {
        self.answered_by != AnsweredBy::Nobody
    }

    /// Short text for users.
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
        let way_out = (decision.behavior == Behavior::Ask).then(|| decision.remedy());
        // For an allowed call the source and the rule are reason enough.
        let reason = match decision.behavior {
            Behavior::Allow => String::new(),
            Behavior::Ask | Behavior::Deny => decision.reason.clone(),
        };
        let (behavior, source) = (decision.behavior, source.to_owned());
        Self { behavior, source, rule, reason, way_out, asked: None }
    }
}
