//! The tree of agents of a session: pure state without waiting or I/O.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use haft_agent::{AgentInbox, DeniedToolCall};
use haft_builtin_tools::agent::{AgentReport, KilledBy};
use haft_types::AgentId;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use super::{ChildIdentity, ParentCalls, mail_item::MailItem};

/// Limits of sub-agents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TreeLimits {
    /// Maximum depth below the main agent.
    pub(crate) depth: u32,
    /// Maximum number of agents that run at once; further ones wait for a slot.
    pub(crate) live: usize,
    /// Maximum number of agents spawned per prompt of the user, by all agents together.
    pub(crate) per_prompt: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { depth: 3, live: 20, per_prompt: 200 }
    }
}

impl TreeLimits {
    /// Reads the numbers of running and spawned agents from environment variables. Zero and invalid
    /// values are ignored; at most 10,000 agents run at once.
    pub(crate) fn from(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |names: [&str; 2]| {
            let set = names.iter().find_map(|name| variable(name)?.trim().parse::<usize>().ok());
            set.filter(|it| 0 < *it)
        };
        let usual = Self::default();
        let live = number(["HAFT_MAX_AGENTS", "CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS"]);
        let per_prompt = number(["HAFT_MAX_AGENTS_PER_PROMPT", "CLAUDE_CODE_MAX_SUBAGENTS_PER_PROMPT"]);
        Self {
            live: live.unwrap_or(usual.live).min(10_000),
            per_prompt: per_prompt.unwrap_or(usual.per_prompt),
            ..usual
        }
    }
}

/// Who receives the report of an agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReportWaiter {
    /// The call that started it, as its result.
    Call,
    /// Its parent, as mail that justifies a turn.
    Mail,
    /// Its parent, along with the next request.
    Mention,
    /// Nobody: the agent that stopped it has its answer already.
    Nobody,
}

/// State of an agent, as seen by the call that waits for it.
#[derive(Clone, Debug)]
pub(crate) enum ChildSignal {
    /// The agent runs.
    Working,
    /// The agent moved to the background: the call returns.
    Moved,
    /// The agent has ended.
    Ended(Arc<AgentReport>),
}

/// Who stopped an agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StoppedBy {
    /// The interrupt of its parent's turn.
    Interrupt,
    /// A call of its parent.
    Parent,
    /// The user.
    Person,
    /// The user, with all other agents. It can be resumed.
    AllStopped,
    /// The end of the session.
    Session,
}

impl StoppedBy {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Interrupt => "the turn that waited for it was interrupted",
            Self::Parent => "the agent that started it stopped it",
            Self::Person => "the user stopped it",
            Self::AllStopped => "the user stopped it with all others; a message lets it go on",
            Self::Session => "the session ended",
        }
    }

    /// The value for telemetry.
    pub(crate) fn killer(self) -> KilledBy {
        match self {
            Self::Interrupt | Self::Person | Self::AllStopped => KilledBy::User,
            Self::Parent => KilledBy::Parent,
            Self::Session => KilledBy::System,
        }
    }
}

/// A node of the tree: one agent.
pub(crate) struct AgentNode {
    pub(crate) facts: Arc<ChildIdentity>,
    pub(crate) waiter: ReportWaiter,
    /// Report of its last run, if that has ended.
    pub(crate) report: Option<Arc<AgentReport>>,
    pub(crate) signal: watch::Sender<ChildSignal>,
    pub(crate) cancel: CancellationToken,
    pub(crate) stopped_by: Option<StoppedBy>,
    /// Input for the running agent.
    pub(crate) inbox: AgentInbox,
    /// Call state that its own sub-agents are built from, while it runs.
    pub(crate) calls: Option<ParentCalls>,
    /// Kinds it may spawn; `None` for all.
    pub(crate) kinds: Option<Vec<String>>,
    /// Its concurrency slot, while it runs.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
    /// Number of its calls that wait for sub-agents.
    pub(crate) waits: u32,
    /// Its latest text, for progress displays.
    pub(crate) last_text: String,
}

impl AgentNode {
    pub(crate) fn is_live(&self) -> bool {
        self.report.is_none()
    }
}

/// Why an agent was not spawned, as text for the model.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SpawnRefusal(pub(crate) String);

/// All agents of a session.
#[derive(Default)]
pub(crate) struct AgentTree {
    pub(crate) nodes: BTreeMap<AgentId, AgentNode>,
    /// The newest agent with a name, by team.
    names: HashMap<(Option<String>, String), AgentId>,
    /// The team that the session leads.
    pub(super) team: Option<String>,
    /// Number of agents spawned since the last prompt of the user.
    started: usize,
    /// Unread mail of the main agent.
    pub(super) mail: Vec<MailItem>,
    /// Denied calls of sub-agents since the main agent's last turn ended.
    pub(super) denied: Vec<DeniedToolCall>,
    /// Kinds the main agent may spawn; `None` for all.
    pub(super) kinds_of_main: Option<Vec<String>>,
}

impl AgentTree {
    /// Checks whether an agent may spawn another one of this kind, and returns the new agent's depth.
    pub(crate) fn admit(
        &mut self,
        parent: &AgentId,
        kind: &str,
        limits: TreeLimits,
    ) -> Result<u32, SpawnRefusal> {
        let refuse = |why: String| Err(SpawnRefusal(why));
        let depth = match parent {
            AgentId::Main => 1,
            child => match self.nodes.get(child) {
                None => return refuse(String::from("only agents of this session can start agents")),
                Some(node) => node.facts.depth + 1,
            },
        };
        if let Some(kinds) = self.kinds_of(parent)
            && !kinds.iter().any(|it| it == kind)
        {
            return refuse(format!("this agent may only start agents of these kinds: {}", kinds.join(", ")));
        }
        if limits.depth < depth {
            return refuse(format!(
                "agents may start agents {} levels deep, and this would be level {depth}: do the work yourself",
                limits.depth
            ));
        }
        if limits.per_prompt <= self.started {
            return refuse(format!(
                "{} agents were started for this prompt, which is the limit (HAFT_MAX_AGENTS_PER_PROMPT): do the rest yourself, or tell the user what is left",
                self.started
            ));
        }
        self.started += 1;
        Ok(depth)
    }

    /// The kinds an agent may spawn, limited by its definition or those of its ancestors; `None` for
    /// all.
    pub(super) fn kinds_of(&self, parent: &AgentId) -> Option<&Vec<String>> {
        match parent {
            AgentId::Main => self.kinds_of_main.as_ref(),
            child => self.nodes.get(child)?.kinds.as_ref(),
        }
    }

    /// Resets the number of spawned agents: the user sent a prompt.
    pub(crate) fn begin_prompt(&mut self) {
        self.started = 0;
    }

    pub(crate) fn insert(&mut self, node: AgentNode) {
        if let Some(name) = &node.facts.name {
            let key = (node.facts.team.clone(), name.clone());
            self.names.insert(key, node.facts.id.clone());
        }
        self.nodes.insert(node.facts.id.clone(), node);
    }

    /// Finds an agent by id or name, from the main agent's view.
    pub(crate) fn find(&self, id_or_name: &str) -> Option<AgentId> {
        self.find_for(&AgentId::Main, id_or_name)
    }

    /// Finds an agent by id or name, from the view of another agent: names are those of its own team and
    /// of agents without a team.
    pub(super) fn find_for(&self, who: &AgentId, id_or_name: &str) -> Option<AgentId> {
        let named = |team: Option<String>| self.names.get(&(team, id_or_name.to_owned()));
        let by_name = named(self.team_of(who)).or_else(|| named(None));
        let by_id = || self.nodes.keys().find(|id| id.as_str() == id_or_name);
        by_name.or_else(by_id).cloned()
    }

    /// The team of an agent; for the main agent, the team it leads.
    pub(super) fn team_of(&self, who: &AgentId) -> Option<String> {
        match who {
            AgentId::Main => self.team.clone(),
            who => self.nodes.get(who).and_then(|it| it.facts.team.clone()),
        }
    }

    /// Whether an agent belongs to a team that has ended.
    pub(super) fn is_of_ended_team(&self, id: &AgentId) -> bool {
        self.nodes.get(id).is_some_and(|it| it.facts.team.is_some() && it.facts.team != self.team)
    }

    /// Removes the names and the unread mail of a team's agents, and returns their ids.
    pub(super) fn end_team(&mut self, team: &str) -> Vec<AgentId> {
        self.names.retain(|(of, _), _| of.as_deref() != Some(team));
        let of_team = self.nodes.values().filter(|it| it.facts.team.as_deref() == Some(team));
        of_team
            .map(|node| {
                node.inbox.take();
                node.facts.id.clone()
            })
            .collect()
    }

    /// An agent and all its descendants, every agent before those it started.
    pub(crate) fn subtree(&self, id: &AgentId) -> Vec<AgentId> {
        let mut found = vec![id.clone()];
        let mut at = 0;
        while at < found.len() {
            let parent = found[at].clone();
            found.extend(
                self.nodes.values().filter(|it| it.facts.parent == parent).map(|it| it.facts.id.clone()),
            );
            at += 1;
        }
        found
    }

    /// Running agents of a parent that no call waits for.
    pub(crate) fn in_background(&self, parent: &AgentId) -> Vec<Arc<ChildIdentity>> {
        let of_parent = self.nodes.values().filter(|it| it.facts.parent == *parent && it.is_live());
        of_parent.filter(|it| it.waiter != ReportWaiter::Call).map(|it| Arc::clone(&it.facts)).collect()
    }

    /// All running agents that no call waits for.
    pub(crate) fn all_in_background(&self) -> Vec<Arc<ChildIdentity>> {
        let live = self.nodes.values().filter(|it| it.is_live() && it.waiter != ReportWaiter::Call);
        live.map(|it| Arc::clone(&it.facts)).collect()
    }

    /// Stops an agent and all its descendants.
    pub(crate) fn stop(&mut self, id: &AgentId, by: StoppedBy) {
        for id in self.subtree(id) {
            if let Some(node) = self.nodes.get_mut(&id).filter(|it| it.is_live()) {
                node.stopped_by.get_or_insert(by);
                node.cancel.cancel();
            }
        }
    }
}
