//! Runs the user's hooks for the stages of a call.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use haft_hooks::{
    BaseInput, BatchCall, BlockCause, EventInput, HookDecision, HookEvent, HookInput, HookPermissionAnswer,
    HookRewrite, Hooks, PermissionBehavior, PermissionDenied, PermissionRequest, PostToolBatch, PostToolUse,
    PostToolUseFailure, PreToolUse, RefusedRewrite,
};
use haft_permission::{HookOpinion, PermissionUpdate, Policy};
use haft_tool::{CallContext, DynCall, DynTool, ErrorKind, Output, ToolError};
use haft_types::{AgentId, PermissionMode, SessionId};
use serde_json::Value;

use crate::{AnsweredCall, DenialSource, PermissionAnswer};

/// Stop reason of a call that a hook deferred. For display only; test [`crate::CallReport::left_for_later`]
/// instead.
pub const LEFT_FOR_LATER: &str = "the call is left for later";

/// The hooks of a session, with the session id and log path that hooks receive. All can be replaced
/// while calls run.
pub struct SessionHooks {
    hooks: RwLock<Hooks>,
    session: RwLock<(SessionId, PathBuf)>,
}

/// A call in the form hooks receive it.
pub(crate) struct HookSubject<'a> {
    pub(crate) tool: &'a dyn DynTool,
    pub(crate) input: &'a Value,
    pub(crate) cx: &'a CallContext,
    pub(crate) mode: PermissionMode,
    /// Agent type of the calling sub-agent; `None` for the main agent.
    pub(crate) agent_type: Option<&'a str>,
    pub(crate) compared: IfContext<'a>,
}

/// What the rules in a hook's `if` are matched against.
pub(crate) enum IfContext<'a> {
    /// The call itself, matched by the policy of its agent.
    Call { policy: Arc<Policy>, call: &'a dyn DynCall },
    /// Matches computed before the call ran.
    Past(&'a RuleMatches),
}

/// For each rule, whether it matches a call that has been consumed by running it.
pub(crate) type RuleMatches = HashMap<String, bool>;

impl HookSubject<'_> {
    /// Whether `rule` matches the call. For a past call, a rule that was added since counts as a match.
    pub(crate) fn is_about(&self, rule: &str) -> bool {
        match &self.compared {
            IfContext::Call { policy, call } => policy.is_about(rule, self.tool.name(), *call, self.cx),
            IfContext::Past(answers) => answers.get(rule).copied().unwrap_or(true),
        }
    }

    /// Computes the matches needed by the hooks of later `events`.
    pub(crate) fn answers(&self, hooks: &Hooks, events: &[HookEvent]) -> RuleMatches {
        hooks.conditions(events).map(|rule| (rule.to_owned(), self.is_about(rule))).collect()
    }
}

/// The combined answers of all `PreToolUse` hooks.
#[derive(Debug, Default)]
pub(crate) struct PreToolOutcome {
    pub(crate) opinion: HookOpinion,
    /// Why a hook that must answer before the call failed to answer. If set, the call must not run.
    pub(crate) gate_failed: Option<String>,
    pub(crate) rewrite: Option<HookRewrite>,
    pub(crate) notes: HookNotes,
}

/// The combined answers of all `PostToolUse` or `PostToolUseFailure` hooks.
#[derive(Debug, Default)]
pub(crate) struct PostToolOutcome {
    /// Replaces the output the model reads.
    pub(crate) updated_output: Option<Value>,
    /// An objection to the result, added to what the model reads.
    pub(crate) objection: Option<String>,
    pub(crate) notes: HookNotes,
}

/// Output that any hook may return.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookNotes {
    /// Text for the model, added next to the result.
    pub context: Vec<String>,
    /// Text for the user.
    pub notices: Vec<String>,
    /// Why the whole turn ends; `None` if it goes on.
    pub stop: Option<String>,
    /// Whether the turn ends because a hook deferred the call.
    pub(crate) left_for_later: bool,
    /// What denied the call, if it was denied.
    pub(crate) denied_by: Option<DenialSource>,
}

impl HookNotes {
    pub(crate) fn extend(&mut self, more: Self) {
        self.context.extend(more.context);
        self.notices.extend(more.notices);
        self.stop = self.stop.take().or(more.stop);
        self.left_for_later |= more.left_for_later;
        self.denied_by = self.denied_by.or(more.denied_by);
    }
}

impl Default for SessionHooks {
    fn default() -> Self {
        Self::new(Hooks::default(), SessionId::from(""), PathBuf::new())
    }
}

impl SessionHooks {
    /// Creates the hooks of a session. `transcript_path` is the session log.
    pub fn new(hooks: Hooks, session_id: SessionId, transcript_path: PathBuf) -> Self {
        Self { hooks: RwLock::new(hooks), session: RwLock::new((session_id, transcript_path)) }
    }

    /// Returns a snapshot of the current hooks.
    pub fn get(&self) -> Hooks {
        self.hooks.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the hooks. Hooks that are running finish.
    pub fn set(&self, hooks: Hooks) {
        *self.hooks.write().unwrap_or_else(PoisonError::into_inner) = hooks;
    }

    /// Replaces the hooks by `change(current)`. Holds the write lock meanwhile, so `change` must not
    /// call other methods of this object.
    pub fn change(&self, change: impl FnOnce(&Hooks) -> Hooks) {
        let mut hooks = self.hooks.write().unwrap_or_else(PoisonError::into_inner);
        *hooks = change(&hooks);
    }

    /// Sets the session id and log path that later hook events carry.
    pub fn set_session(&self, id: SessionId, log: PathBuf) {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = (id, log);
    }

    /// Returns the session id and the path of its log.
    pub fn session(&self) -> (SessionId, PathBuf) {
        self.session.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the fields that every hook event of this session carries.
    pub fn base(&self, cwd: PathBuf, mode: PermissionMode) -> BaseInput {
        let (id, log) = self.session.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut base = BaseInput::new(id, log, cwd);
        base.permission_mode = Some(mode.name().to_owned());
        base
    }

    /// Like [`SessionHooks::base`], for an event of one agent. Only sub-agents have their id set.
    pub(crate) fn base_of(
        &self,
        agent: &AgentId,
        agent_type: Option<&str>,
        cwd: PathBuf,
        mode: PermissionMode,
    ) -> BaseInput {
        let mut base = self.base(cwd, mode);
        base.agent_id = agent.child().cloned();
        base.agent_type = agent_type.map(str::to_owned);
        base
    }

    pub(crate) fn listens(&self, event: HookEvent) -> bool {
        self.hooks.read().unwrap_or_else(PoisonError::into_inner).listens(event)
    }

    /// Runs the `PreToolUse` hooks.
    pub(crate) async fn before(&self, subject: &HookSubject<'_>) -> PreToolOutcome {
        if !self.listens(HookEvent::PreToolUse) {
            return PreToolOutcome::default();
        }
        let event = PreToolUse {
            tool_name: subject.tool.name().to_owned(),
            tool_input: subject.input.clone(),
            tool_use_id: subject.cx.call_id.clone(),
            mcp_server: None,
        };
        let outcome = self.run(subject, event).await;
        let notes = notes(&outcome);
        let mut before =
            PreToolOutcome { rewrite: outcome.updated_input, notes, ..PreToolOutcome::default() };
        match outcome.decision {
            HookDecision::NoOpinion => (),
            HookDecision::Allow { .. } => before.opinion = HookOpinion::Allow,
            HookDecision::Ask { reason } => before.opinion = HookOpinion::Ask(reason),
            HookDecision::Defer { .. } => {
                before.notes.stop = Some(LEFT_FOR_LATER.to_owned());
                before.notes.left_for_later = true;
            }
            HookDecision::Block { reason, cause: BlockCause::SaidNo } => {
                before.opinion = HookOpinion::Deny(reason)
            }
            HookDecision::Block { reason, cause: BlockCause::CouldNotRun } => {
                before.gate_failed = Some(reason)
            }
        }
        before
    }

    /// Called when the tool rejected an input that a hook rewrote. Returns the notice for the user if
    /// the original input is used instead, or the error if the hook's policy blocks the call.
    pub(crate) fn rewrite_refused(&self, rewrite: &HookRewrite, problem: &str) -> Result<String, ToolError> {
        match self.get().rewrite_refused(rewrite, problem) {
            RefusedRewrite::UseOriginal { notice } => Ok(notice),
            RefusedRewrite::Blocked(decision) => {
                let reason = match decision {
                    HookDecision::Block { reason, .. } => reason,
                    _ => problem.to_owned(),
                };
                Err(ToolError::new(ErrorKind::GateFailed, reason))
            }
        }
    }

    pub(crate) fn rewrite_accepted(&self, rewrite: &HookRewrite) {
        self.get().rewrite_accepted(rewrite);
    }

    /// Runs the `PermissionRequest` hooks, before the approver is asked. An answer replaces the
    /// approver's.
    pub(crate) async fn permission_request(
        &self,
        subject: &HookSubject<'_>,
        suggestions: &[PermissionUpdate],
    ) -> Option<PermissionAnswer> {
        if !self.listens(HookEvent::PermissionRequest) {
            return None;
        }
        let event = PermissionRequest {
            tool_name: subject.tool.name().to_owned(),
            tool_input: subject.input.clone(),
            permission_suggestions: suggestions
                .iter()
                .filter_map(|it| serde_json::to_value(it).ok())
                .collect(),
        };
        let outcome = self.run(subject, event).await;
        match (outcome.extras.permission, outcome.decision) {
            (_, HookDecision::Block { reason, .. }) => Some(PermissionAnswer::deny(reason)),
            (Some(answer), _) => Some(answered(answer)),
            (None, _) => None,
        }
    }

    /// Runs the `PermissionDenied` hooks.
    pub(crate) async fn permission_denied(&self, subject: &HookSubject<'_>, reason: &str) {
        if !self.listens(HookEvent::PermissionDenied) {
            return;
        }
        let event = PermissionDenied {
            tool_name: subject.tool.name().to_owned(),
            tool_input: subject.input.clone(),
            tool_use_id: subject.cx.call_id.clone(),
            reason: reason.to_owned(),
        };
        self.run(subject, event).await;
    }

    /// Runs the `PostToolUse` hooks, or the `PostToolUseFailure` hooks if the call failed.
    pub(crate) async fn after(
        &self,
        subject: &HookSubject<'_>,
        ran: &Result<Output, ToolError>,
        took: Duration,
    ) -> PostToolOutcome {
        let event = match ran {
            Ok(_) => HookEvent::PostToolUse,
            Err(_) => HookEvent::PostToolUseFailure,
        };
        if !self.listens(event) {
            return PostToolOutcome::default();
        }
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let (tool_name, tool_input) = (subject.tool.name().to_owned(), subject.input.clone());
        let tool_use_id = subject.cx.call_id.clone();
        let event: EventInput = match ran {
            Ok(output) => {
                let response =
                    if output.data.is_null() { output.content.to_text().into() } else { output.data.clone() };
                PostToolUse {
                    tool_name,
                    tool_input,
                    tool_response: response,
                    tool_use_id,
                    duration_ms,
                    mcp_server: None,
                }
                .into()
            }
            Err(error) => PostToolUseFailure {
                tool_name,
                tool_input,
                tool_use_id,
                error: error.message.clone(),
                is_interrupt: error.kind == ErrorKind::Interrupted,
                duration_ms,
            }
            .into(),
        };
        let outcome = self.run(subject, event).await;
        let notes = notes(&outcome);
        let objection = match outcome.decision {
            HookDecision::Block { reason, .. } => Some(reason),
            _ => None,
        };
        let extras = outcome.extras;
        PostToolOutcome {
            updated_output: extras.updated_tool_output.or(extras.updated_mcp_tool_output),
            objection,
            notes,
        }
    }

    /// Runs the `PostToolBatch` hooks, after all calls of a message.
    pub(crate) async fn after_batch(
        &self,
        answered: &[&AnsweredCall],
        base: impl FnOnce() -> BaseInput,
    ) -> HookNotes {
        if !self.listens(HookEvent::PostToolBatch) {
            return HookNotes::default();
        }
        let call = |AnsweredCall { call, report }: &AnsweredCall| BatchCall {
            tool_name: report.name.clone(),
            tool_input: call.input.clone(),
            tool_use_id: report.id.clone(),
            tool_response: Some(report.content.to_text().into()),
        };
        let event = PostToolBatch { tool_calls: answered.iter().map(|it| call(it)).collect() };
        let input = HookInput { base: base(), event: event.into(), aliases: Vec::new() };
        notes(&self.get().run(&input).await)
    }

    /// Ends hooks that still run in the background. Waits at most `patience`.
    pub async fn close(&self, patience: Duration) {
        self.get().close(patience).await;
    }

    async fn run(&self, subject: &HookSubject<'_>, event: impl Into<EventInput>) -> haft_hooks::HooksOutcome {
        let input = self.input(subject, event);
        self.get().run_for_call(&input, &|rule| subject.is_about(rule)).await
    }

    fn input(&self, subject: &HookSubject<'_>, event: impl Into<EventInput>) -> HookInput {
        let cwd = subject.cx.cwd.to_path_buf();
        let base = self.base_of(&subject.cx.agent_id, subject.agent_type, cwd, subject.mode);
        HookInput { base, event: event.into(), aliases: subject.tool.aliases() }
    }
}

fn notes(outcome: &haft_hooks::HooksOutcome) -> HookNotes {
    let broken = outcome.reports.iter().filter_map(haft_hooks::HookReport::notice);
    HookNotes {
        context: outcome.additional_context.clone(),
        notices: outcome.system_messages.iter().cloned().chain(broken).collect(),
        stop: outcome.stop.as_ref().map(|it| {
            if it.reason.is_empty() { String::from("a hook ended the turn") } else { it.reason.clone() }
        }),
        left_for_later: false,
        denied_by: None,
    }
}

fn answered(answer: HookPermissionAnswer) -> PermissionAnswer {
    match answer.behavior {
        PermissionBehavior::Allow => {
            let updates = answer.updated_permissions.unwrap_or_default().into_iter();
            PermissionAnswer::Allow {
                updated_input: answer.updated_input.map(Value::Object),
                updates: updates.filter_map(|it| serde_json::from_value(it).ok()).collect(),
            }
        }
        PermissionBehavior::Deny => PermissionAnswer::Deny {
            message: answer.message.unwrap_or_else(|| String::from("a hook said no")),
            interrupt: answer.interrupt.unwrap_or(false),
        },
    }
}
