//! Stages three and four: hooks, then permission. Both see the final input. Input that a hook or an
//! approver rewrote is parsed, validated and judged again.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use haft_hooks::BaseInput;
use haft_permission::{
    AgentRights, Behavior, Decision, Destination, HookOpinion, LivePermissions, PermissionUpdate, Policy,
    SpeculativeAnswer,
};
use haft_tool::{CallContext, ContextChange, DynCall, DynTool, ErrorKind, Permit, ToolError};
use haft_types::{AgentId, PermissionMode};
use serde_json::Value;

use crate::{
    AnsweredBy, ApprovalRecord, Approver, CallDecision, DenialSource, NoApprover, PermissionAnswer,
    PermissionQuestion, SessionHooks,
    approver::denial_text,
    pipeline::CallStageError,
    session_hooks::{HookNotes, HookSubject, IfContext, PreToolOutcome, RuleMatches},
};

/// Everything that may object to a call of one agent: hooks, permission rules and the approver. The main
/// agent has one gate; [`Gate::child`] derives the gates of sub-agents from it.
pub struct Gate {
    hooks: Arc<SessionHooks>,
    approver: Arc<dyn Approver>,
    permissions: Arc<LivePermissions>,
    keep: Option<Arc<dyn UpdateStore>>,
    /// Agent type of the sub-agent that owns this gate; `None` for the main agent.
    agent_type: Option<Arc<str>>,
    /// Calls the user denied, of all agents of the session. Shared with child gates.
    refused: Arc<Mutex<VecDeque<RejectedCall>>>,
    /// The permission mode to return to after plan mode.
    before_plan: Mutex<Option<PermissionMode>>,
}

/// A call the user denied.
struct RejectedCall {
    agent: AgentId,
    /// Display name of the agent: its type, if any, and its id.
    name: String,
    tool: String,
    input: Value,
}

/// Maximum denied calls remembered per session; beyond it the oldest is forgotten.
const MAX_REFUSED: usize = 200;

/// Saves permission changes that outlive the session, for example to the user's settings file.
pub trait UpdateStore: Send + Sync {
    /// Saves one change to its destination. The implementation reports failures to the user itself.
    fn keep(&self, update: &PermissionUpdate);

    /// Called for every change, also for those that last only for this session. Does nothing by default.
    fn heard(&self, _update: &PermissionUpdate) {}
}

/// A call that passed the pre-tool hooks.
pub(crate) struct HookedCall {
    pub(crate) call: Box<dyn DynCall>,
    pub(crate) opinion: HookOpinion,
    pub(crate) notes: HookNotes,
    /// The classifier's answer, requested while the hooks ran; `None` if there was none or it is not
    /// usable.
    foreseen: Option<SpeculativeAnswer>,
}

impl Gate {
    /// Creates a gate without hooks and approver: calls that would ask are denied.
    pub fn new(policy: Policy) -> Self {
        Self::of_session(Arc::new(LivePermissions::new(policy)))
    }

    /// Like [`Gate::new`], for permissions that are shared with other owners.
    pub fn of_session(permissions: Arc<LivePermissions>) -> Self {
        Self {
            hooks: Arc::default(),
            approver: Arc::new(NoApprover),
            permissions,
            keep: None,
            agent_type: None,
            refused: Arc::default(),
            before_plan: Mutex::default(),
        }
    }

    /// Creates the gate of a sub-agent.
    ///
    /// Its permissions are a live view of this gate's, narrowed by `rights`. Hooks and approver are
    /// shared; both receive the sub-agent's id, hooks also its type. Rules the user adds while answering
    /// apply to the whole session; a mode the sub-agent enters applies to it alone.
    pub fn child(&self, rights: AgentRights) -> Self {
        Self {
            hooks: Arc::clone(&self.hooks),
            approver: Arc::clone(&self.approver),
            keep: self.keep.clone(),
            agent_type: Some(Arc::clone(&rights.name)),
            permissions: Arc::new(self.permissions.child(rights)),
            refused: Arc::clone(&self.refused),
            before_plan: Mutex::default(),
        }
    }

    /// Remembers that the user denied a call, so that other agents are asked about it too (see
    /// `cautious`).
    fn note_refusal(&self, tool: &str, input: &Value, agent: &AgentId) {
        let name = self.agent_type.as_deref().map_or_else(|| agent.to_string(), |it| format!("{it} {agent}"));
        let refusal =
            RejectedCall { agent: agent.clone(), name, tool: tool.to_owned(), input: input.clone() };
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.push_back(refusal);
        if MAX_REFUSED < refused.len() {
            refused.pop_front();
        }
    }

    /// Turns the decision into a prompt if the user denied the identical call (tool and input) to
    /// another agent, even where the permission mode would allow it.
    fn escalate_after_rejection(
        &self,
        decision: Decision,
        tool: &str,
        input: &Value,
        agent: &AgentId,
    ) -> Decision {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |it: &&RejectedCall| it.agent != *agent && it.tool == tool && it.input == *input;
        match refused.iter().rev().find(same) {
            Some(it) => decision.refused_before(&format!("the user denied the same call to {}", it.name)),
            None => decision,
        }
    }

    /// Replaces the hooks.
    pub fn with_hooks(mut self, hooks: impl Into<Arc<SessionHooks>>) -> Self {
        self.hooks = hooks.into();
        self
    }

    /// Sets the approver that answers prompts.
    pub fn with_approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = approver;
        self
    }

    /// Sets the store for permission changes that outlive the session.
    pub fn with_keep(mut self, keep: Arc<dyn UpdateStore>) -> Self {
        self.keep = Some(keep);
        self
    }

    /// The permission rules and mode that judge calls.
    pub fn permissions(&self) -> &Arc<LivePermissions> {
        &self.permissions
    }

    /// Applies a permission change. Calls that were already allowed keep running. Changes that outlive
    /// the session are passed to the [`UpdateStore`].
    pub fn apply(&self, update: &PermissionUpdate) {
        if let PermissionUpdate::SetMode { mode, .. } = update {
            let mut before = self.before_plan.lock().unwrap_or_else(PoisonError::into_inner);
            match (self.mode(), mode) {
                (PermissionMode::Plan, PermissionMode::Plan) => (),
                (now, PermissionMode::Plan) => *before = Some(now),
                _ => *before = None,
            }
        }
        self.permissions.apply(update);
        let Some(keep) = &self.keep else { return };
        keep.heard(update);
        if self.permissions.keeps(update) {
            keep.keep(update);
        }
    }

    /// Switches this agent's permission mode for the rest of the session.
    pub fn set_mode(&self, mode: PermissionMode) {
        self.apply(&PermissionUpdate::SetMode { mode, destination: Destination::Session });
    }

    /// Applies the part of a context change that the gate holds: mode, leaving plan mode, added
    /// directories. [`CallSessionState::apply`] handles the rest; every caller needs both.
    ///
    /// [`CallSessionState::apply`]: crate::CallSessionState::apply
    pub fn take_over(&self, change: &ContextChange) {
        match change {
            ContextChange::Mode(mode) => self.set_mode(*mode),
            ContextChange::LeavePlan if self.mode() == PermissionMode::Plan => {
                let before = *self.before_plan.lock().unwrap_or_else(PoisonError::into_inner);
                self.set_mode(before.unwrap_or_default());
            }
            ContextChange::AddDirectory(dir) => {
                let (directories, destination) = (vec![dir.clone()], Destination::Session);
                self.apply(&PermissionUpdate::AddDirectories { directories, destination });
            }
            ContextChange::LeavePlan
            | ContextChange::Cwd(_)
            | ContextChange::LoadTools(_)
            | ContextChange::Trace(_)
            | ContextChange::Unknown(_) => (),
        }
    }

    /// The session's hooks, shared by all its agents.
    pub fn hooks(&self) -> &Arc<SessionHooks> {
        &self.hooks
    }

    /// Returns the fields every hook event of this agent carries.
    pub fn hook_base(&self, agent: &AgentId, cwd: PathBuf) -> BaseInput {
        self.hooks.base_of(agent, self.agent_type.as_deref(), cwd, self.mode())
    }

    /// Returns a call in the form hooks receive it.
    pub(crate) fn subject<'a>(
        &'a self,
        tool: &'a dyn DynTool,
        call: &'a dyn DynCall,
        cx: &'a CallContext,
    ) -> HookSubject<'a> {
        let policy = self.permissions.policy();
        let (mode, agent_type) = (policy.mode, self.agent_type.as_deref());
        HookSubject {
            tool,
            input: call.input(),
            cx,
            mode,
            agent_type,
            compared: IfContext::Call { policy, call },
        }
    }

    /// Like [`Gate::subject`], for a call that was already consumed by running it. `answers` holds the
    /// rule matches computed before.
    pub(crate) fn past_subject<'a>(
        &'a self,
        tool: &'a dyn DynTool,
        input: &'a Value,
        answers: &'a RuleMatches,
        cx: &'a CallContext,
    ) -> HookSubject<'a> {
        let (mode, agent_type) = (self.mode(), self.agent_type.as_deref());
        HookSubject { tool, input, cx, mode, agent_type, compared: IfContext::Past(answers) }
    }

    /// The permission mode in force now.
    pub fn mode(&self) -> PermissionMode {
        self.permissions.policy().mode
    }

    /// Asks the classifier about a call before hooks have answered. Returns `None` outside auto mode.
    async fn foreseen(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
    ) -> Option<SpeculativeAnswer> {
        let policy = self.permissions.policy();
        if policy.mode != PermissionMode::Auto {
            return None;
        }
        let decision = policy.judge(tool.name(), call, cx, &HookOpinion::None);
        let decision = self.escalate_after_rejection(decision, tool.name(), call.input(), &cx.agent_id);
        self.permissions.foresee(&decision, tool.name(), call).await
    }

    /// Runs hooks and the classifier concurrently, since both may be slow. Drops the classifier's
    /// request, or its answer, if a hook settles the matter.
    async fn before_and_foreseen(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
    ) -> (PreToolOutcome, Option<SpeculativeAnswer>) {
        let subject = self.subject(tool.as_ref(), call, cx);
        let mut before = std::pin::pin!(self.hooks.before(&subject));
        let mut foreseen = std::pin::pin!(self.foreseen(tool, call, cx));
        let (before, answer) = tokio::select! {
            biased;
            before = &mut before => (before, None),
            answer = &mut foreseen => (before.await, Some(answer)),
        };
        let settled = before.gate_failed.is_some()
            || before.notes.stop.is_some()
            || before.rewrite.is_some()
            || !matches!(before.opinion, HookOpinion::None);
        match (answer, settled) {
            (_, true) => (before, None),
            (Some(answer), false) => (before, answer),
            (None, false) => (before, foreseen.await),
        }
    }

    /// Stage three: runs the pre-tool hooks and applies their rewrite, if the tool accepts it.
    pub(crate) async fn run_pre_hooks(
        &self,
        tool: &Arc<dyn DynTool>,
        call: Box<dyn DynCall>,
        cx: &CallContext,
    ) -> Result<HookedCall, CallStageError> {
        let (before, foreseen) = self.before_and_foreseen(tool, call.as_ref(), cx).await;
        let mut notes = before.notes;
        if let Some(reason) = before.gate_failed {
            let message =
                format!("{} did not run because a hook that must answer first failed: {reason}", tool.name());
            notes.denied_by = Some(DenialSource::Hook);
            return Err(CallStageError {
                notes: Box::new(notes),
                ..ToolError::new(ErrorKind::GateFailed, message).into()
            });
        }
        if let Some(reason) = &notes.stop {
            let message = format!("{} did not run because a hook ended the turn: {reason}", tool.name());
            notes.denied_by = Some(DenialSource::Hook);
            return Err(CallStageError {
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
        Ok(HookedCall { call, opinion: before.opinion, notes, foreseen })
    }

    /// Stage four: judges the call, asks the approver if needed, and returns the call with its permit.
    /// Stores the decision in `decided`, whatever the outcome.
    pub(crate) async fn permitted(
        &self,
        tool: &Arc<dyn DynTool>,
        hooked: HookedCall,
        cx: &CallContext,
        decided: &mut Option<Box<CallDecision>>,
    ) -> Result<(Box<dyn DynCall>, Permit), CallStageError> {
        let HookedCall { call, opinion, foreseen, .. } = hooked;
        let decision = self.permissions.policy().judge(tool.name(), call.as_ref(), cx, &opinion);
        let decision = self.escalate_after_rejection(decision, tool.name(), call.input(), &cx.agent_id);
        let decision = self.permissions.classify(decision, tool.name(), call.as_ref(), foreseen).await;
        let told = decided.insert(Box::new(CallDecision::from_decision(&decision)));
        let decision = match decision.permit() {
            Ok(permit) => return Ok((call, permit)),
            Err(decision) => decision,
        };
        if decision.behavior == Behavior::Deny {
            let by = DenialSource::from(&decision.source);
            return Err(self.denied(tool, call.as_ref(), cx, by, &decision.reason).await);
        }
        let (answered_by, answer) = self.answer(tool, call.as_ref(), cx, &decision).await;
        let behavior = match answer {
            PermissionAnswer::Allow { .. } => Behavior::Allow,
            PermissionAnswer::Deny { .. } | PermissionAnswer::Unavailable { .. } => Behavior::Deny,
        };
        told.asked = Some(ApprovalRecord { answered_by, answer: behavior });
        match answer {
            PermissionAnswer::Deny { message, interrupt } => {
                if answered_by == AnsweredBy::Person {
                    self.note_refusal(tool.name(), call.input(), &cx.agent_id);
                }
                let mut failure = self.refused(tool, call.as_ref(), cx, &message).await;
                failure.notes.stop = interrupt.then_some(message);
                Err(failure)
            }
            PermissionAnswer::Unavailable { message } => {
                Err(self.refused(tool, call.as_ref(), cx, &message).await)
            }
            PermissionAnswer::Allow { updated_input, updates } => {
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
                        let by = DenialSource::from(&decision.source);
                        Err(self.denied(tool, call.as_ref(), cx, by, &decision.reason).await)
                    }
                }
            }
        }
    }

    /// Asks the local approver on behalf of a remote machine's rules ([`Decision::elsewhere`]). The
    /// answer grants no permission on this machine. In `dontAsk` mode, and without an approver, the
    /// answer is a denial.
    pub async fn ask_for_remote_host(&self, question: Arc<PermissionQuestion>) -> PermissionAnswer {
        if self.mode() == PermissionMode::DontAsk {
            NoApprover.ask(question).await
        } else {
            self.approver.ask(question).await
        }
    }

    async fn answer(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
        decision: &Decision,
    ) -> (AnsweredBy, PermissionAnswer) {
        let subject = self.subject(tool.as_ref(), call, cx);
        if let Some(answer) = self.hooks.permission_request(&subject, &decision.suggestions).await {
            return (AnsweredBy::Hook, answer);
        }
        let question = PermissionQuestion::new(tool.as_ref(), call, cx, decision);
        let answer = self.approver.ask(Arc::new(question)).await;
        let (answered_by, behavior) = match answer {
            PermissionAnswer::Allow { .. } => (AnsweredBy::Person, Behavior::Allow),
            PermissionAnswer::Deny { .. } if self.approver.is_available() => {
                (AnsweredBy::Person, Behavior::Deny)
            }
            PermissionAnswer::Deny { .. } | PermissionAnswer::Unavailable { .. } => {
                (AnsweredBy::Nobody, Behavior::Deny)
            }
        };
        self.permissions.person_answered(behavior);
        (answered_by, answer)
    }

    /// Builds the failure for a call the approver denied, with the approver's own denial text.
    async fn refused(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
        message: &str,
    ) -> CallStageError {
        let mut failure = self.denied(tool, call, cx, DenialSource::Asked, message).await;
        failure.error.message = self.approver.denial_text(tool.name(), message);
        failure
    }

    async fn denied(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
        by: DenialSource,
        reason: &str,
    ) -> CallStageError {
        self.hooks.permission_denied(&self.subject(tool.as_ref(), call, cx), reason).await;
        let notes = Box::new(HookNotes { denied_by: Some(by), ..HookNotes::default() });
        CallStageError { notes, ..ToolError::new(ErrorKind::Denied, denial_text(tool.name(), reason)).into() }
    }
}

/// Parses and validates rewritten input like the original. `author` names who rewrote it, for the error
/// text.
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
