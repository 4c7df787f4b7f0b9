//! User code around every call, as the pipeline sees it.

use haft_permission::Opinion;
use haft_tool::{BoxFuture, Output, ToolError};
use haft_types::{AgentId, CallId};
use serde_json::Value;

use crate::{Answer, Question, Report};

/// The call a hook is told about.
#[derive(Clone, Copy, Debug)]
pub struct HookCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Canonical input.
    pub input: &'a Value,
    /// The call.
    pub call_id: &'a CallId,
    /// Who called.
    pub agent_id: &'a AgentId,
    /// Where it would run.
    pub cwd: &'a std::path::Path,
}

/// What all hooks before a call said together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreAnswer {
    /// Whether it may run, as far as they are concerned.
    pub opinion: Opinion,
    /// A gate that had to answer could not; the call must not run.
    pub gate_failed: Option<String>,
    /// Run it with this input instead; it is checked like any other.
    pub updated_input: Option<Value>,
    /// Told to the model beside the result.
    pub context: Vec<String>,
    /// End the whole turn, for this reason.
    pub stop: Option<String>,
}

/// What all hooks after a call said together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PostAnswer {
    /// The model reads this instead.
    pub updated_output: Option<Value>,
    /// An objection the model has to deal with.
    pub objection: Option<String>,
    /// Told to the model beside the result.
    pub context: Vec<String>,
    /// End the whole turn, for this reason.
    pub stop: Option<String>,
}

/// The hooks of a session. Every method has a default that says nothing.
pub trait Hooks: Send + Sync {
    /// Before the permission check.
    fn pre<'a>(&'a self, _call: HookCall<'a>) -> BoxFuture<'a, PreAnswer> {
        Box::pin(async { PreAnswer::default() })
    }

    /// Before a person is asked; an answer here is theirs.
    fn permission_request<'a>(
        &'a self,
        _call: HookCall<'a>,
        _question: Question<'a>,
    ) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(async { None })
    }

    /// After a call was refused.
    fn permission_denied<'a>(&'a self, _call: HookCall<'a>, _reason: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// After a call came back.
    fn post<'a>(&'a self, _call: HookCall<'a>, _output: &'a Output) -> BoxFuture<'a, PostAnswer> {
        Box::pin(async { PostAnswer::default() })
    }

    /// After a call ran and failed.
    fn post_failure<'a>(&'a self, _call: HookCall<'a>, _error: &'a ToolError) -> BoxFuture<'a, PostAnswer> {
        Box::pin(async { PostAnswer::default() })
    }

    /// After all calls of one message.
    fn post_batch<'a>(&'a self, _reports: &'a [Report]) -> BoxFuture<'a, PostAnswer> {
        Box::pin(async { PostAnswer::default() })
    }

    /// The session is over.
    fn finished(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Whether there is nothing to run at all, so that a call need not even
    /// describe itself.
    fn is_empty(&self) -> bool {
        false
    }
}

/// No hooks configured.
#[derive(Clone, Copy, Debug)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn is_empty(&self) -> bool {
        true
    }
}
