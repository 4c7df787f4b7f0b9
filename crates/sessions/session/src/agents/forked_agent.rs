//! Forks: agents that go on from the conversation they are started in.

use std::sync::Arc;

use haft_agent::{Agent, AgentSettings, Conversation, ForkBasis, LateInputPolicy, RunLimits, UserInput};
use haft_permission::{AgentRights, Behavior, RuleSource};
use haft_tool::{Tool as _, erase};
use haft_tool_runtime::{CallSession, Pool, PoolFilter, SharedPool, ToolSearch};
use haft_types::{Message, MessageBlock, Role, ToolUse};
use serde_json::json;

use super::{
    AgentDefinition, ChildIdentity, ParentCalls,
    builtin::{FORK, fork_directive},
    rights::OF_MAIN,
    spawner::SpawnJob,
};

impl AgentDefinition {
    pub(super) fn is_fork(&self) -> bool {
        self.name == FORK && self.file.is_none()
    }
}

/// What the calls of a fork pass through. It has every tool of its parent, since
/// its requests begin with the same list; those that speak with the person are
/// refused when they are called.
pub(super) fn fork_calls(birth: &SpawnJob, parent: &ParentCalls) -> CallSession {
    let shared = SharedPool::new(Pool::assemble(Vec::new(), Vec::new()));
    let pool = parent.pool.get().narrowed(|name, _| match name {
        ToolSearch::NAME => PoolFilter::Replaced(erase(ToolSearch::new(shared.clone()))),
        _ => PoolFilter::Yes,
    });
    shared.set(pool);
    let rights = AgentRights {
        name: Arc::from(FORK),
        rules: OF_MAIN.iter().map(|it| (Behavior::Deny, Arc::from(*it))).collect(),
        origin: RuleSource { label: Arc::from("a fork, which nobody answers"), ..RuleSource::default() },
        kept_out: birth.isolation.as_ref().and_then(super::isolation::AgentIsolation::kept_out),
        ..AgentRights::default()
    };
    let mut calls = parent.session(&birth.cwd).child(birth.facts.id.clone(), rights);
    calls.pool = shared;
    calls
}

/// How a fork asks: as its parent did, without its parent's limits.
pub(super) fn fork_settings(basis: &ForkBasis) -> AgentSettings {
    AgentSettings {
        limits: RunLimits::default(),
        late_input: LateInputPolicy::GoOn,
        ..basis.settings.clone()
    }
}

/// The parent's conversation until the call that started the fork. Of the
/// message with that call nothing else is kept: calls beside it have no results
/// yet.
pub(super) fn inherit(
    conversation: &mut Conversation,
    basis: &ForkBasis,
    facts: &ChildIdentity,
) -> std::io::Result<()> {
    let call = ToolUse {
        id: facts.call.clone(),
        name: haft_builtin_tools::agent::Agent::NAME.to_owned(),
        input: json!({
            "description": facts.description, "prompt": facts.prompt, "subagent_type": FORK,
        }),
    };
    let call = Message { role: Role::Assistant, content: vec![MessageBlock::ToolUse(call)] };
    let mut messages = basis.messages.clone();
    messages.push(Arc::new(call));
    conversation.inherit(&messages)
}

/// What a fork hears first.
pub(super) fn first_words(facts: &ChildIdentity, task: &str, context: Vec<String>) -> UserInput {
    let text = |text: String| MessageBlock::Text { text };
    let mut content = vec![
        MessageBlock::ToolResult {
            tool_use_id: facts.call.clone(),
            content: String::from("The fork begins here.").into(),
            is_error: false,
        },
        text(fork_directive(task)),
    ];
    content.extend(context.into_iter().map(text));
    UserInput { content, ..UserInput::default() }
}

/// Lets the requests of an agent begin like those it is a fork of.
pub(super) fn begin_like(agent: &mut Agent, basis: Option<&ForkBasis>) {
    if let Some(basis) = basis {
        agent.fork_from(basis);
    }
}
