//! Kinds of agents: what files, hosts and Haft itself describe.

use std::{path::PathBuf, sync::Arc};

use haft_hooks::{HookDefinition, HookSource, parse_definitions};
use haft_types::PermissionMode;
use serde_json::{Map, Value};

use crate::extensions::{FrontMatter, LineProblem};

/// A kind of agent.
#[derive(Clone, Debug, Default)]
pub struct AgentDefinition {
    /// What it is called.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// Only these tools, if it says so.
    pub tools: Option<Vec<String>>,
    /// Never these.
    pub disallowed: Vec<String>,
    /// Its model, if it names one.
    pub model: Option<String>,
    /// How hard it tries.
    pub effort: Option<String>,
    /// The mode it works in.
    pub mode: Option<PermissionMode>,
    /// Requests at most.
    pub max_turns: Option<u32>,
    /// Whether its runs are in the background, whatever a call says.
    pub background: Option<bool>,
    /// Whether its runs have a worktree of their own.
    pub worktree: bool,
    /// Skills it begins with.
    pub skills: Vec<String>,
    /// Hooks of its runs.
    pub hooks: Vec<HookDefinition>,
    /// Where it keeps what it learns.
    pub memory: Option<AgentMemory>,
    /// Whether it is not told what the user and the project want every session
    /// to know.
    pub without_memory: bool,
    /// Said again at the end of its first message.
    pub reminder: Option<String>,
    /// Said first where it is the main agent of a session.
    pub initial_prompt: Option<String>,
    /// Tokens from which on its conversation is made shorter.
    pub compact_window: Option<u64>,
    /// What its report must follow.
    pub output_schema: Option<Value>,
    /// Servers of the session whose tools it has beside those it lists.
    pub servers: Vec<String>,
    /// Servers of its own, by name: each of its runs has them to itself.
    pub own_servers: Map<String, Value>,
    /// Money at most for one of its runs, with those it starts.
    pub max_usd: Option<f64>,
    /// Where it is described.
    pub source: AgentSource,
    /// The file.
    pub file: Option<PathBuf>,
}

/// Where a kind keeps what it learns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AgentMemory {
    /// With the person, for all projects.
    User,
    /// In the project, for everybody.
    Project,
    /// In the project, for this person.
    Local,
}

/// Who describes a kind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum AgentSource {
    /// The organisation.
    Managed,
    /// The program that embeds the session, or a flag.
    Host,
    /// A file of the project.
    Project,
    /// A file of the person.
    User,
    /// A plugin.
    Plugin(String),
    /// Haft itself.
    #[default]
    BuiltIn,
}

impl AgentSource {
    /// In a word or two, for people.
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

    /// Whether its definitions may let an agent do more than its parent's mode
    /// does: whoever runs the session answers for that, files do not.
    pub(crate) fn may_loosen(&self) -> bool {
        matches!(self, Self::Managed | Self::Host)
    }

    /// Whether its hooks run: a project's own files are no yes to commands, and
    /// plugins have hooks of their own.
    fn may_hook(&self) -> bool {
        matches!(self, Self::Managed | Self::Host | Self::User)
    }
}

/// A file that does not describe an agent as it should.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgentProblem {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and what follows.
    pub reason: String,
    /// Whether the agent is not there because of it.
    pub is_lost: bool,
}

impl std::fmt::Display for AgentProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lost = if self.is_lost { "the agent is not there" } else { "the agent works all the same" };
        write!(f, "{}:{}: {} ({lost})", self.file.display(), self.line, self.reason)
    }
}

/// Every field a definition may have.
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
    /// The kind a file describes, if it does, and what is wrong with the file.
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

    /// Servers: names of those of the session, and descriptions of its own, which
    /// are commands: a project's file is no yes to them.
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

    /// What its reports and its conversation are like.
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
                // Never less isolated than somebody wanted.
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
        // An agent's own stop is the stop of a sub-agent.
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
