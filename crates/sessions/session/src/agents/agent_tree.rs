//! Who works for whom: the state of all agents of a session, without any
//! waiting or writing.

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

/// What bounds the agents of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TreeLimits {
    /// How far below the main agent there may be agents.
    pub(crate) depth: u32,
    /// Agents that work at once; others wait for their turn.
    pub(crate) live: usize,
    /// Agents that are started for one prompt, by whomever.
    pub(crate) per_prompt: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { depth: 3, live: 20, per_prompt: 200 }
    }
}

impl TreeLimits {
    /// What variables say.
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

/// Who gets the report of an agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReportWaiter {
    /// The call that started it.
    Call,
    /// Its parent, when it comes to it.
    Mail,
    /// Its parent, together with the next request: no reason for one.
    Mention,
    /// Nobody: whoever stopped it was told then.
    Nobody,
}

/// What the call that waits for an agent is told.
#[derive(Clone, Debug)]
pub(crate) enum ChildSignal {
    /// It works.
    Working,
    /// The call goes on without it.
    Moved,
    /// It has ended.
    Ended(Arc<AgentReport>),
}

/// Who ended an agent that was not done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StoppedBy {
    /// The turn of its parent was interrupted.
    Interrupt,
    /// A call of its parent.
    Parent,
    /// The person.
    Person,
    /// The person, with all others: it can be gone on with.
    AllStopped,
    /// The session ends.
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

    /// For those who count.
    pub(crate) fn killer(self) -> KilledBy {
        match self {
            Self::Interrupt | Self::Person | Self::AllStopped => KilledBy::User,
            Self::Parent => KilledBy::Parent,
            Self::Session => KilledBy::System,
        }
    }
}

/// An agent of the tree.
pub(crate) struct AgentNode {
    pub(crate) facts: Arc<ChildIdentity>,
    pub(crate) waiter: ReportWaiter,
    /// Its report, once it has ended.
    pub(crate) report: Option<Arc<AgentReport>>,
    pub(crate) signal: watch::Sender<ChildSignal>,
    pub(crate) cancel: CancellationToken,
    pub(crate) stopped_by: Option<StoppedBy>,
    /// What reaches it while it works.
    pub(crate) inbox: AgentInbox,
    /// What its own agents are made from, once it is there.
    pub(crate) calls: Option<ParentCalls>,
    /// Only these kinds may be started by it, if its definition says so.
    pub(crate) kinds: Option<Vec<String>>,
    /// Its place among those that work, while it does.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
    /// Calls of its own that wait for agents.
    pub(crate) waits: u32,
    /// What it said last, for who looks at it.
    pub(crate) last_text: String,
}

impl AgentNode {
    pub(crate) fn is_live(&self) -> bool {
        self.report.is_none()
    }
}

/// Why an agent is not started, in words for the model.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SpawnRefusal(pub(crate) String);

/// All agents of a session.
#[derive(Default)]
pub(crate) struct AgentTree {
    pub(crate) nodes: BTreeMap<AgentId, AgentNode>,
    /// The newest owner of a name, by the team it is in.
    names: HashMap<(Option<String>, String), AgentId>,
    /// The team that the session leads.
    pub(super) team: Option<String>,
    /// Agents started since the person last said something.
    started: usize,
    /// Reports for the main agent that it has not heard.
    pub(super) mail: Vec<MailItem>,
    /// Calls of agents that were not allowed, since a turn of the main agent ended.
    pub(super) denied: Vec<DeniedToolCall>,
    /// Only these kinds may be started by the main agent, if its definition says so.
    pub(super) kinds_of_main: Option<Vec<String>>,
}

impl AgentTree {
    /// Whether an agent may start another of a kind: how deep that would be.
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

    /// The only kinds that an agent may start, if its definition or one above says
    /// so.
    pub(super) fn kinds_of(&self, parent: &AgentId) -> Option<&Vec<String>> {
        match parent {
            AgentId::Main => self.kinds_of_main.as_ref(),
            child => self.nodes.get(child)?.kinds.as_ref(),
        }
    }

    /// The person said something: the count begins anew.
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

    /// The agent that an id or a name means to the main agent.
    pub(crate) fn find(&self, id_or_name: &str) -> Option<AgentId> {
        self.find_for(&AgentId::Main, id_or_name)
    }

    /// The agent that an id or a name means to another: names are those of its own
    /// team, and of agents in no team.
    pub(super) fn find_for(&self, who: &AgentId, id_or_name: &str) -> Option<AgentId> {
        let named = |team: Option<String>| self.names.get(&(team, id_or_name.to_owned()));
        let by_name = named(self.team_of(who)).or_else(|| named(None));
        let by_id = || self.nodes.keys().find(|id| id.as_str() == id_or_name);
        by_name.or_else(by_id).cloned()
    }

    /// The team that an agent is in: for the main one, that which it leads.
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

    /// Forgets the names of a team's agents and what nobody has told them yet; which
    /// they were.
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

    /// An agent and everybody below it, those below last.
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

    /// Agents of a parent that work although nobody waits for them.
    pub(crate) fn in_background(&self, parent: &AgentId) -> Vec<Arc<ChildIdentity>> {
        let of_parent = self.nodes.values().filter(|it| it.facts.parent == *parent && it.is_live());
        of_parent.filter(|it| it.waiter != ReportWaiter::Call).map(|it| Arc::clone(&it.facts)).collect()
    }

    /// All agents that work although nobody waits for them.
    pub(crate) fn all_in_background(&self) -> Vec<Arc<ChildIdentity>> {
        let live = self.nodes.values().filter(|it| it.is_live() && it.waiter != ReportWaiter::Call);
        live.map(|it| Arc::clone(&it.facts)).collect()
    }

    /// Stops an agent and everybody below it.
    pub(crate) fn stop(&mut self, id: &AgentId, by: StoppedBy) {
        for id in self.subtree(id) {
            if let Some(node) = self.nodes.get_mut(&id).filter(|it| it.is_live()) {
                node.stopped_by.get_or_insert(by);
                node.cancel.cancel();
            }
        }
    }
}
