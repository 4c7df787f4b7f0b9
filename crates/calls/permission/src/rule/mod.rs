//! Rules as they are written, and what they are about.

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

/// Where rules come from.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct RuleSource {
    /// For people: "project settings", "--allowedTools".
    pub label: Arc<str>,
    /// What a path that starts with one `/` is relative to; the working
    /// directory when nothing is given.
    pub root: Option<Arc<Path>>,
    /// Where a change of these rules is kept; nothing for rules nobody may
    /// change.
    pub destination: Option<Destination>,
}

impl RuleSource {
    /// Rules somebody may change at this destination.
    pub fn new(label: impl Into<Arc<str>>, destination: Destination) -> Self {
        Self { label: label.into(), root: None, destination: Some(destination) }
    }

    /// Rules nobody may change, such as those of an administrator.
    pub fn fixed(label: impl Into<Arc<str>>) -> Self {
        Self { label: label.into(), root: None, destination: None }
    }

    /// Paths with one leading `/` start here.
    pub fn rooted(mut self, root: impl Into<Arc<Path>>) -> Self {
        self.root = Some(root.into());
        self
    }
}

/// A rule as somebody wrote it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleEntry {
    /// What it says.
    pub behavior: Behavior,
    /// As written: `Tool` or `Tool(spec)`.
    pub text: Arc<str>,
    /// Where it stands.
    pub origin: RuleSource,
}

/// What is wrong with a rule, for people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleWarning {
    /// The rule.
    pub rule: RuleEntry,
    /// What is wrong, and what happens because of it.
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

/// A rule that can be compared with calls.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) entry: RuleEntry,
    pub(crate) name: NamePattern,
    pub(crate) about: RuleSubject,
    /// The other meaning a specification can have, for deny and ask.
    pub(crate) param: Option<ParamPattern>,
}

impl Rule {
    /// The list the rule acts in: what cannot be read asks.
    pub(crate) fn slot(&self) -> Behavior {
        match self.about {
            RuleSubject::Broken(_) => Behavior::Ask,
            _ => self.entry.behavior,
        }
    }
}

/// What a rule says its tool may or may not touch.
#[derive(Clone, Debug)]
pub(crate) enum RuleSubject {
    /// Every call.
    Everything,
    /// These paths.
    Path(PathPattern),
    /// These commands.
    Command(CommandPattern),
    /// These hosts.
    Domain(DomainPattern),
    /// Things of this name: a skill, a type of agent.
    Named(CommandPattern),
    /// Only the input named by [`Rule::param`].
    Input,
    /// It cannot be read, so it asks about every call of the tool.
    Broken(&'static str),
}

/// Rules that are about what a call touches, whichever tool it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RuleFamily {
    Read,
    Edit,
    Command,
    Fetch,
}

impl RuleFamily {
    /// The family whose rules carry this tool's name.
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

/// Tools of the path families that have no path rules of their own.
pub(crate) fn speaks_for(tool: &str) -> Option<&'static str> {
    match tool {
        "Write" | "MultiEdit" | "NotebookEdit" => Some("Edit"),
        "Glob" | "Grep" | "LS" | "Search" => Some("Read"),
        _ => None,
    }
}

/// What became of a rule's text.
pub(crate) struct ParsedRule {
    /// Nothing when it is ignored.
    pub(crate) rule: Option<Rule>,
    pub(crate) warning: Option<RuleWarning>,
}

impl ParsedRule {
    fn ignored(warning: RuleWarning) -> Self {
        Self { rule: None, warning: Some(warning) }
    }
}

/// Reads a rule. An allow that cannot be read is ignored; a deny or ask that
/// cannot be read asks about everything it could have been about.
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
        && let Some(family) = speaks_for(&tool)
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
        None if speaks_for(tool).is_some() && is_param => Ok(RuleSubject::Input),
        None if speaks_for(tool).is_some() => Ok(RuleSubject::Path(PathPattern::parse(spec, behavior)?)),
        None => Ok(RuleSubject::Named(CommandPattern::parse(spec)?)),
    }
}

/// `Write(path)` and its kind have no meaning of their own. As a deny or ask
/// they are taken for the family's, because a rule that says no must not turn
/// into nothing.
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
    let tool = speaks_for(tool).unwrap_or(tool);
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
