//! Approvers and hooks as closures.

use std::sync::Arc;

use haft_hooks::{
    Callback, CallbackAnswer, GeneralDecision, HookCall, HookDefinition, HookEvent, HookHandler, HookMatcher,
    HookOutput, HookSource, PermissionDecision, SpecificOutput, StopRequest,
};
use haft_tool::BoxFuture;
use haft_tool_runtime::{Approver, PermissionAnswer, PermissionQuestion};
use serde_json::{Map, Value};

/// An approver that calls a closure.
pub(super) struct ClosureApprover<F>(pub(super) F);

impl<F, A> Approver for ClosureApprover<F>
where
    F: Fn(Arc<PermissionQuestion>) -> A + Send + Sync,
    A: Future<Output = PermissionAnswer> + Send + 'static,
{
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        Box::pin((self.0)(question))
    }
}

/// The result of a hook.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum HookReply {
    /// No effect.
    #[default]
    Pass,
    /// The call needs no approval from this hook's view. Deny and ask rules still apply.
    Allow,
    /// The call must be approved; the text is the reason.
    Ask(String),
    /// Blocks the event for this reason: a call is refused, a prompt is rejected, an agent must
    /// continue.
    Block(String),
    /// The call runs with this input instead.
    Rewrite(Map<String, Value>),
    /// Adds text for the model.
    Context(String),
    /// Ends the turn, for this reason.
    Stop(String),
}

impl HookReply {
    fn output(self, event: HookEvent) -> HookOutput {
        let mut output = HookOutput::default();
        let decided = |decision, reason| SpecificOutput {
            permission_decision: Some(decision),
            permission_decision_reason: reason,
            ..SpecificOutput::default()
        };
        match self {
            Self::Pass => (),
            Self::Allow => output.specific = decided(PermissionDecision::Allow, None),
            Self::Ask(reason) => output.specific = decided(PermissionDecision::Ask, Some(reason)),
            Self::Block(reason) if event == HookEvent::PreToolUse => {
                output.specific = decided(PermissionDecision::Deny, Some(reason));
            }
            Self::Block(reason) => {
                (output.decision, output.reason) = (Some(GeneralDecision::Block), Some(reason));
            }
            Self::Rewrite(input) => output.specific.updated_input = Some(input),
            Self::Context(text) => output.specific.additional_context = Some(text),
            Self::Stop(reason) => output.stop = Some(StopRequest { reason: Some(reason) }),
        }
        output
    }
}

/// Creates a hook definition from a closure.
pub(super) fn hook<F, A>(event: HookEvent, matcher: &str, number: usize, code: F) -> HookDefinition
where
    F: Fn(HookCall) -> A + Send + Sync + 'static,
    A: Future<Output = HookReply> + Send + 'static,
{
    let code = move |call: HookCall| {
        let reply = code(call);
        async move { Ok(CallbackAnswer::from(reply.await.output(event))) }
    };
    let handler = HookHandler::Callback(Callback { name: format!("closure {number}"), code: Arc::new(code) });
    let source = Arc::new(HookSource::Named(String::from("the program")));
    HookDefinition::matching(event, HookMatcher::parse(matcher), handler, source)
}
