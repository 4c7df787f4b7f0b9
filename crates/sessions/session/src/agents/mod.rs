//! Sub-agents: agents that other agents start.
//!
//! `shelf` and `kind` hold the agent definitions, `registry` is the interface for tools and the session,
//! `agent_tree` holds the state of all agents, `spawner` and `child_run` start and run them,
//! `agent_logs` writes their logs, `mail` and `mail_item` deliver reports and messages.
//!
//! **Invariant:** a sub-agent never has a tool or passes a deny rule that its parent does not: its
//! permissions are a live view of its parent's. Its permission mode may be looser only if its definition
//! comes from a source that may loosen it.
//!
//! **Invariant:** every run that started produces exactly one report, which is delivered to its
//! parent exactly once, also if the process dies in between.
//!
//! **Invariant:** whether a call waits for an agent affects only where its report is delivered.

mod agent_logs;
mod agent_tasks;
mod agent_tree;
mod builtin;
mod child_observer;
mod child_progress;
mod child_run;
mod first_prompt;
mod forked_agent;
mod idle_members;
mod isolation;
mod kind;
mod lineage;
mod logged_agents;
mod mail;
mod mail_item;
mod private_servers;
mod recovery;
mod registry;
mod report_budget;
mod rights;
mod roster;
mod shelf;
mod spawner;
mod summaries;

pub(crate) use self::{
    agent_logs::AgentLogs,
    agent_tree::{StoppedBy, TreeLimits},
    child_run::effort_of,
    lineage::USUAL_MODEL,
    logged_agents::logged_spending,
    registry::{AgentModels, SubagentRegistry},
    shelf::{AgentFiles, AgentKindCatalog},
    spawner::{ParentCalls, SpawnContext, SpawnJob, start_nursery},
    summaries::summary_pace,
};
pub use self::{
    child_progress::ChildProgress,
    kind::{AgentDefinition, AgentMemory, AgentProblem, AgentSource},
    logged_agents::{LoggedAgent, logged_agents, logged_requests},
};
pub use haft_builtin_tools::agent::{AgentReport, AgentStatus, ChildIdentity, KilledBy, SubagentDenial};
