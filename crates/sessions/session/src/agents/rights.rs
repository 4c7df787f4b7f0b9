//! Permissions of a sub-agent: its definition, within its parent's permissions.

use std::sync::Arc;

use haft_builtin_tools::{
    agent::Agent,
    ask_user_question::AskUserQuestion,
    enter_plan_mode::EnterPlanMode,
    exit_plan_mode::ExitPlanMode,
    explore::Explore,
    suggest_background_pr::SuggestBackgroundPr,
    team::{TeamCreate, TeamDelete},
};
use haft_permission::{AgentRights, Behavior, LivePermissions, RuleSource};
use haft_tool::{Tool as _, erase};
use haft_tool_runtime::{Pool, PoolFilter, SharedPool, ToolSearch};
use haft_types::PermissionMode;

use super::{AgentDefinition, AgentSource};

/// Tools for the main agent only: they talk to the user.
pub(super) const OF_MAIN: [&str; 6] = [
    AskUserQuestion::NAME,
    EnterPlanMode::NAME,
    ExitPlanMode::NAME,
    SuggestBackgroundPr::NAME,
    TeamCreate::NAME,
    TeamDelete::NAME,
];

/// Tools that start agents, which agents at maximum depth do not get.
const STARTING: [&str; 2] = [Agent::NAME, Explore::NAME];

/// Whether an agent may start sub-agents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MayStart {
    Yes,
    No,
}

impl AgentDefinition {
    /// The kinds its tool list allows it to start (`Agent(a, b)`); `None` for all.
    pub(super) fn may_start(&self) -> Option<Vec<String>> {
        let listed = self.tools.as_ref()?.iter().filter_map(|tool| {
            let (name, rest) = tool.split_once('(')?;
            matches!(name.trim(), Agent::NAME | "Task").then(|| rest.trim_end_matches(')').to_owned())
        });
        let kinds: Vec<String> =
            listed.flat_map(|it| it.split(',').map(|it| it.trim().to_owned()).collect::<Vec<_>>()).collect();
        (!kinds.is_empty()).then_some(kinds)
    }

    /// Source of its rules, for error messages.
    fn origin(&self) -> RuleSource {
        let label = match &self.file {
            Some(file) => format!("the agent {} ({})", self.name, file.display()),
            None => format!("the agent {}", self.name),
        };
        RuleSource { label: Arc::from(label.as_str()), ..RuleSource::default() }
    }

    /// Applies the definition of the main agent to the session: its denials bind the main agent and all
    /// sub-agents.
    pub(crate) fn bind(&self, permissions: &LivePermissions) {
        permissions.deny(&self.origin(), self.disallowed.iter().cloned());
    }

    /// The mode of a session whose main agent uses this definition, if the spec names none: stricter
    /// than the session's, or looser if the source may loosen it.
    pub(crate) fn mode_of_main(&self, session: PermissionMode, may_bypass: bool) -> Option<PermissionMode> {
        let bypasses = self.mode == Some(PermissionMode::BypassPermissions);
        self.mode.filter(|mode| {
            is_looser(session, *mode)
                || (is_looser(*mode, session) && self.source.may_loosen() && (may_bypass || !bypasses))
        })
    }

    /// The permissions the definition asks for.
    pub(super) fn rights(&self, pool: &Pool, session: PermissionMode, may_bypass: bool) -> AgentRights {
        let lifted = self.mode.filter(|mode| {
            self.source.may_loosen()
                && is_looser(*mode, session)
                && (*mode != PermissionMode::BypassPermissions || may_bypass)
        });
        AgentRights {
            name: Arc::from(self.name.as_str()),
            mode: self.mode,
            lifted,
            granted: Vec::new(),
            rules: self.disallowed.iter().map(|text| (Behavior::Deny, Arc::from(text.as_str()))).collect(),
            tools: self.tools.as_ref().map(|_| pool.names().map(str::to_owned).collect()),
            delegations: Vec::new(),
            kept_out: None,
            origin: self.origin(),
        }
    }

    /// The tools it lists, without the text in brackets; `None` if it lists none.
    fn wanted(&self) -> Option<Vec<String>> {
        let of_servers = self.servers.iter().map(|it| format!("mcp__{it}"));
        Some(self.tools.as_ref()?.iter().map(|it| bare(it)).chain(of_servers).collect())
    }

    /// Whether it lists MCP tools, which may become available later.
    pub(crate) fn names_servers(&self) -> bool {
        self.wanted().into_iter().flatten().any(|it| it.starts_with("mcp__"))
    }

    /// Whether the definition leaves the tool available, at least partly.
    pub(crate) fn leaves(&self, pool: &Pool, name: &str) -> bool {
        let is_meant = |pattern: &String| means(pool, pattern, name);
        let removed = self.disallowed.iter().filter(|it| !it.contains('(')).map(|it| bare(it));
        self.wanted().is_none_or(|list| list.iter().any(is_meant))
            && !removed.into_iter().any(|it| is_meant(&it))
    }

    /// The tools of an agent: those of its parent that the definition allows. Also returns the names in
    /// the definition that match no tool.
    pub(super) fn pool(&self, parent: &Pool, may_start: MayStart) -> (SharedPool, Vec<String>) {
        let keeps = |name: &str| {
            self.leaves(parent, name)
                && !OF_MAIN.contains(&name)
                && (may_start == MayStart::Yes || !STARTING.contains(&name))
        };
        let has_deferred = parent.deferred().any(|(name, _)| keeps(name));
        let shared = SharedPool::new(Pool::assemble(Vec::new(), Vec::new()));
        let narrowed = parent.narrowed(|name, _| match name {
            ToolSearch::NAME if has_deferred => PoolFilter::Replaced(erase(ToolSearch::new(shared.clone()))),
            ToolSearch::NAME => PoolFilter::No,
            name if keeps(name) => PoolFilter::Yes,
            _ => PoolFilter::No,
        });
        shared.set(narrowed);
        let known = |pattern: &String| parent.names().any(|name| means(parent, pattern, name));
        let unknown = self.wanted().into_iter().flatten().filter(|it| !known(it)).collect();
        (shared, unknown)
    }
}

/// The text before the brackets.
fn bare(text: &str) -> String {
    text.split('(').next().unwrap_or(text).trim().to_owned()
}

/// Whether a name in a definition refers to a tool.
fn means(pool: &Pool, pattern: &str, name: &str) -> bool {
    pattern == name || pool.wire_name(pattern) == Some(name) || matches_pattern(pattern, name)
}

/// Matches `mcp__server`, `mcp__server__*` and `mcp__*`.
pub(super) fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => {
            pattern.starts_with("mcp__")
                && name.strip_prefix(pattern).is_some_and(|rest| rest.starts_with("__"))
        }
    }
}

/// Whether one mode allows calls that another asks about.
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
    /// Whether the definition is built into Haft.
    pub(super) fn is_built_in(&self) -> bool {
        *self == Self::BuiltIn
    }
}
