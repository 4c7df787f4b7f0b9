use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_paths::PathError;
use haft_types::PermissionMode;

use crate::{Behavior, RuleEntry, display_text, path_matcher::PathUse, protected_paths::Protection};

/// Reason of a decision as data; formatted on demand.
#[derive(Clone, Debug)]
pub(crate) enum ReasonDetail {
    /// A hook denies, asks or allows.
    HookDenies(String),
    HookAsks(String),
    HookAllows,
    /// A rule matched.
    Rule {
        rule: RuleEntry,
        action: CallAction,
        via: RuleLink,
    },
    /// A deny or ask rule is invalid, so it asks.
    BrokenRule {
        rule: RuleEntry,
        problem: &'static str,
    },
    /// A deny or ask rule applies to named inputs (a path, a host), but the call names none, so it asks.
    Incomparable(RuleEntry),
    /// The right may only be delegated.
    DelegateOnly {
        rule: RuleEntry,
        to: Arc<str>,
    },
    /// The agent's definition excludes the tool.
    NotAmongTools {
        agent: Arc<str>,
        tool: String,
    },
    /// The tool's own verdict; its text.
    Tool(String),
    /// The tool declared the call harmless.
    Harmless,
    /// The call only reads.
    OnlyReads,
    /// The call touches nothing outside the process.
    TouchesNothing,
    /// The path is where reads (or edits) are allowed by default.
    Inside {
        path: PathBuf,
        using: PathUse,
    },
    /// The path is outside the workspace.
    Outside {
        path: PathBuf,
        real: Option<PathBuf>,
        blocked: bool,
    },
    /// No rule matches.
    NoRule(CallAction),
    /// No rule matches, but an allow rule almost does.
    NearMiss {
        action: CallAction,
        rule: RuleEntry,
        word: Option<String>,
    },
    /// A protected path, which no rule lets tools change.
    Protected {
        path: PathBuf,
        /// Real path, if it differs.
        real: Option<PathBuf>,
        /// The protected path in it, if it is not itself protected.
        inside: Option<PathBuf>,
        reason: Protection,
    },
    /// A path on a kernel file system.
    Kernel(PathBuf),
    /// Plan mode forbids the change.
    Plan(CallAction),
    /// The mode bypasses prompts.
    Bypass,
    /// The path cannot be resolved.
    Path(PathError),
    /// The URL cannot be parsed unambiguously.
    Address(&'static str),
    /// The command line is uncertain; which part.
    Doubt(String),
    /// A command uses a whole directory, part of which a rule forbids.
    Below {
        rule: RuleEntry,
        path: PathBuf,
    },
    /// An unknown command names a command that a rule denies.
    Names {
        rule: RuleEntry,
        name: String,
    },
    /// The file is known only at run time; the source of the word.
    UnknownFile(String),
    /// The command only reads.
    CommandReads,
    /// The command is sandboxed.
    Sandboxed,
    /// The mode denies what would ask.
    DontAsk {
        inner: Box<ReasonDetail>,
    },
    /// The classifier decided.
    Classifier {
        blocked: Option<String>,
    },
}

/// Description of what a call does.
#[derive(Clone, Debug)]
pub(crate) enum CallAction {
    Tool(String),
    Input { tool: String, param: String },
    Path { path: PathBuf, using: PathUse },
    Command(String),
    Fetch(String),
    Named { tool: String, name: String },
}

/// How a rule matched a path.
#[derive(Clone, Debug)]
pub(crate) enum RuleLink {
    /// By its name.
    Name,
    /// Through a symlink; its target.
    Link(PathBuf),
    /// It is a hard link of this path.
    SameFile(PathBuf),
}

impl fmt::Display for ReasonDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HookDenies(text) => write!(f, "a hook refused it: {}", display_text::text(text)),
            Self::HookAsks(text) => {
                write!(f, "a hook wants a person to decide: {}", display_text::text(text))
            }
            Self::HookAllows => f.write_str("a hook allowed it and no rule objects"),
            Self::Rule { rule, action, via } => rule_text(f, rule, action, via),
            Self::BrokenRule { rule, problem } => {
                write!(
                    f,
                    "the {} rule {} cannot be read ({problem}), so this asks",
                    rule.behavior,
                    Cited(rule)
                )
            }
            Self::Incomparable(rule) => {
                write!(f, "the {} rule {} cannot be compared with this call", rule.behavior, Cited(rule))
            }
            Self::DelegateOnly { rule, to } => {
                write!(f, "{} may only be delegated to {to}, not used", Cited(rule))
            }
            Self::NotAmongTools { agent, tool } => write!(f, "the agent {agent} was not given {tool}"),
            Self::Tool(text) => f.write_str(&display_text::text(text)),
            Self::Harmless => f.write_str("the tool says this call is harmless"),
            Self::OnlyReads => f.write_str("it only reads"),
            Self::TouchesNothing => f.write_str("it touches nothing outside the session"),
            Self::Inside { path, using } => inside_text(f, path, *using),
            Self::Outside { path, real, blocked } => outside_text(f, path, real.as_deref(), *blocked),
            Self::NoRule(action) => write!(f, "no rule allows {action}"),
            Self::NearMiss { action, rule, word } => near_text(f, action, rule, word.as_deref()),
            Self::Protected { path, inside: Some(inside), reason, .. } => write!(
                f,
                "the command changes all of {}, and {} in it is protected: {}, so no rule approves changing it",
                display_text::path(path),
                display_text::path(inside),
                reason.reason()
            ),
            Self::Protected { path, real, inside: None, reason } => {
                protected_text(f, path, real.as_deref(), *reason)
            }
            Self::Kernel(path) => {
                write!(f, "{} is not a file but a switch of the system", display_text::path(path))
            }
            Self::Plan(action) => {
                write!(f, "plan mode only reads; {action} has to wait until the plan is approved")
            }
            Self::Bypass => write!(f, "{} mode asks nobody", PermissionMode::BypassPermissions),
            Self::Path(problem) => write!(f, "{problem}"),
            Self::Address(problem) => f.write_str(problem),
            Self::Doubt(text) => f.write_str(&display_text::text(text)),
            Self::Below { rule, path } => {
                write!(
                    f,
                    "the command uses all of {}, and {} may forbid some of it",
                    display_text::path(path),
                    Cited(rule)
                )
            }
            Self::Names { rule, name } => {
                write!(f, "the command may run {}, which {} forbids", display_text::text(name), Cited(rule))
            }
            Self::UnknownFile(text) => {
                write!(
                    f,
                    "which file `{}` means is known only when the command runs",
                    display_text::text(text)
                )
            }
            Self::Sandboxed => f.write_str("the sandbox holds it"),
            Self::CommandReads => f.write_str("the command only reads what may be read"),
            Self::DontAsk { inner } => {
                write!(f, "{} mode denies what would ask: {inner}", PermissionMode::DontAsk)
            }
            Self::Classifier { blocked: Some(text) } => {
                write!(f, "blocked by the classifier: {}", display_text::text(text))
            }
            Self::Classifier { blocked: None } => f.write_str("the classifier approved it"),
        }
    }
}

fn rule_text(
    f: &mut fmt::Formatter<'_>,
    rule: &RuleEntry,
    action: &CallAction,
    via: &RuleLink,
) -> fmt::Result {
    let verb = match rule.behavior {
        Behavior::Allow => "allows",
        Behavior::Ask => "asks before",
        Behavior::Deny => "denies",
    };
    write!(f, "{} {verb} {action}", Cited(rule))?;
    match via {
        RuleLink::Name => Ok(()),
        RuleLink::Link(real) => write!(f, ", which leads to {}", display_text::path(real)),
        RuleLink::SameFile(named) => write!(f, ", which is the same file as {}", display_text::path(named)),
    }
}

fn inside_text(f: &mut fmt::Formatter<'_>, path: &Path, using: PathUse) -> fmt::Result {
    match using {
        PathUse::Read => write!(f, "{} may be read without asking", display_text::path(path)),
        PathUse::Write => write!(f, "edits of {} are accepted", display_text::path(path)),
    }
}

fn outside_text(f: &mut fmt::Formatter<'_>, path: &Path, real: Option<&Path>, blocked: bool) -> fmt::Result {
    f.write_str(&display_text::path(path))?;
    if let Some(real) = real {
        write!(f, " leads to {}, which", display_text::path(real))?;
    }
    f.write_str(" is outside the workspace")?;
    if blocked { f.write_str(", and the settings block that") } else { Ok(()) }
}

fn protected_text(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    real: Option<&Path>,
    reason: Protection,
) -> fmt::Result {
    f.write_str(&display_text::path(path))?;
    if let Some(real) = real {
        write!(f, " leads to {}, which", display_text::path(real))?;
    }
    write!(f, " is protected: {}, so no rule approves changing it", reason.reason())
}

fn near_text(
    f: &mut fmt::Formatter<'_>,
    action: &CallAction,
    rule: &RuleEntry,
    word: Option<&str>,
) -> fmt::Result {
    write!(f, "no rule allows {action}; {} does not match ", Cited(rule))?;
    match word {
        Some(word) => write!(f, "because of `{}`", display_text::text(word)),
        None => f.write_str("because it is longer"),
    }
}

impl fmt::Display for CallAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(tool) => write!(f, "the tool {}", display_text::text(tool)),
            Self::Input { tool, param } => write!(f, "{} with this `{param}`", display_text::text(tool)),
            Self::Path { path, using: PathUse::Read } => write!(f, "reading {}", display_text::path(path)),
            Self::Path { path, using: PathUse::Write } => write!(f, "changing {}", display_text::path(path)),
            Self::Command(text) => write!(f, "the command `{}`", display_text::text(text)),
            Self::Fetch(host) => write!(f, "fetching from {}", display_text::text(host)),
            Self::Named { tool, name } => {
                write!(f, "{} {}", display_text::text(tool), display_text::text(name))
            }
        }
    }
}

/// Formats a rule with its source.
struct Cited<'a>(&'a RuleEntry);

impl fmt::Display for Cited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleEntry { text, origin, .. } = self.0;
        write!(f, "`{}`", display_text::text(text))?;
        if origin.label.is_empty() { Ok(()) } else { write!(f, " ({})", origin.label) }
    }
}
