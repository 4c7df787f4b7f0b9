//! The system prompt of a sub-agent: its definition and its memory.

use haft_agent::{PromptBase, SystemPrompt};
use haft_tool_runtime::CallSession;

use super::{AgentDefinition, AgentMemory, SpawnContext, builtin::NOTES};

/// Maximum bytes of the agent's memory that are put into its prompt.
const MAX_LEARNED: usize = 16 << 10;

/// Builds the system prompt of an agent.
pub(super) async fn prompt(
    world: &SpawnContext,
    kind: &AgentDefinition,
    calls: &CallSession,
    cwd: &std::path::Path,
) -> SystemPrompt {
    let mut prompt = world.prompt.clone();
    prompt.base = PromptBase::Child(format!("{}\n\n{NOTES}", kind.prompt.trim()));
    prompt.environment.cwd = cwd.display().to_string();
    if kind.without_memory {
        prompt.memory = haft_agent::MemoryFiles::default();
    }
    prompt.deferred_tools = calls.pool.get().deferred().map(|(name, _)| name.to_owned()).collect();
    prompt.append = match kind.memory {
        Some(memory) => Some(learned(world, kind, memory).await),
        None => None,
    };
    (prompt.servers, prompt.starting) = (std::collections::BTreeMap::new(), Vec::new());
    prompt.style = None;
    prompt
}

/// The memory of an agent kind, and where its files are.
async fn learned(world: &SpawnContext, kind: &AgentDefinition, memory: AgentMemory) -> String {
    let places = world.premises.store.places();
    let safe: String =
        kind.name.chars().map(|it| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' }).collect();
    let dir = match memory {
        AgentMemory::User => places.user.first().cloned().unwrap_or_default().join("agent-memory"),
        AgentMemory::Project => places.project.join(".claude/agent-memory"),
        AgentMemory::Local => places.project.join(".claude/agent-memory-local"),
    };
    let dir = dir.join(safe);
    let known = tokio::fs::read(dir.join("MEMORY.md")).await.unwrap_or_default();
    let known = String::from_utf8_lossy(&known[..known.len().min(MAX_LEARNED)]).into_owned();
    let known = if known.trim().is_empty() { String::from("(nothing yet)") } else { known };
    format!(
        "# What you learned before\nYou keep what will help you next time in {}: short, in MEMORY.md. This is in it:\n\n{known}",
        dir.display()
    )
}
