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

mod builtin;
mod child;
mod delivery;
mod desk;
mod facts;
mod fork;
mod idle;
mod isolate;
mod kind;
mod lineage;
mod logged;
mod nursery;
mod own_servers;
mod payer;
mod post;
mod prompting;
mod record;
mod recover;
mod rights;
mod roster;
mod shelf;
mod summaries;
mod tasks;
mod tree;
mod watch;

pub(crate) use self::{
    child::effort_of,
    desk::{AgentModels, SubagentRegistry},
    lineage::USUAL_MODEL,
    logged::logged_spending,
    nursery::{ParentCalls, SpawnContext, SpawnJob, start_nursery},
    record::AgentLogs,
    shelf::{AgentFiles, AgentKindCatalog},
    summaries::summary_pace,
    tree::{StoppedBy, TreeLimits},
};
pub use self::{
    facts::{ChildIdentity, ChildProgress},
    kind::{AgentDefinition, AgentMemory, AgentProblem, AgentSource},
    logged::{LoggedAgent, logged_agents, logged_requests},
};
pub use haft_builtin_tools::agent::{AgentReport, AgentStatus, KilledBy, SubagentDenial};
