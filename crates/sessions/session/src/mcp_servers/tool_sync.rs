//! Adds the tools of MCP servers to the tools of a session.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use haft_agent::{Agent, AgentInbox, UserInput};
use haft_mcp_client::{McpManager, ServerEvent, ServerState, tool_prefix};
use haft_permission::Names;
use haft_tool::DynTool;
use haft_tool_runtime::{CallSession, Pipeline, Pool, SharedPool};
use haft_types::text;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::SessionServers;
use crate::{AgentDefinition, environment::SessionEnvironment};

/// How MCP tools are declared in requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ServerToolLoading {
    /// By name only; ToolSearch loads definitions.
    OnDemand,
    /// All with their definitions.
    AllAtOnce,
    /// All with definitions, up to this percentage of the context window.
    UpTo(u32),
}

/// Estimated characters per token.
const CHARS_PER_TOKEN: u64 = 4;

impl ServerToolLoading {
    /// Parses `HAFT_TOOL_SEARCH` or `ENABLE_TOOL_SEARCH`: `true`, `false`, `auto`, `auto:N`.
    pub(super) fn from_settings(premises: &SessionEnvironment) -> Self {
        let named = |name: &str| premises.variables.text(name).filter(|it| !it.is_empty());
        let value = named("HAFT_TOOL_SEARCH").or_else(|| named("ENABLE_TOOL_SEARCH")).unwrap_or_default();
        match value.split_once(':').unwrap_or((value.as_str(), "10")) {
            ("false" | "0", _) => Self::AllAtOnce,
            ("auto", percent) => Self::UpTo(percent.trim().parse().unwrap_or(10).min(100)),
            _ => Self::OnDemand,
        }
    }
}

/// Maximum time the first request waits for starting servers.
const TIMEOUT: Duration = Duration::from_millis(600);

/// Maximum time the first request waits for servers whose tools must be declared.
const ALWAYS_LOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum bytes of a server's instructions.
const MAX_INSTRUCTIONS: usize = 2048;

/// Maximum number of tool names listed for the model.
const MAX_NAMED: usize = 250;

/// Keeps the tools of a session in sync with its servers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ServerTools {
    manager: McpManager,
    pool: SharedPool,
    pipeline: Arc<Pipeline>,
    loading: ServerToolLoading,
    /// Cancelled when the session ends, so that background tasks release the tools.
    over: CancellationToken,
    /// The definition of the main agent, which may exclude tools.
    kind: Arc<OnceLock<Arc<AgentDefinition>>>,
}

impl ServerTools {
    /// Only tools that a definition leaves come in from now on. The first one
    /// counts.
    pub(crate) fn restrict_to(&self, kind: &Arc<AgentDefinition>) {
        self.kind.set(Arc::clone(kind)).ok();
    }

    /// Stops following the servers and releases the tools, whose pool would otherwise keep itself alive
    /// through the tool search.
    pub(crate) fn let_go(&self) {
        self.over.cancel();
        self.pool.set(Pool::assemble(Vec::new(), Vec::new()));
    }

    pub(crate) fn new(servers: &SessionServers, session: &CallSession) -> Self {
        let (pool, pipeline) = (session.pool.clone(), Arc::clone(&session.pipeline));
        let loading = ServerToolLoading::from_settings(&servers.premises);
        Self {
            manager: servers.manager.clone(),
            pool,
            pipeline,
            loading,
            over: CancellationToken::new(),
            kind: Arc::default(),
        }
    }

    /// Whether the main agent's definition leaves a tool available.
    pub(crate) fn leaves(&self, name: &str) -> bool {
        self.kind.get().is_none_or(|kind| kind.leaves(&self.pool.get(), name))
    }

    /// Installs the tools known now, except excluded ones. Returns the names of new ones.
    pub(crate) fn take(&self) -> Vec<String> {
        if self.manager.names().is_empty() && !self.pool.get().names().any(|it| it.starts_with("mcp__")) {
            return Vec::new();
        }
        let permissions = self.pipeline.gate.permissions();
        permissions.rename(&Arc::new(names(&self.manager)));
        let policy = permissions.policy();
        let mut tools: Vec<Arc<dyn DynTool>> = self.manager.tools();
        tools.retain(|tool| policy.removes(tool.name()).is_none());
        let before = self.pool.get();
        if let Some(kind) = self.kind.get() {
            tools.retain(|tool| kind.leaves(&before, tool.name()));
        }
        let servers = self.manager.downgrade();
        let after = before
            .with_external(tools, |name| self.why_gone(name))
            .with_absence_reasons(Arc::new(move |name| servers.upgrade()?.why_absent(name)));
        let news = after.names().filter(|name| before.get(name).is_none()).map(str::to_owned).collect();
        self.pool.set(after);
        news
    }

    /// The reason why an installed tool cannot be called now.
    fn why_gone(&self, tool: &str) -> String {
        let policy = self.pipeline.gate.permissions().policy();
        match policy.removes(tool) {
            Some(rule) => format!("the rule {} ({}) takes it away", rule.text, rule.origin.label),
            None => match self.manager.why_absent(tool) {
                Some(why) => why.trim_end_matches('.').to_owned(),
                None => String::from("its server is no longer there, or does not offer it any more"),
            },
        }
    }

    /// Waits for starting servers, up to `patience` if given, and adds their tools to the first request.
    pub(crate) async fn begin(&self, agent: &mut Agent, patience: Option<Duration>) {
        let must_wait = self.manager.has_always_loaded();
        let usual = if must_wait { ALWAYS_LOAD_TIMEOUT } else { TIMEOUT };
        self.manager.settled(patience.unwrap_or(usual)).await;
        if let ServerToolLoading::UpTo(percent) = self.loading {
            let most = agent.window() * u64::from(percent) * CHARS_PER_TOKEN / 100;
            self.manager.load_if_small(usize::try_from(most).unwrap_or(usize::MAX));
        }
        self.take();
        let pool = self.pool.get();
        let servers = self.manager.names();
        let deferred = pool.deferred().map(|(name, _)| name.to_owned());
        // Without any server, tools about servers are useless.
        let useless: Vec<String> = if servers.is_empty() {
            haft_mcp_client::resource_tools(&self.manager).iter().map(|it| it.name().to_owned()).collect()
        } else {
            Vec::new()
        };
        let deferred = deferred.filter(|name| !useless.contains(name)).collect();
        agent.prompt.deferred_tools = told(deferred, &servers);
        self.tell_about(agent);
    }

    /// Adds information about the servers to the system prompt. It does not change later; updates are
    /// sent as messages.
    fn tell_about(&self, agent: &mut Agent) {
        for status in self.manager.status() {
            let said = status.info.as_ref().map(|it| it.instructions.trim()).unwrap_or_default();
            if !said.is_empty() {
                let said = text::head(said, MAX_INSTRUCTIONS).to_owned();
                agent.prompt.servers.insert(status.name.clone(), said);
            }
            if status.tools == 0 && matches!(status.state, ServerState::Connecting) {
                agent.prompt.starting.push(status.name);
            }
        }
    }

    /// Follows the servers in the background: late tools become available, and the model is told about
    /// them.
    pub(crate) fn follow(&self, inbox: &AgentInbox) {
        let (mut events, inbox, me) = (self.manager.events(), inbox.clone(), self.clone());
        // Changes between the first look and now.
        me.announce(&inbox);
        let weak = WeakTools {
            watcher: self.manager.downgrade(),
            pool: self.pool.clone(),
            pipeline: Arc::clone(&self.pipeline),
            loading: self.loading,
            over: self.over.clone(),
            kind: Arc::clone(&self.kind),
        };
        drop(me);
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    event = events.recv() => event,
                    () = weak.over.cancelled() => return,
                };
                match event {
                    Ok(ServerEvent::Tools { .. }) | Err(RecvError::Lagged(_)) => match weak.upgrade() {
                        Some(me) => me.announce(&inbox),
                        None => return,
                    },
                    Ok(_) => (),
                    Err(RecvError::Closed) => return,
                }
            }
        });
    }

    /// Installs the current tools and tells the model about new ones.
    pub(crate) fn announce(&self, inbox: &AgentInbox) {
        let news = self.take();
        if !news.is_empty() {
            let more = match news.len().saturating_sub(MAX_NAMED) {
                0 => String::new(),
                more => format!(" and {more} more, which ToolSearch finds by what they do"),
            };
            let named = news[..news.len().min(MAX_NAMED)].join(", ");
            inbox.mention(UserInput::text(haft_types::tags::reminder(&format!(
                "MCP servers brought more tools. Load them with ToolSearch before you call them: {named}{more}"
            ))));
        }
    }
}

/// The tool names to list: for servers with many tools the first ones and a count.
fn told(mut names: Vec<String>, servers: &[String]) -> Vec<String> {
    for server in servers {
        let prefix = tool_prefix(server);
        let (mut count, mut left_out) = (0, 0);
        names.retain(|name| {
            count += usize::from(name.starts_with(&prefix));
            let keep = count <= MAX_NAMED || !name.starts_with(&prefix);
            left_out += usize::from(!keep);
            keep
        });
        if 0 < left_out {
            names.push(format!("{prefix}… ({left_out} more, which ToolSearch finds by what they do)"));
        }
    }
    names
}

/// The names under which rules can refer to MCP tools, including the servers' own names.
pub(crate) fn names(manager: &McpManager) -> Names {
    let mut names = Names::built_in();
    for (name, server, tool) in manager.origins() {
        names.add_remote(&name, &server, &tool);
    }
    names
}

/// A weak reference, which does not keep the servers alive.
struct WeakTools {
    watcher: haft_mcp_client::WeakMcpManager,
    pool: SharedPool,
    pipeline: Arc<Pipeline>,
    loading: ServerToolLoading,
    over: CancellationToken,
    kind: Arc<OnceLock<Arc<AgentDefinition>>>,
}

impl WeakTools {
    fn upgrade(&self) -> Option<ServerTools> {
        let manager = self.watcher.upgrade()?;
        let pipeline = Arc::clone(&self.pipeline);
        let (pool, over) = (self.pool.clone(), self.over.clone());
        let kind = Arc::clone(&self.kind);
        Some(ServerTools { manager, pool, pipeline, loading: self.loading, over, kind })
    }
}

/// Whether a call of this tool needs MCP servers.
pub fn needs_servers(tool: &str) -> bool {
    const ABOUT_SERVERS: &[&str] = &[
        "ListMcpResources",
        "ListMcpResourcesTool",
        "ReadMcpResource",
        "ReadMcpResourceTool",
        "RefreshMcpTools",
    ];
    tool.starts_with("mcp__") || ABOUT_SERVERS.contains(&tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_thousands_of_tools_is_told_in_short() {
        let of =
            |server: &'static str, count: usize| (0..count).map(move |at| format!("mcp__{server}__t{at}"));
        let all: Vec<String> = [String::from("Monitor")]
            .into_iter()
            .chain(of("a", 3))
            .chain(of("b b", 0))
            .chain(of("b_b", 1000))
            .collect();
        let servers = [String::from("a"), String::from("b b")];
        let short = told(all.clone(), &servers);
        assert_eq!(short.len(), 1 + 3 + MAX_NAMED + 1);
        assert_eq!(short[..4 + MAX_NAMED], all[..4 + MAX_NAMED]);
        assert!(short[4 + MAX_NAMED].starts_with("mcp__b_b__… (750 more"), "{:?}", short.last());
        assert_eq!(told(all[..4].to_vec(), &servers), all[..4]);
    }
}
