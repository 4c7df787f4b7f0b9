//! Parses rules.

mod bracket_expr;
mod command_pattern;
mod domain_pattern;
mod name_pattern;
mod param_pattern;
mod path_pattern;
mod split_rule;
mod wildcard;

use std::{fmt, path::Path, sync::Arc};

pub(crate) use bracket_expr::Spelling;
pub(crate) use command_pattern::{CommandPattern, PatternReading};
pub(crate) use domain_pattern::{DomainPattern, host_of};
pub(crate) use name_pattern::NamePattern;
pub(crate) use param_pattern::ParamPattern;
pub(crate) use path_pattern::{Anchor, PathPattern, PatternCoverage, compile, escape};

use crate::{Behavior, Destination, Names};

/// Source of rules.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct RuleSource {
    /// Display name: "project settings", "--allowedTools".
    pub label: Arc<str>,
    /// Base of paths that start with one `/`; `None` for the working directory.
    pub root: Option<Arc<Path>>,
    /// Where changes of these rules are stored; `None` for rules that cannot be changed.
    pub destination: Option<Destination>,
}

impl RuleSource {
    /// A source of rules that can be changed at this destination.
    pub fn new(label: impl Into<Arc<str>>, destination: Destination) -> Self {
        Self { label: label.into(), root: None, destination: Some(destination) }
    }

    /// A source of rules that cannot be changed, such as an administrator's.
    pub fn fixed(label: impl Into<Arc<str>>) -> Self {
        Self { label: label.into(), root: None, destination: None }
    }

    /// Sets the base of paths with one leading `/`.
    pub fn rooted(mut self, root: impl Into<Arc<Path>>) -> Self {
        self.root = Some(root.into());
        self
    }
}

/// A rule as written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleEntry {
    /// Its behaviour.
    pub behavior: Behavior,
    /// Its text: `Tool` or `Tool(spec)`.
    pub text: Arc<str>,
    /// Its source.
    pub origin: RuleSource,
}

/// A warning about a rule, for display.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleWarning {
    /// The rule.
    pub rule: RuleEntry,
    /// The problem and its effect.
    pub message: String,
}

impl fmt::Display for RuleWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleEntry { behavior, text, origin } = &self.rule;
        write!(f, "{behavior} rule `{text}`")?;
        if !origin.label.is_empty() {
            write!(f, " ({})", origin.label)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A parsed rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) entry: RuleEntry,
    pub(crate) name: NamePattern,
    pub(crate) about: RuleSubject,
    /// Alternative meaning of the specification, for deny and ask rules.
    pub(crate) param: Option<ParamPattern>,
}

impl Rule {
    /// The effective behaviour: an invalid rule asks.
    pub(crate) fn slot(&self) -> Behavior {
        match self.about {
            RuleSubject::Broken(_) => Behavior::Ask,
            _ => self.entry.behavior,
        }
    }
}

/// What a rule is about.
#[derive(Clone, Debug)]
pub(crate) enum RuleSubject {
    /// Every call of the tool.
    Everything,
    /// Paths.
    Path(PathPattern),
    /// Commands.
    Command(CommandPattern),
    /// Hosts.
    Domain(DomainPattern),
    /// Named items: a skill, a type of agent.
    Named(CommandPattern),
    /// Only the input in [`Rule::param`].
    Input,
    /// Invalid; asks about every call of the tool.
    Broken(&'static str),
}

/// Rules about what a call touches, independent of the tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RuleFamily {
    Read,
    Edit,
    Command,
    Fetch,
}

impl RuleFamily {
    /// The family whose rules use this tool's name.
    pub(crate) fn for_tool(tool: &str) -> Option<Self> {
        match tool {
            "Read" => Some(Self::Read),
            "Edit" => Some(Self::Edit),
            "Bash" => Some(Self::Command),
            "WebFetch" => Some(Self::Fetch),
            _ => None,
        }
    }
}

/// Tools without path rules of their own: the family that applies to them.
pub(crate) fn family_for_tool(tool: &str) -> Option<&'static str> {
    match tool {
        "Write" | "MultiEdit" | "NotebookEdit" => Some("Edit"),
        "Glob" | "Grep" | "LS" | "Search" => Some("Read"),
        _ => None,
    }
}

/// Result of parsing a rule.
pub(crate) struct ParsedRule {
    /// `None` if the rule is ignored.
    pub(crate) rule: Option<Rule>,
    pub(crate) warning: Option<RuleWarning>,
}

impl ParsedRule {
    fn ignored(warning: RuleWarning) -> Self {
        Self { rule: None, warning: Some(warning) }
    }
}

/// Parses a rule. An invalid allow rule is ignored; an invalid deny or ask rule asks about everything it
/// may have meant.
pub(crate) fn read(entry: RuleEntry, names: &Names) -> ParsedRule {
    let split = match split_rule::split(&entry.text) {
        Ok(split) => split,
        Err(malformed) => {
            let tool = malformed.tool.unwrap_or("*").to_owned();
            return broken(entry.clone(), &tool, malformed.problem, names);
        }
    };
    let name = match NamePattern::parse(split.tool, entry.behavior, names) {
        Ok(name) => name,
        Err(problem) => return broken(entry.clone(), split.tool, problem, names),
    };
    let tool = name.exact().unwrap_or(split.tool).to_owned();
    let (about, param) = match split.spec {
        None => (Ok(RuleSubject::Everything), None),
        Some(spec) => {
            let param = (entry.behavior != Behavior::Allow).then(|| ParamPattern::parse(spec)).flatten();
            (about(&tool, spec, entry.behavior, param.is_some()), param)
        }
    };
    let about = match about {
        Ok(about) => about,
        Err(problem) => return broken(entry.clone(), &tool, problem, names),
    };
    if matches!(about, RuleSubject::Path(_))
        && let Some(family) = family_for_tool(&tool)
    {
        return as_family(Rule { entry, name, about, param }, &tool, family);
    }
    ParsedRule { rule: Some(Rule { entry, name, about, param }), warning: None }
}

fn about(tool: &str, spec: &str, behavior: Behavior, is_param: bool) -> Result<RuleSubject, &'static str> {
    match RuleFamily::for_tool(tool) {
        Some(RuleFamily::Read | RuleFamily::Edit) => {
            Ok(RuleSubject::Path(PathPattern::parse(spec, behavior)?))
        }
        Some(RuleFamily::Command) => Ok(RuleSubject::Command(CommandPattern::parse(spec)?)),
        Some(RuleFamily::Fetch) => match spec.strip_prefix("domain:") {
            Some(domain) => Ok(RuleSubject::Domain(DomainPattern::parse(domain)?)),
            None if is_param => Ok(RuleSubject::Input),
            None => Err("write WebFetch(domain:<host>)"),
        },
        None if family_for_tool(tool).is_some() && is_param => Ok(RuleSubject::Input),
        None if family_for_tool(tool).is_some() => Ok(RuleSubject::Path(PathPattern::parse(spec, behavior)?)),
        None => Ok(RuleSubject::Named(CommandPattern::parse(spec)?)),
    }
}

/// `Write(path)` and similar have no meaning of their own. As deny or ask rules they are treated as
/// rules of the family, so that they are not silently ineffective.
fn as_family(mut rule: Rule, tool: &str, family: &str) -> ParsedRule {
    if rule.entry.behavior == Behavior::Allow {
        let message = format!("is ignored: paths are allowed with {family}(path), not {tool}(path)");
        return ParsedRule::ignored(RuleWarning { rule: rule.entry, message });
    }
    let message = format!("is read as {family}(path), which covers {tool} and every tool like it");
    let warning = RuleWarning { rule: rule.entry.clone(), message };
    rule.name = NamePattern::Exact(family.to_owned());
    ParsedRule { rule: Some(rule), warning: Some(warning) }
}

fn broken(entry: RuleEntry, tool: &str, problem: &'static str, names: &Names) -> ParsedRule {
    let nothing_said = entry.text.trim().is_empty();
    if entry.behavior == Behavior::Allow || nothing_said {
        let message = format!("is ignored: {problem}");
        return ParsedRule::ignored(RuleWarning { rule: entry, message });
    }
    let tool = family_for_tool(tool).unwrap_or(tool);
    let name = NamePattern::parse(tool, entry.behavior, names)
        .unwrap_or_else(|_| NamePattern::Exact(tool.to_owned()));
    let whose = if tool == "*" { String::from("every call") } else { format!("every call of {tool}") };
    let message = format!("cannot be read ({problem}), so {whose} asks until it is corrected");
    let warning = RuleWarning { rule: entry.clone(), message };
    ParsedRule {
        rule: Some(Rule { entry, name, about: RuleSubject::Broken(problem), param: None }),
        warning: Some(warning),
    }
}
