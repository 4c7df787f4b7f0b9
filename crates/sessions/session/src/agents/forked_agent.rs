//! Forks: sub-agents that continue their parent's conversation.

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

/// The call state of a fork. It declares every tool of its parent, because its requests must begin with
/// the same tool list. Calls of tools that talk to the user are rejected.
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

/// The request settings of a fork: its parent's, without its limits.
pub(super) fn fork_settings(basis: &ForkBasis) -> AgentSettings {
    AgentSettings {
        limits: RunLimits::default(),
        late_input: LateInputPolicy::GoOn,
        ..basis.settings.clone()
    }
}

/// The parent's conversation up to the call that started the fork. Other calls of the same message are
/// left out: they have no results yet.
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

/// The first message of a fork.
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

/// Makes the requests of an agent begin like those of the agent it was forked from, for the prompt
/// cache.
pub(super) fn reuse_prefix(agent: &mut Agent, basis: Option<&ForkBasis>) {
    if let Some(basis) = basis {
        agent.fork_from(basis);
    }
}
