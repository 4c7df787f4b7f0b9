//! Stages three and four: hooks, then permission. Both look at the final input,
//! and whatever rewrites the input sends it through the check again.

use std::sync::Arc;

use haft_permission::{
    Behavior, Decision, Destination, Opinion, PermissionUpdate, Policy, Session as Permissions,
};
use haft_tool::{CallContext, DynCall, DynTool, ErrorKind, Permit, ToolError};
use haft_types::PermissionMode;
use serde_json::Value;

use crate::{
    Answer, Ask, AskedAnswer, AskedParty, CallDecision, DeniedBy, Question, SessionHooks, Unattended,
    ask::refusal,
    hooks::{Notes, Subject},
    pipeline::Failure,
};

/// Everybody who may object to a call.
pub struct Gate {
    hooks: SessionHooks,
    ask: Arc<dyn Ask>,
    permissions: Arc<Permissions>,
    keep: Option<Arc<dyn KeepUpdate>>,
}

/// Writes what a person wants remembered beyond the session to where they want
/// it.
pub trait KeepUpdate: Send + Sync {
    /// Keeps one change. Whoever implements it tells the person when it cannot.
    fn keep(&self, update: &PermissionUpdate);
}

/// A call that passed the hooks.
pub(crate) struct Hooked {
    pub(crate) call: Box<dyn DynCall>,
    pub(crate) opinion: Opinion,
    pub(crate) notes: Notes,
}

impl Gate {
    /// No hooks, and nobody to ask.
    pub fn new(policy: Policy) -> Self {
        Self::of_session(Arc::new(Permissions::new(policy)))
    }

    /// No hooks, and nobody to ask, for permissions that others change too.
    pub fn of_session(permissions: Arc<Permissions>) -> Self {
        Self { hooks: SessionHooks::default(), ask: Arc::new(Unattended), permissions, keep: None }
    }

    /// With these hooks.
    pub fn with_hooks(mut self, hooks: SessionHooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// With somebody to ask.
    pub fn with_ask(mut self, ask: Arc<dyn Ask>) -> Self {
        self.ask = ask;
        self
    }

    /// With somewhere to keep what is to be remembered.
    pub fn with_keep(mut self, keep: Arc<dyn KeepUpdate>) -> Self {
        self.keep = Some(keep);
        self
    }

    /// What decides.
    pub fn permissions(&self) -> &Arc<Permissions> {
        &self.permissions
    }

    /// Changes what decides; calls that were let through already go on.
    pub fn apply(&self, update: &PermissionUpdate) {
        self.permissions.apply(update);
        if let Some(keep) = self.keep.as_ref().filter(|_| update.destination().persists()) {
            keep.keep(update);
        }
    }

    /// The session goes on in another mode.
    pub fn set_mode(&self, mode: PermissionMode) {
        self.apply(&PermissionUpdate::SetMode { mode, destination: Destination::Session });
    }

    /// The hooks.
    pub fn hooks(&self) -> &SessionHooks {
        &self.hooks
    }

    /// The mode in force.
    pub fn mode(&self) -> PermissionMode {
        self.permissions.policy().mode
    }

    /// Stage three.
    pub(crate) async fn hooked(
        &self,
        tool: &Arc<dyn DynTool>,
        call: Box<dyn DynCall>,
        cx: &CallContext,
    ) -> Result<Hooked, Failure> {
        let before = self.hooks.before(&Subject::new(tool.as_ref(), call.as_ref(), cx, self.mode())).await;
        let mut notes = before.notes;
        if let Some(reason) = before.gate_failed {
            let message =
                format!("{} did not run because a hook that must answer first failed: {reason}", tool.name());
            notes.denied_by = Some(DeniedBy::Hook);
            return Err(Failure {
                notes: Box::new(notes),
                ..ToolError::new(ErrorKind::GateFailed, message).into()
            });
        }
        if let Some(reason) = &notes.stop {
            let message = format!("{} did not run because a hook ended the turn: {reason}", tool.name());
            notes.denied_by = Some(DeniedBy::Hook);
            return Err(Failure {
                notes: Box::new(notes),
                ..ToolError::new(ErrorKind::Denied, message).into()
            });
        }
        let call = match before.rewrite {
            None => call,
            Some(rewrite) => match rechecked(tool, rewrite.input.clone(), cx, "a hook") {
                Ok(rewritten) => {
                    self.hooks.rewrite_accepted(&rewrite);
                    rewritten
                }
                Err(error) => {
                    notes.notices.push(self.hooks.rewrite_refused(&rewrite, &error.message)?);
                    call
                }
            },
        };
        Ok(Hooked { call, opinion: before.opinion, notes })
    }

    /// Stage four. What was decided is left in `decided`, whatever comes of it.
    pub(crate) async fn permitted(
        &self,
        tool: &Arc<dyn DynTool>,
        hooked: Hooked,
        cx: &CallContext,
        decided: &mut Option<Box<CallDecision>>,
    ) -> Result<(Box<dyn DynCall>, Permit), Failure> {
        let Hooked { call, opinion, .. } = hooked;
        let decision = self.permissions.policy().judge(tool.name(), call.as_ref(), cx, &opinion);
        let decision = self.permissions.classify(decision, tool.name(), call.as_ref(), cx).await;
        let told = decided.insert(Box::new(CallDecision::of(&decision)));
        let decision = match decision.permit() {
            Ok(permit) => return Ok((call, permit)),
            Err(decision) => decision,
        };
        if decision.behavior == Behavior::Deny {
            let by = DeniedBy::from(&decision.source);
            return Err(self.denied(tool, call.as_ref(), cx, by, &decision.reason).await);
        }
        let (who, answer) = self.answer(tool, call.as_ref(), cx, &decision).await;
        let said = match answer {
            Answer::Allow { .. } => Behavior::Allow,
            Answer::Deny { .. } => Behavior::Deny,
        };
        told.asked = Some(AskedAnswer { who, said });
        match answer {
            Answer::Deny { message, interrupt } => {
                let mut failure = self.denied(tool, call.as_ref(), cx, DeniedBy::Asked, &message).await;
                failure.error.message = self.ask.refusal(tool.name(), &message);
                failure.notes.stop = interrupt.then_some(message);
                Err(failure)
            }
            Answer::Allow { updated_input, updates } => {
                updates.iter().for_each(|update| self.apply(update));
                let (call, decision) = match updated_input {
                    None => (call, decision),
                    Some(input) => {
                        let call = rechecked(tool, input, cx, "the one who approved the call")?;
                        let policy = self.permissions.policy();
                        let decision = policy.judge(tool.name(), call.as_ref(), cx, &opinion);
                        (call, decision)
                    }
                };
                match decision.approved() {
                    Ok(permit) => Ok((call, permit)),
                    Err(decision) => {
                        let by = DeniedBy::from(&decision.source);
                        Err(self.denied(tool, call.as_ref(), cx, by, &decision.reason).await)
                    }
                }
            }
        }
    }

    async fn answer(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
        decision: &Decision,
    ) -> (AskedParty, Answer) {
        let description = call.describe();
        let question = Question {
            tool: tool.name(),
            call_id: &cx.call_id,
            agent_id: &cx.agent_id,
            input: call.input(),
            description: &description,
            decision,
        };
        let subject = Subject::new(tool.as_ref(), call, cx, self.mode());
        match self.hooks.permission_request(&subject, &decision.suggestions).await {
            Some(answer) => (AskedParty::Hook, answer),
            None => {
                let answer = self.ask.ask(question).await;
                self.permissions.person_answered(match answer {
                    Answer::Allow { .. } => Behavior::Allow,
                    Answer::Deny { .. } => Behavior::Deny,
                });
                (AskedParty::Person, answer)
            }
        }
    }

    async fn denied(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
        by: DeniedBy,
        reason: &str,
    ) -> Failure {
        self.hooks.permission_denied(&Subject::new(tool.as_ref(), call, cx, self.mode()), reason).await;
        let notes = Box::new(Notes { denied_by: Some(by), ..Notes::default() });
        Failure { notes, ..ToolError::new(ErrorKind::Denied, refusal(tool.name(), reason)).into() }
    }
}

/// Rewritten input is checked like any other; whoever wrote it is named.
fn rechecked(
    tool: &Arc<dyn DynTool>,
    input: Value,
    cx: &CallContext,
    author: &str,
) -> Result<Box<dyn DynCall>, ToolError> {
    let checked = Arc::clone(tool).parse(input, cx).and_then(|call| call.validate(cx).map(|()| call));
    checked.map_err(|err| ToolError {
        message: format!(
            "{author} rewrote the input, and the rewritten input is not valid.\n{}",
            err.message
        ),
        ..err
    })
}
