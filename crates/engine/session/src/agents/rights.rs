//! What an agent may do: its definition within what its parent may.

use std::sync::Arc;

use haft_permission::{AgentRights, Behavior, Origin};
use haft_runtime::{KeptTool, Pool, SharedPool, ToolSearch};
use haft_tool::{Tool as _, erase};
use haft_types::PermissionMode;

use super::{AgentKind, AgentSource};

/// Tools of the main agent alone: they speak with the person.
pub(super) const OF_MAIN: [&str; 6] =
    ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "SuggestBackgroundPR", "TeamCreate", "TeamDelete"];

/// Tools that start agents, which the deepest ones do not have.
const STARTING: [&str; 2] = ["Agent", "Explore"];

/// Whether an agent may start others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MayStart {
    Yes,
    No,
}

impl AgentKind {
    /// Only these kinds may be started by it, if its tools say so
    /// (`Agent(a, b)`).
    pub(super) fn may_start(&self) -> Option<Vec<String>> {
        let listed = self.tools.as_ref()?.iter().filter_map(|tool| {
            let (name, rest) = tool.split_once('(')?;
            matches!(name.trim(), "Agent" | "Task").then(|| rest.trim_end_matches(')').to_owned())
        });
        let kinds: Vec<String> =
            listed.flat_map(|it| it.split(',').map(|it| it.trim().to_owned()).collect::<Vec<_>>()).collect();
        (!kinds.is_empty()).then_some(kinds)
    }

    /// What the definition says about rights.
    pub(super) fn rights(&self, pool: &Pool, session: PermissionMode, may_bypass: bool) -> AgentRights {
        let label = match &self.file {
            Some(file) => format!("the agent {} ({})", self.name, file.display()),
            None => format!("the agent {}", self.name),
        };
        let lifted = self.mode.filter(|mode| {
            self.source.may_loosen()
                && is_looser(*mode, session)
                && (*mode != PermissionMode::BypassPermissions || may_bypass)
        });
        AgentRights {
            name: Arc::from(self.name.as_str()),
            mode: self.mode,
            lifted,
            rules: self.disallowed.iter().map(|text| (Behavior::Deny, Arc::from(text.as_str()))).collect(),
            tools: self.tools.as_ref().map(|_| pool.names().map(str::to_owned).collect()),
            delegations: Vec::new(),
            kept_out: None,
            origin: Origin { label: Arc::from(label.as_str()), ..Origin::default() },
        }
    }

    /// The tools of an agent: those of its parent that its definition leaves.
    /// Names in the definition that mean nothing come back.
    pub(super) fn pool(&self, parent: &Pool, may_start: MayStart) -> (SharedPool, Vec<String>) {
        let bare = |text: &str| text.split('(').next().unwrap_or(text).trim().to_owned();
        let of_servers = self.servers.iter().map(|it| format!("mcp__{it}"));
        let wanted: Option<Vec<String>> =
            self.tools.as_ref().map(|list| list.iter().map(|it| bare(it)).chain(of_servers).collect());
        let removed: Vec<String> =
            self.disallowed.iter().filter(|it| !it.contains('(')).map(|it| bare(it)).collect();
        let means = |pattern: &str, name: &str| {
            parent.wire_name(pattern) == Some(name) || matches_pattern(pattern, name)
        };
        let keeps = |name: &str| {
            wanted.as_ref().is_none_or(|list| list.iter().any(|it| means(it, name)))
                && !removed.iter().any(|it| means(it, name))
                && !OF_MAIN.contains(&name)
                && (may_start == MayStart::Yes || !STARTING.contains(&name))
        };
        let has_deferred = parent.deferred().any(|(name, _)| keeps(name));
        let shared = SharedPool::new(Pool::assemble(Vec::new(), Vec::new()));
        let narrowed = parent.narrowed(|name, _| match name {
            ToolSearch::NAME if has_deferred => KeptTool::Replaced(erase(ToolSearch::new(shared.clone()))),
            ToolSearch::NAME => KeptTool::No,
            name if keeps(name) => KeptTool::Yes,
            _ => KeptTool::No,
        });
        shared.set(narrowed);
        let known = |pattern: &&String| parent.names().any(|name| means(pattern, name));
        let unknown = wanted.iter().flatten().filter(|it| !known(it)).cloned().collect();
        (shared, unknown)
    }
}

/// `mcp__server`, `mcp__server__*`, `mcp__*`.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => {
            pattern.starts_with("mcp__")
                && name.strip_prefix(pattern).is_some_and(|rest| rest.starts_with("__"))
        }
    }
}

/// Whether one mode lets through what another asks about.
fn is_looser(mode: PermissionMode, than: PermissionMode) -> bool {
    let rank = |mode| match mode {
        PermissionMode::Plan => 0,
        PermissionMode::DontAsk => 1,
        PermissionMode::Default => 2,
        PermissionMode::AcceptEdits => 3,
        PermissionMode::Auto => 4,
        PermissionMode::BypassPermissions => 5,
    };
    rank(than) < rank(mode)
}

impl AgentSource {
    /// Whether the agent belongs to Haft.
    pub(super) fn is_built_in(&self) -> bool {
        *self == Self::BuiltIn
    }
}
