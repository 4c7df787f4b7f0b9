//! Agents that other agents start.
//!
//! `shelf` knows the kinds, `desk` is what tools reach, `tree` holds who works
//! for whom, `nursery` and `child` make and run them, `record` keeps their logs,
//! `delivery` brings reports to parents.
//!
//! **Invariant:** an agent never has more rights than the one that started it,
//! at any moment: its permissions are a live view on its parent's.
//!
//! **Invariant:** every run that began has exactly one report, and the report
//! reaches the one that started it exactly once, also when the process dies in
//! between.
//!
//! **Invariant:** whether somebody waits for an agent changes nothing but where
//! its report goes.

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
