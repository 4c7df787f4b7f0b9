//! Stages three and four: hooks, then permission. Both look at the final input,
//! and whatever rewrites the input sends it through the check again.

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
    Answer, AnsweredBy, ApprovalRecord, Approver, CallDecision, DenialSource, NoApprover, Question,
    SessionHooks,
    approver::refusal,
    pipeline::CallStageError,
    session_hooks::{HookNotes, HookSubject, IfContext, PreToolOutcome, RuleMatches},
};

/// Everybody who may object to a call of one agent. A session has one gate for
/// its main agent; [`Gate::child`] makes the others from it.
pub struct Gate {
    hooks: Arc<SessionHooks>,
    ask: Arc<dyn Approver>,
    permissions: Arc<LivePermissions>,
    keep: Option<Arc<dyn UpdateStore>>,
    /// The type of the child whose gate this is.
    agent_type: Option<Arc<str>>,
    /// What the person said no to, whoever of the session asked.
    refused: Arc<Mutex<VecDeque<RejectedCall>>>,
    /// The mode from which the agent went planning.
    before_plan: Mutex<Option<PermissionMode>>,
}

/// A call that the person said no to.
struct RejectedCall {
    agent: AgentId,
    /// Who that is, in words.
    name: String,
    tool: String,
    input: Value,
}

/// Older ones are forgotten.
const MAX_REFUSED: usize = 200;

/// Writes what a person wants remembered beyond the session to where they want
/// it.
pub trait UpdateStore: Send + Sync {
    /// Keeps one change. Whoever implements it tells the person when it cannot.
    fn keep(&self, update: &PermissionUpdate);

    /// Hears of every change, also of those that end with the session.
    fn heard(&self, _update: &PermissionUpdate) {}
}

/// A question of another machine's rules.
pub struct ElsewhereQuestion<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The call.
    pub call_id: &'a haft_types::CallId,
    /// Who called.
    pub agent_id: &'a AgentId,
    /// The input.
    pub input: &'a Value,
    /// One line that says what would happen.
    pub description: &'a str,
    /// Whether it loses data that cannot be brought back.
    pub is_destructive: bool,
    /// What a person should see of it.
    pub shown: &'a haft_tool::Rendered,
    /// Why it is asked.
    pub reason: String,
    /// What would answer it for the rest of the session over there.
    pub suggestions: Vec<PermissionUpdate>,
}

/// A call that passed the hooks.
pub(crate) struct HookedCall {
    pub(crate) call: Box<dyn DynCall>,
    pub(crate) opinion: HookOpinion,
    pub(crate) notes: HookNotes,
    /// What a classifier said meanwhile.
    foreseen: Option<SpeculativeAnswer>,
}

impl Gate {
    /// No hooks, and nobody to ask.
    pub fn new(policy: Policy) -> Self {
        Self::of_session(Arc::new(LivePermissions::new(policy)))
    }

    /// No hooks, and nobody to ask, for permissions that others change too.
    pub fn of_session(permissions: Arc<LivePermissions>) -> Self {
        Self {
            hooks: Arc::default(),
            ask: Arc::new(NoApprover),
            permissions,
            keep: None,
            agent_type: None,
            refused: Arc::default(),
            before_plan: Mutex::default(),
        }
    }

    /// The gate of an agent that this gate's agent starts. Its permissions are a
    /// live view on this gate's; it has the same hooks, which are told the
    /// child's id and type, and asks the same person, who is told the id. What
    /// the person adds while answering holds for the whole session; a mode the
    /// child goes into is the child's alone.
    pub fn child(&self, rights: AgentRights) -> Self {
        Self {
            hooks: Arc::clone(&self.hooks),
            ask: Arc::clone(&self.ask),
            keep: self.keep.clone(),
            agent_type: Some(Arc::clone(&rights.name)),
            permissions: Arc::new(self.permissions.child(rights)),
            refused: Arc::clone(&self.refused),
            before_plan: Mutex::default(),
        }
    }

    /// Notes that the person said no to a call.
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

    /// A no to one agent is no yes to another: what another agent was denied is
    /// asked about again, also where the mode would let it through.
    fn cautious(&self, decision: Decision, tool: &str, input: &Value, agent: &AgentId) -> Decision {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |it: &&RejectedCall| it.agent != *agent && it.tool == tool && it.input == *input;
        match refused.iter().rev().find(same) {
            Some(it) => decision.refused_before(&format!("the user denied the same call to {}", it.name)),
            None => decision,
        }
    }

    /// With these hooks.
    pub fn with_hooks(mut self, hooks: impl Into<Arc<SessionHooks>>) -> Self {
        self.hooks = hooks.into();
        self
    }

    /// With somebody to ask.
    pub fn with_ask(mut self, ask: Arc<dyn Approver>) -> Self {
        self.ask = ask;
        self
    }

    /// With somewhere to keep what is to be remembered.
    pub fn with_keep(mut self, keep: Arc<dyn UpdateStore>) -> Self {
        self.keep = Some(keep);
        self
    }

    /// What decides.
    pub fn permissions(&self) -> &Arc<LivePermissions> {
        &self.permissions
    }

    /// Changes what decides; calls that were let through already go on.
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

    /// The agent goes on in another mode.
    pub fn set_mode(&self, mode: PermissionMode) {
        self.apply(&PermissionUpdate::SetMode { mode, destination: Destination::Session });
    }

    /// Takes over what a call changed, as far as the gate holds it. Every way a
    /// call can come in ends here and in [`CallSessionState::apply`].
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

    /// The hooks.
    pub fn hooks(&self) -> &Arc<SessionHooks> {
        &self.hooks
    }

    /// What hooks are told about the agent of this gate with every event.
    pub fn hook_base(&self, agent: &AgentId, cwd: PathBuf) -> BaseInput {
        self.hooks.base_of(agent, self.agent_type.as_deref(), cwd, self.mode())
    }

    /// A call as hooks are told about it.
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

    /// The same when the call is gone.
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

    /// The mode in force.
    pub fn mode(&self) -> PermissionMode {
        self.permissions.policy().mode
    }

    /// What a classifier says about a call that hooks have not said anything about
    /// yet. Only auto mode has one.
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
        let decision = self.cautious(decision, tool.name(), call.input(), &cx.agent_id);
        self.permissions.foresee(&decision, tool.name(), call).await
    }

    /// Hooks and the classifier beside each other: each may take its time. Where a
    /// hook settles the matter, nobody waits for the classifier.
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

    /// Stage three.
    pub(crate) async fn hooked(
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

    /// Stage four. What was decided is left in `decided`, whatever comes of it.
    pub(crate) async fn permitted(
        &self,
        tool: &Arc<dyn DynTool>,
        hooked: HookedCall,
        cx: &CallContext,
        decided: &mut Option<Box<CallDecision>>,
    ) -> Result<(Box<dyn DynCall>, Permit), CallStageError> {
        let HookedCall { call, opinion, foreseen, .. } = hooked;
        let decision = self.permissions.policy().judge(tool.name(), call.as_ref(), cx, &opinion);
        let decision = self.cautious(decision, tool.name(), call.input(), &cx.agent_id);
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
        let (who, answer) = self.answer(tool, call.as_ref(), cx, &decision).await;
        let said = match answer {
            Answer::Allow { .. } => Behavior::Allow,
            Answer::Deny { .. } | Answer::Unasked { .. } => Behavior::Deny,
        };
        told.asked = Some(ApprovalRecord { who, said });
        match answer {
            Answer::Deny { message, interrupt } => {
                if who == AnsweredBy::Person {
                    self.note_refusal(tool.name(), call.input(), &cx.agent_id);
                }
                let mut failure = self.refused(tool, call.as_ref(), cx, &message).await;
                failure.notes.stop = interrupt.then_some(message);
                Err(failure)
            }
            Answer::Unasked { message } => Err(self.refused(tool, call.as_ref(), cx, &message).await),
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
                        let by = DenialSource::from(&decision.source);
                        Err(self.denied(tool, call.as_ref(), cx, by, &decision.reason).await)
                    }
                }
            }
        }
    }

    /// Asks the person about a call that the rules of another machine ask about.
    /// Nothing runs here by the answer. Modes in which nobody is asked, and
    /// sessions without a person, say no.
    pub async fn ask_elsewhere(&self, question: ElsewhereQuestion<'_>) -> Answer {
        let ElsewhereQuestion { tool, call_id, agent_id, input, description, is_destructive, shown, .. } =
            question;
        let decision = Decision::elsewhere(question.reason, question.suggestions);
        let question = Question {
            tool,
            call_id,
            agent_id,
            input,
            description,
            is_destructive,
            shown,
            decision: &decision,
        };
        if self.mode() == PermissionMode::DontAsk {
            NoApprover.ask(question).await
        } else {
            self.ask.ask(question).await
        }
    }

    async fn answer(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
        decision: &Decision,
    ) -> (AnsweredBy, Answer) {
        let (description, shown) = (call.describe(), call.render());
        let question = Question {
            tool: tool.name(),
            call_id: &cx.call_id,
            agent_id: &cx.agent_id,
            input: call.input(),
            description: &description,
            is_destructive: call.is_destructive(),
            shown: &shown,
            decision,
        };
        let subject = self.subject(tool.as_ref(), call, cx);
        match self.hooks.permission_request(&subject, &decision.suggestions).await {
            Some(answer) => (AnsweredBy::Hook, answer),
            None => {
                let answer = self.ask.ask(question).await;
                let (who, said) = match answer {
                    Answer::Allow { .. } => (AnsweredBy::Person, Behavior::Allow),
                    Answer::Deny { .. } if self.ask.is_somebody() => (AnsweredBy::Person, Behavior::Deny),
                    Answer::Deny { .. } | Answer::Unasked { .. } => (AnsweredBy::Nobody, Behavior::Deny),
                };
                self.permissions.person_answered(said);
                (who, answer)
            }
        }
    }

    /// A call that whoever was asked did not allow, in the words of who asks.
    async fn refused(
        &self,
        tool: &Arc<dyn DynTool>,
        call: &dyn DynCall,
        cx: &CallContext,
        message: &str,
    ) -> CallStageError {
        let mut failure = self.denied(tool, call, cx, DenialSource::Asked, message).await;
        failure.error.message = self.ask.refusal(tool.name(), message);
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
        CallStageError { notes, ..ToolError::new(ErrorKind::Denied, refusal(tool.name(), reason)).into() }
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
