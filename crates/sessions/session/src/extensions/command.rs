//! Slash commands, and skills: commands that a model can use too.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_hooks::{HookDefinition, HookSource, parse_definitions};
use haft_types::{MessageBlock, tags};
use serde_json::Value;

use super::{
    FrontMatter,
    arguments::{FilledPart, PlaceholdersIn, SkillArguments},
};
use crate::AgentSource;

/// A slash command or skill.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlashCommand {
    /// Name, as typed after the slash.
    pub name: String,
    /// Alternative names.
    pub aliases: &'static [&'static str],
    /// What it does.
    pub description: String,
    /// Hint about its arguments.
    pub argument_hint: String,
    /// Model for the turn, if the file names one.
    pub(crate) model: Option<String>,
    /// Whether a model may use it without the user.
    pub(crate) is_for_model: bool,
    /// Whether it is listed for users.
    pub(crate) is_for_person: bool,
    pub(crate) kind: SlashKind,
    /// Other fields of its file.
    pub(crate) fields: SkillFields,
    /// Where the command comes from.
    pub source: AgentSource,
    /// The file that defines it, if any.
    pub file: Option<PathBuf>,
}

/// Effect of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum SlashKind {
    /// A built-in command, handled without the model.
    Local(LocalCommand),
    /// Sends this prompt to the model.
    Prompt(String),
    /// Sends a prompt to the model that can refer to files in a directory.
    Skill {
        /// The prompt.
        body: String,
        /// The directory of the skill.
        dir: PathBuf,
    },
}

/// Fields of a skill's or command's front matter.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct SkillFields {
    /// Permission rules that are allowed while it is active.
    pub(crate) allowed: Vec<String>,
    /// Permission rules that are denied while it is active.
    pub(crate) disallowed: Vec<String>,
    /// Effort level until the turn ends.
    pub(crate) effort: Option<String>,
    /// Kind of the sub-agent it runs in, if it runs in one.
    pub(crate) fork: Option<String>,
    /// Whether that sub-agent runs in the background.
    pub(crate) is_in_background: bool,
    /// Globs: the skill is listed once a matching file was touched.
    pub(crate) paths: Vec<String>,
    /// Names of its arguments, in order.
    pub(crate) arguments: Vec<String>,
    /// Directory of the plugin it belongs to.
    pub(crate) plugin_root: Option<PathBuf>,
    /// Configuration values of that plugin, by placeholder name.
    pub(crate) plugin_told: Vec<(String, String)>,
    /// Hooks that run while it is active, not yet parsed.
    pub(crate) hooks: Option<Value>,
}

/// Built-in commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocalCommand {
    /// `/clear`: starts a new session.
    Clear,
    /// `/compact`: summarises the conversation.
    Compact,
    /// `/context`: shows what the context window contains.
    Context,
    /// `/cost`: shows usage and cost of the session.
    Cost,
}

impl LocalCommand {
    pub(crate) const ALL: [Self; 4] = [Self::Clear, Self::Compact, Self::Context, Self::Cost];
}

/// The prompt a command was expanded to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpandedCommand {
    pub(crate) content: Vec<MessageBlock>,
    pub(crate) model: Option<String>,
}

/// Values a skill's text can refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct SkillContext {
    pub(crate) placeholders: PlaceholdersIn,
    pub(crate) session: String,
    pub(crate) project: PathBuf,
}

impl SlashCommand {
    pub(super) fn of_haft(local: LocalCommand) -> Self {
        let (name, aliases, description, hint): (_, &'static [&'static str], _, _) = match local {
            LocalCommand::Clear => ("clear", &["reset", "new"], "Begin a new session; the old one stays", ""),
            LocalCommand::Compact => {
                ("compact", &[], "Sum up the conversation to make room", "[what to keep in mind]")
            }
            LocalCommand::Context => ("context", &[], "Show what fills the context", ""),
            LocalCommand::Cost => ("cost", &["usage"], "Show what the session has used", ""),
        };
        Self {
            name: name.to_owned(),
            aliases,
            description: description.to_owned(),
            argument_hint: hint.to_owned(),
            model: None,
            is_for_model: false,
            is_for_person: true,
            kind: SlashKind::Local(local),
            fields: SkillFields::default(),
            source: AgentSource::BuiltIn,
            file: None,
        }
    }

    /// Converts a parsed file to a command or skill. The description defaults to the first line of the
    /// text.
    pub(super) fn of_front(
        front: &mut FrontMatter,
        name: String,
        kind: SlashKind,
        source: AgentSource,
    ) -> Self {
        let first = |body: &str| {
            let line = body.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or_default();
            line.trim_start_matches('#').trim().to_owned()
        };
        let mut description = front.text("description").unwrap_or_else(|| first(&front.body));
        if let Some(when) = front.text("when_to_use").or_else(|| front.text("when-to-use")) {
            description.push_str(&format!(" {when}"));
        }
        Self {
            name,
            aliases: &[],
            description,
            argument_hint: front.text("argument-hint").or_else(|| hint_of(front)).unwrap_or_default(),
            model: front.text("model").filter(|it| it != "inherit"),
            is_for_model: !front.switch("disable-model-invocation").unwrap_or(false),
            is_for_person: front.switch("user-invocable").unwrap_or(true),
            kind,
            fields: SkillFields::from_frontmatter(front),
            source,
            file: None,
        }
    }

    pub(crate) fn is_skill(&self) -> bool {
        matches!(self.kind, SlashKind::Skill { .. })
    }

    /// Whether it is a skill that a model may use.
    pub fn is_skill_for_model(&self) -> bool {
        self.is_skill() && self.is_for_model
    }

    /// The directory of a skill; `None` for other commands.
    pub fn skill_dir(&self) -> Option<&Path> {
        match &self.kind {
            SlashKind::Skill { dir, .. } => Some(dir),
            _ => None,
        }
    }

    /// Whether it is a built-in command.
    pub fn is_local(&self) -> bool {
        matches!(self.kind, SlashKind::Local(_))
    }

    /// Globs of files that make it listed; empty if it is always listed.
    pub fn paths(&self) -> &[String] {
        &self.fields.paths
    }

    /// Permission rules it wants to allow.
    pub fn allowed_tools(&self) -> &[String] {
        &self.fields.allowed
    }

    /// Hooks that run while it is active.
    pub(super) fn hooks(&self) -> Vec<HookDefinition> {
        let Some(hooks) = &self.fields.hooks else { return Vec::new() };
        let source = Arc::new(HookSource::Named(format!("the skill {}", self.name)));
        let places = [
            ("${CLAUDE_PLUGIN_ROOT}", self.fields.plugin_root.as_deref()),
            ("${CLAUDE_SKILL_DIR}", self.skill_dir()),
        ];
        parse_definitions(&placed(hooks, &places), &source).0
    }

    /// Kind of the sub-agent it runs in; `None` if it runs in the conversation.
    pub fn forks(&self) -> Option<&str> {
        self.fields.fork.as_deref()
    }

    /// The parts of the prompt; empty for built-in commands.
    pub(super) fn parts(
        &self,
        args: &str,
        setting: &SkillContext,
    ) -> Result<Option<Vec<FilledPart>>, String> {
        let body = match &self.kind {
            SlashKind::Local(_) => return Ok(None),
            SlashKind::Prompt(body) | SlashKind::Skill { body, .. } => body,
        };
        let text = |path: &Path| path.display().to_string();
        let mut variables = vec![
            ("${CLAUDE_SESSION_ID}", setting.session.clone()),
            ("${CLAUDE_PROJECT_DIR}", text(&setting.project)),
        ];
        variables.extend(self.skill_dir().map(|dir| ("${CLAUDE_SKILL_DIR}", text(dir))));
        variables.extend(self.fields.plugin_root.as_deref().map(|dir| ("${CLAUDE_PLUGIN_ROOT}", text(dir))));
        variables.extend(self.fields.plugin_told.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let arguments = SkillArguments::new(args, &self.fields.arguments);
        let mut parts = arguments.fill(body, setting.placeholders, &variables)?;
        if let Some(dir) = self.skill_dir() {
            parts
                .insert(0, FilledPart::Text(format!("Base directory for this skill: {}\n\n", dir.display())));
        }
        Ok(Some(parts))
    }

    /// Creates the prompt from the finished text.
    pub(crate) fn expanded(&self, args: &str, text: String) -> ExpandedCommand {
        let name = &self.name;
        let (args, text) = (tags::neutral(args), tags::neutral(&text).into_owned());
        let mut typed =
            format!("<command-message>{name}</command-message>\n<command-name>/{name}</command-name>");
        if !args.is_empty() {
            typed.push_str(&format!("\n<command-args>{args}</command-args>"));
        }
        let content = [typed, text].into_iter().map(|text| MessageBlock::Text { text }).collect();
        ExpandedCommand { content, model: self.model.clone() }
    }
}

/// Replaces names of directories by their paths in every string.
fn placed(value: &Value, places: &[(&str, Option<&Path>)]) -> Value {
    match value {
        Value::String(text) => {
            let known = places.iter().filter_map(|(name, dir)| Some((name, (*dir)?)));
            Value::from(
                known.fold(text.clone(), |text, (name, dir)| text.replace(name, &dir.display().to_string())),
            )
        }
        Value::Array(list) => list.iter().map(|it| placed(it, places)).collect(),
        Value::Object(table) => {
            Value::Object(table.iter().map(|(key, it)| (key.clone(), placed(it, places))).collect())
        }
        other => other.clone(),
    }
}

/// `[first] [second]` for named arguments.
fn hint_of(front: &FrontMatter) -> Option<String> {
    let names = front.words("arguments")?;
    Some(names.iter().map(|it| format!("[{it}]")).collect::<Vec<_>>().join(" "))
}

impl SkillFields {
    fn from_frontmatter(front: &mut FrontMatter) -> Self {
        let fork = match front.text("context").as_deref() {
            None | Some("inherit") => None,
            Some("fork") => Some(front.text("agent").unwrap_or_else(|| String::from("general-purpose"))),
            Some(other) => {
                let reason = format!("context {other:?} is not known; it can be fork");
                let line = front.line_of("context");
                front.problem(line, reason);
                None
            }
        };
        let hooks = front.get("hooks").cloned();
        if let Some(hooks) = &hooks {
            let line = front.line_of("hooks");
            let source = Arc::new(HookSource::Named(String::from("a skill")));
            for problem in parse_definitions(hooks, &source).1 {
                front.problem(line, problem.to_string());
            }
        }
        Self {
            allowed: front.names("allowed-tools").map(tool_list).unwrap_or_default(),
            disallowed: front.names("disallowed-tools").map(tool_list).unwrap_or_default(),
            effort: front.text("effort"),
            fork,
            is_in_background: front.switch("background").unwrap_or(false),
            paths: front.names("paths").unwrap_or_default(),
            arguments: front.words("arguments").unwrap_or_default(),
            plugin_root: None,
            plugin_told: Vec::new(),
            hooks,
        }
    }
}

/// Parses a tool list separated by commas or spaces.
fn tool_list(names: Vec<String>) -> Vec<String> {
    let mut tools = Vec::new();
    for name in names {
        let (mut tool, mut depth) = (String::new(), 0_usize);
        for it in name.chars() {
            match it {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => (),
            }
            if !(it.is_whitespace() && depth == 0) {
                tool.push(it);
            } else if !tool.is_empty() {
                tools.push(std::mem::take(&mut tool));
            }
        }
        tools.extend((!tool.is_empty()).then_some(tool));
    }
    tools
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_stand_with_commas_spaces_or_as_a_list() {
        for (text, want) in [
            ("Read, Bash(git log *), mcp__a", vec!["Read", "Bash(git log *)", "mcp__a"]),
            ("Read Bash(git add:*) Edit", vec!["Read", "Bash(git add:*)", "Edit"]),
        ] {
            let front = FrontMatter::parse(&format!("---\nallowed-tools: {text}\n---\n"));
            assert_eq!(tool_list(front.names("allowed-tools").unwrap()), want);
        }
    }
}
