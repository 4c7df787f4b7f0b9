//! Statistics about sub-agents, for the result frame of a turn.

use std::collections::{BTreeMap, HashSet};

use haft_session::{AgentReport, ChildIdentity, KilledBy};
use haft_types::AgentId;
use serde_json::{Value, json};

/// Statistics about a session's sub-agents.
#[derive(Debug, Default)]
pub(crate) struct AgentStats {
    seen: HashSet<AgentId>,
    by_type: BTreeMap<String, u64>,
    /// Calls that requested background, foreground, or neither.
    requested: [u64; 3],
    in_background: u64,
    deepest: u32,
    by_agents: u64,
    completed: u64,
    failed: u64,
    /// Agents stopped by their parent, by the user, and by the end of the session.
    killed: [u64; 3],
}

impl AgentStats {
    pub(crate) fn started(&mut self, facts: &ChildIdentity) {
        // A resumed agent is not counted again.
        if !self.seen.insert(facts.id.clone()) {
            return;
        }
        *self.by_type.entry(facts.kind.clone()).or_default() += 1;
        let wanted = match facts.wanted_background {
            Some(true) => 0,
            Some(false) => 1,
            None => 2,
        };
        self.requested[wanted] += 1;
        self.in_background += u64::from(facts.in_background);
        self.deepest = self.deepest.max(facts.depth);
        self.by_agents += u64::from(!facts.parent.is_main());
    }

    pub(crate) fn ended(&mut self, report: &AgentReport) {
        match (report.status.public(), report.killed_by) {
            ("completed", _) => self.completed += 1,
            ("killed", Some(KilledBy::Parent)) => self.killed[0] += 1,
            ("killed", Some(KilledBy::User)) => self.killed[1] += 1,
            ("killed", _) => self.killed[2] += 1,
            _ => self.failed += 1,
        }
    }

    /// The statistics as part of a result frame; `None` without sub-agents.
    pub(crate) fn frame(&self) -> Option<Value> {
        let spawned: u64 = self.by_type.values().sum();
        let [background, foreground, unset] = self.requested;
        let [parent, user, system] = self.killed;
        (0 < spawned).then(|| {
            json!({
                "spawned": spawned,
                "requested": {"background": background, "foreground": foreground, "unset": unset},
                "started_in_background": self.in_background, "max_depth": self.deepest,
                "spawned_by_subagents": self.by_agents, "completed": self.completed, "failed": self.failed,
                "killed": {"parent": parent, "user": user, "system": system},
                "by_type": self.by_type,
            })
        })
    }
}
