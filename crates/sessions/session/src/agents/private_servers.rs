//! MCP servers that an agent definition brings: started for one run and stopped after its report.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_mcp_client::{McpManager, tool_prefix};
use haft_tool_runtime::{Pipeline, SharedPool};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{AgentDefinition, ChildIdentity, SpawnContext, SubagentRegistry, rights::matches_pattern};
use crate::SessionEventKind;

/// Maximum time an agent waits for its servers; afterwards it starts without them.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The servers of one run.
pub(super) struct PrivateServers {
    described: Map<String, Value>,
    manager: Mutex<Option<McpManager>>,
}

impl PrivateServers {
    pub(super) fn from_definition(kind: &AgentDefinition) -> Arc<Self> {
        Arc::new(Self { described: kind.own_servers.clone(), manager: Mutex::default() })
    }

    fn manager(&self) -> MutexGuard<'_, Option<McpManager>> {
        self.manager.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the servers and waits until their tools are known. A problem of one server is reported and
    /// does not affect the others.
    pub(super) async fn start(
        &self,
        world: &SpawnContext,
        desk: &SubagentRegistry,
        facts: &ChildIdentity,
        cancel: &CancellationToken,
    ) {
        if self.described.is_empty() {
            return;
        }
        let (manager, problems) = world.servers.of_agent(&self.described);
        *self.manager() = Some(manager.clone());
        tokio::select! {
            _ = manager.settled(TIMEOUT) => (),
            () = cancel.cancelled() => (),
        }
        let reasons = problems.into_iter().map(|it| (it.server, it.reason));
        let failed = manager.names().into_iter().filter(|name| manager.tools_of(name).is_empty());
        let failed = failed.map(|name| {
            let why = manager.why_absent(&format!("{}x", tool_prefix(&name)));
            (name, why.unwrap_or_else(|| String::from("it has no tools")))
        });
        for (server, reason) in reasons.chain(failed) {
            let text = format!("the agent {} does without its server {server}: {reason}", facts.kind);
            desk.tell(facts, SessionEventKind::Notice(text));
        }
    }

    /// Adds their tools to the agent's, unless the definition excludes them.
    pub(super) fn join(&self, pool: &SharedPool, pipeline: &Pipeline, kind: &AgentDefinition) {
        let Some(manager) = self.manager().clone() else { return };
        let policy = pipeline.gate.permissions().policy();
        let is_out = |name: &str| {
            policy.removes(name).is_some()
                || kind.disallowed.iter().any(|it| it == name || matches_pattern(it, name))
        };
        let mut tools = manager.tools();
        tools.retain(|tool| !is_out(tool.name()));
        pool.set(pool.get().with_more(tools));
    }

    /// Whether a tool pattern in a definition refers to one of these servers.
    pub(super) fn brings(&self, pattern: &str) -> bool {
        let Some(manager) = self.manager().clone() else { return false };
        manager.tools().iter().any(|it| it.name() == pattern || matches_pattern(pattern, it.name()))
    }

    /// Stops the servers after the run.
    pub(super) async fn stop(&self) {
        let manager = self.manager().take();
        if let Some(manager) = manager {
            manager.shutdown().await;
        }
    }
}
