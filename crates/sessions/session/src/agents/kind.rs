//! Kinds of agents (agent definitions), from files, hosts and Haft itself.

use std::{path::PathBuf, sync::Arc};

use haft_hooks::{HookDefinition, HookSource, parse_definitions};
use haft_types::PermissionMode;
use serde_json::{Map, Value};

use crate::extensions::{FrontMatter, LineProblem};

/// An agent definition.
#[derive(Clone, Debug, Default)]
pub struct AgentDefinition {
    /// Name of the kind.
    pub name: String,
    /// When to use the agent; read by the model.
    pub description: String,
    /// The system prompt.
    pub prompt: String,
    /// Names of the only tools the agent may have; `None` for those of its parent.
    pub tools: Option<Vec<String>>,
    /// Names of tools the agent must not have.
    pub disallowed: Vec<String>,
    /// Model name or alias; `None` inherits the parent's.
    pub model: Option<String>,
    /// Effort level; `None` inherits the parent's.
    pub effort: Option<String>,
    /// Permission mode; ignored if it is looser than the parent's and the source may not loosen it.
    pub mode: Option<PermissionMode>,
    /// Maximum number of model requests of a run; `None` for no limit.
    pub max_turns: Option<u32>,
    /// Whether runs are always in the background or always in the foreground; `None` leaves it to the
    /// call.
    pub background: Option<bool>,
    /// Whether each run gets its own git worktree.
    pub worktree: bool,
    /// Names of skills loaded at the start of a run.
    pub skills: Vec<String>,
    /// Hooks that are active during runs.
    pub hooks: Vec<HookDefinition>,
    /// Where the agent keeps its memory; `None` for no memory.
    pub memory: Option<AgentMemory>,
    /// Whether the memory files of user and project are left out of the prompt.
    pub without_memory: bool,
    /// Text repeated at the end of the first message.
    pub reminder: Option<String>,
    /// First prompt when this is the main agent of a session.
    pub initial_prompt: Option<String>,
    /// Number of context tokens at which the conversation is compacted.
    pub compact_window: Option<u64>,
    /// JSON Schema that the report must match.
    pub output_schema: Option<Value>,
    /// Names of session MCP servers whose tools the agent gets in addition to `tools`.
    pub servers: Vec<String>,
    /// MCP servers of its own, by name. Each run starts its own instances.
    pub own_servers: Map<String, Value>,
    /// Maximum cost of a run in US dollars, including agents it starts.
    pub max_usd: Option<f64>,
    /// Where the definition comes from.
    pub source: AgentSource,
    /// The file of the definition, if any.
    pub file: Option<PathBuf>,
}

/// Where an agent keeps its memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AgentMemory {
    /// In the user's home directory, for all projects.
    User,
    /// In the project, shared with other users.
    Project,
    /// In the project, for this user only.
    Local,
}

/// Source of an agent definition.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum AgentSource {
    /// Managed settings of the organisation.
    Managed,
    /// The embedding program, or a command line flag.
    Host,
    /// A file in the project.
    Project,
    /// A file in the user's home directory.
    User,
    /// The plugin with this name.
    Plugin(String),
    /// Built into Haft.
    #[default]
    BuiltIn,
}

impl AgentSource {
    /// A short label for users.
    pub fn label(&self) -> String {
        match self {
            Self::Managed => String::from("managed"),
            Self::Host => String::from("host"),
            Self::Project => String::from("project"),
            Self::User => String::from("user"),
            Self::Plugin(name) => format!("plugin {name}"),
            Self::BuiltIn => String::from("built in"),
        }
    }

    /// Whether definitions of this source may use a mode looser than the parent's. True for sources
    /// whose author runs the session; false for files.
    pub(crate) fn may_loosen(&self) -> bool {
        matches!(self, Self::Managed | Self::Host)
    }

    /// Whether hooks of such a definition run. Not for project files, which the user did not approve as
    /// commands, nor for plugins, whose hooks are declared elsewhere.
    fn may_hook(&self) -> bool {
        matches!(self, Self::Managed | Self::Host | Self::User)
    }
}

/// A problem in an agent file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgentProblem {
    /// Path of the file.
    pub file: PathBuf,
    /// Line number, starting at 1.
    pub line: usize,
    /// What is wrong, and its consequence.
    pub reason: String,
    /// Whether the definition is ignored because of it.
    pub is_lost: bool,
}

impl std::fmt::Display for AgentProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lost = if self.is_lost { "the agent is not there" } else { "the agent works all the same" };
        write!(f, "{}:{}: {} ({lost})", self.file.display(), self.line, self.reason)
    }
}

/// All valid fields of a definition.
const FIELDS: [&str; 24] = [
    "name",
    "description",
    "tools",
    "disallowedTools",
    "model",
    "permissionMode",
    "maxTurns",
    "maxBudgetUsd",
    "effort",
    "autoCompactWindow",
    "background",
    "isolation",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "initialPrompt",
    "omitClaudeMd",
    "color",
    "criticalSystemReminder_EXPERIMENTAL",
    "observer",
    "observerMessage",
    "outputSchema",
    "metadata",
];

impl AgentDefinition {
    /// Parses an agent file. Returns the definition, unless it is unusable, and the problems found.
    pub(crate) fn of_file(
        mut front: FrontMatter,
        file: PathBuf,
        source: AgentSource,
    ) -> (Option<Self>, Vec<AgentProblem>) {
        let kind = Self::of_front(&mut front, source).map(|kind| Self { file: Some(file.clone()), ..kind });
        let is_lost = kind.is_none();
        let problems = front.problems.into_iter().map(|LineProblem { line, reason }| AgentProblem {
            file: file.clone(),
            line,
            reason,
            is_lost,
        });
        (kind, problems.collect())
    }

    fn of_front(front: &mut FrontMatter, source: AgentSource) -> Option<Self> {
        let name = front.text("name");
        let description = front.text("description");
        let (Some(name), Some(description)) = (name, description) else {
            let missing = if front.text("name").is_none() { "name" } else { "description" };
            let what = if front.get(missing).is_none() { "is missing" } else { "is no text" };
            let line = if front.get(missing).is_none() { 1 } else { front.line_of(missing) };
            front.problem(line, format!("`{missing}` {what}: the agent is left out"));
            return None;
        };
        if !front.lists_names("disallowedTools") {
            let line = front.line_of("disallowedTools");
            let reason = "`disallowedTools` is no list of names, so that nobody knows what it must not use: the agent is left out";
            front.problem(line, reason.to_owned());
            return None;
        }
        let mut kind = Self { name, description, prompt: front.body.clone(), source, ..Self::default() };
        let unknown: Vec<(String, usize)> =
            front.unknown(&FIELDS).map(|(key, line)| (key.to_owned(), line)).collect();
        for (key, line) in unknown {
            front.problem(line, format!("`{key}` is no field of an agent; it is passed over"));
        }
        kind.take_tools(front);
        kind.take_limits(front);
        kind.take_hooks(front);
        kind.skills = front.names("skills").unwrap_or_default();
        kind.without_memory = front.switch("omitClaudeMd").unwrap_or(false);
        kind.reminder = front.text("criticalSystemReminder_EXPERIMENTAL");
        kind.initial_prompt = front.text("initialPrompt");
        kind.take_servers(front);
        kind.take_shape(front);
        kind.memory = match front.text("memory").as_deref() {
            None => None,
            Some("user") => Some(AgentMemory::User),
            Some("project") => Some(AgentMemory::Project),
            Some("local") => Some(AgentMemory::Local),
            Some(other) => {
                let line = front.line_of("memory");
                front.problem(line, format!("memory {other:?} is none of user, project, local"));
                None
            }
        };
        Some(kind)
    }

    fn take_tools(&mut self, front: &mut FrontMatter) {
        self.tools = front.names("tools").filter(|list| !list.iter().any(|it| it == "*"));
        if !front.lists_names("tools") {
            self.tools.get_or_insert_default();
            let reason = "`tools` is no list of names; the agent has only those that are names";
            let line = front.line_of("tools");
            front.problem(line, reason.to_owned());
        }
        self.disallowed = front.names("disallowedTools").unwrap_or_default();
        self.model = front.text("model").filter(|it| it != "inherit");
        self.effort = front.text("effort");
        if let Some(effort) = &self.effort
            && super::effort_of(effort).is_none()
        {
            let reason = format!("effort {effort:?} is none of low, medium, high, xhigh, max, or 0 to 100");
            let line = front.line_of("effort");
            front.problem(line, reason);
        }
    }

    /// Reads `mcpServers`: names of session servers, and configurations of own ones. The latter are
    /// commands, so those of project files are ignored.
    fn take_servers(&mut self, front: &mut FrontMatter) {
        let listed: Vec<Value> = match front.get("mcpServers").cloned() {
            None => return,
            Some(Value::Array(list)) => list,
            Some(Value::String(_)) => {
                front.names("mcpServers").unwrap_or_default().into_iter().map(Value::from).collect()
            }
            Some(other) => vec![other],
        };
        let line = front.line_of("mcpServers");
        for entry in listed {
            match entry {
                Value::String(name) => self.servers.push(name),
                Value::Object(_) if !self.source.may_hook() => {
                    let reason = "servers described in an agent file of a project or plugin are not started; put them into .mcp.json and name them here";
                    front.problem(line, reason.to_owned());
                }
                Value::Object(described) => {
                    for (name, config) in described {
                        if config.is_object() {
                            drop(self.own_servers.insert(name, config))
                        } else {
                            front.problem(line, format!("the server {name} is not described"))
                        }
                    }
                }
                other => {
                    front.problem(line, format!("{other} is no server: a name, or name and description"))
                }
            }
        }
    }

    /// Reads the fields about report and conversation.
    fn take_shape(&mut self, front: &mut FrontMatter) {
        if let Some(text) = front.text("autoCompactWindow") {
            self.compact_window = text.parse::<u64>().ok().filter(|it| 1_000 <= *it);
            if self.compact_window.is_none() {
                let line = front.line_of("autoCompactWindow");
                front.problem(line, format!("autoCompactWindow {text:?} is no number of tokens above 999"));
            }
        }
        let Some(schema) = front.get("outputSchema").cloned() else { return };
        let schema = match schema {
            Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::Null),
            other => other,
        };
        if schema.is_object() {
            self.output_schema = Some(schema)
        } else {
            let line = front.line_of("outputSchema");
            front.problem(line, String::from("outputSchema is no JSON object; reports are plain text"));
        }
    }

    fn take_limits(&mut self, front: &mut FrontMatter) {
        self.background = front.switch("background");
        let number = front.text("maxTurns").map(|it| it.parse::<u32>().ok().filter(|it| 0 < *it));
        if number == Some(None) {
            let line = front.line_of("maxTurns");
            front.problem(line, String::from("maxTurns is no number above 0; no limit holds"));
        }
        self.max_turns = number.flatten();
        let money = front.text("maxBudgetUsd").map(|it| it.parse::<f64>().ok().filter(|it| 0.0 < *it));
        if money == Some(None) {
            let line = front.line_of("maxBudgetUsd");
            front.problem(line, String::from("maxBudgetUsd is no number above 0; the session's limit holds"));
        }
        self.max_usd = money.flatten().filter(|it| it.is_finite());
        match front.text("isolation").as_deref() {
            None | Some("none") => (),
            Some("worktree") => self.worktree = true,
            Some(other) => {
                let reason = format!("isolation {other:?} is not known; it works in a worktree");
                let line = front.line_of("isolation");
                front.problem(line, reason);
                // An unknown isolation value means a worktree: never less isolated than requested.
                self.worktree = true;
            }
        }
        let Some(mode) = front.text("permissionMode") else { return };
        let line = front.line_of("permissionMode");
        match mode.parse::<PermissionMode>().ok() {
            None => front.problem(line, format!("permissionMode {mode:?} is not known; it is passed over")),
            Some(_) if matches!(self.source, AgentSource::Plugin(_)) => {
                front.problem(line, String::from("permissionMode of a plugin's agent does not count"));
            }
            Some(mode) => self.mode = Some(mode),
        }
    }

    fn take_hooks(&mut self, front: &mut FrontMatter) {
        let Some(hooks) = front.get("hooks").cloned() else { return };
        let line = front.line_of("hooks");
        if !self.source.may_hook() {
            let reason = "hooks in an agent file of a project or plugin are not run; put them into settings";
            return front.problem(line, reason.to_owned());
        }
        let source = Arc::new(HookSource::Named(format!("the agent {}", self.name)));
        let mut hooks = hooks;
        // A `Stop` hook of an agent definition is run as `SubagentStop`.
        if let Some(table) = hooks.as_object_mut()
            && let Some(stop) = table.remove("Stop")
        {
            table.entry("SubagentStop").or_insert(stop);
        }
        let (definitions, problems) = parse_definitions(&hooks, &source);
        self.hooks = definitions;
        for problem in problems {
            front.problem(line, problem.to_string());
        }
    }
}
