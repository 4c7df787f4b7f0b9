use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use haft_types::AgentId;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{HookCallback, HookEvent, matcher::HookMatcher};

/// What a hook that broke means for what it was asked about.
///
/// Broke means: it could not be started, crashed, ran out of time, or answered
/// something that cannot be understood. A hook that said no is not broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorEffect {
    /// Go on as if the hook were not there, and tell the person.
    Open,
    /// Stay shut, and say that the gate could not run.
    Closed,
}

/// What a definition says about [`ErrorEffect`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorPolicy {
    /// Nothing: the event's default counts.
    Default,
    /// The author has thought about it. Such a gate is held to its word: plain
    /// text where a verdict is expected is no verdict.
    Explicit(ErrorEffect),
}

impl ErrorPolicy {
    /// What counts at this event.
    pub const fn at(self, event: HookEvent) -> ErrorEffect {
        match self {
            Self::Default => event.default_on_error(),
            Self::Explicit(on_error) => on_error,
        }
    }
}

/// Names a hook in reports, and in the setting that disables it.
///
/// Made of the event and a digest of what the hook does, so it is the same on
/// every machine and in every run, unless the definition gives its own `id`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HookId(Arc<str>);

impl HookId {
    /// Takes any text as an id.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a definition comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HookSource {
    /// A settings file.
    File(PathBuf),
    /// Anything else, in words: `--settings`, an agent's front matter, the SDK.
    Named(String),
}

impl fmt::Display for HookSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// One configured hook.
#[derive(Clone, Debug)]
pub struct HookDefinition {
    /// Names the hook in reports and in `disabledHooks`.
    pub id: HookId,
    /// When it runs.
    pub event: HookEvent,
    /// What it runs for.
    pub matcher: HookMatcher,
    /// What it does.
    pub handler: HookHandler,
    /// A permission rule: the hook runs only for calls the rule matches.
    pub condition: Option<String>,
    /// Variables of its process beside those of all hooks.
    pub env: Vec<(String, String)>,
    /// How long it may run.
    pub timeout: Duration,
    /// What it means when it breaks.
    pub on_error: ErrorPolicy,
    /// When the caller hears from it.
    pub mode: HookRunMode,
    /// How often it runs.
    pub repeat: HookRepeat,
    /// What the person sees while it runs.
    pub status_message: Option<String>,
    /// Where it was defined.
    pub source: Arc<HookSource>,
    /// It runs for what this child does only, if it belongs to one.
    pub agent: Option<AgentId>,
}

/// When the caller hears from a hook.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HookRunMode {
    /// The caller waits for the answer.
    Wait,
    /// Nobody waits; the answer decides nothing.
    Background,
    /// Nobody waits, but a blocking answer wakes the model.
    BackgroundRewake,
}

/// How often a hook runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HookRepeat {
    /// Every time.
    Always,
    /// The first time only.
    Once,
}

/// What a hook does.
#[derive(Clone, Debug)]
pub enum HookHandler {
    /// Runs a program.
    Command(CommandHandler),
    /// Posts the input to a server.
    Http(HttpHandler),
    /// Asks code of this process.
    Callback(Callback),
    /// Needs a part of Haft that this crate does not know.
    External(ExternalHandler),
    /// A definition that makes no sense. It is kept, because a gate that was
    /// meant to be there must not silently be absent.
    Unusable(String),
}

/// The kinds of handlers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "the public words, which explain themselves")]
pub enum HandlerKind {
    Command,
    Http,
    Callback,
    McpTool,
    Prompt,
    Agent,
    Unusable,
}

/// A program to run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CommandHandler {
    /// A line for a shell.
    Shell {
        /// The line for the shell.
        line: String,
        /// The shell; without one, bash, or sh where there is no bash.
        shell: Option<String>,
    },
    /// A program with its arguments, no shell between.
    Exec {
        /// The program, looked up in the search path.
        program: String,
        /// The arguments, with variables not yet filled in.
        args: Vec<String>,
    },
}

/// A server to ask.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpHandler {
    /// Where to post.
    pub url: String,
    /// Headers; `$NAME` and `${NAME}` are replaced for allowed variables.
    pub headers: Vec<(String, String)>,
    /// Variables that may be put into headers.
    pub allowed_env_vars: Vec<String>,
}

/// Code of this process, with the name it goes by.
#[derive(Clone)]
pub struct Callback {
    /// Distinguishes it from other callbacks.
    pub name: String,
    /// The code that answers in this process.
    pub code: Arc<dyn HookCallback>,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Callback").field(&self.name).finish()
    }
}

/// A handler that another crate runs: an MCP tool, a prompt, an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalHandler {
    /// Which of them.
    pub kind: HandlerKind,
    /// The definition's fields, as written.
    pub fields: Map<String, Value>,
}

impl HookHandler {
    /// The `type` of the handler in settings.
    pub fn kind(&self) -> HandlerKind {
        match self {
            Self::Command(_) => HandlerKind::Command,
            Self::Http(_) => HandlerKind::Http,
            Self::Callback(_) => HandlerKind::Callback,
            Self::External(external) => external.kind,
            Self::Unusable(_) => HandlerKind::Unusable,
        }
    }

    /// One line for a person: the command, the address, the name.
    pub fn label(&self) -> String {
        let text = match self {
            Self::Command(CommandHandler::Shell { line, .. }) => line.clone(),
            Self::Command(CommandHandler::Exec { program, args }) => {
                [&[program.clone()][..], args].concat().join(" ")
            }
            Self::Http(http) => http.url.clone(),
            Self::Callback(callback) => format!("callback {}", callback.name),
            Self::External(external) => external_label(external),
            Self::Unusable(why) => why.clone(),
        };
        haft_types::text::one_line(&text, 120)
    }

    /// What makes two handlers the same handler: a text that differs when what
    /// they do differs. Ids are made of it, so it may not change between
    /// releases.
    pub(crate) fn identity(&self) -> String {
        let parts = match self {
            Self::Command(CommandHandler::Shell { line, shell }) => json!(["shell", shell, line]),
            Self::Command(CommandHandler::Exec { program, args }) => json!(["exec", program, args]),
            Self::Http(HttpHandler { url, headers, allowed_env_vars }) => {
                json!(["http", url, headers, allowed_env_vars])
            }
            Self::Callback(callback) => json!(["callback", callback.name]),
            Self::External(external) => json!(["external", external.fields]),
            Self::Unusable(why) => json!(["unusable", why]),
        };
        parts.to_string()
    }
}

fn external_label(external: &ExternalHandler) -> String {
    let field = |name: &str| external.fields.get(name).and_then(Value::as_str).unwrap_or_default();
    match external.kind {
        HandlerKind::McpTool => format!("mcp__{}__{}", field("server"), field("tool")),
        HandlerKind::Prompt => format!("prompt {}", field("prompt")),
        _ => format!("agent {}", field("prompt")),
    }
}

impl HookDefinition {
    /// A hook that runs always, for everything, with the event's defaults.
    pub fn new(event: HookEvent, handler: HookHandler, source: Arc<HookSource>) -> Self {
        Self::matching(event, HookMatcher::all(), handler, source)
    }

    /// A hook for some subjects only, with the event's defaults.
    pub fn matching(
        event: HookEvent,
        matcher: HookMatcher,
        handler: HookHandler,
        source: Arc<HookSource>,
    ) -> Self {
        Self {
            id: derived_id(event, &matcher, &handler),
            event,
            matcher,
            timeout: event.default_timeout(handler.kind()),
            handler,
            condition: None,
            env: Vec::new(),
            on_error: ErrorPolicy::Default,
            mode: HookRunMode::Wait,
            repeat: HookRepeat::Always,
            status_message: None,
            source,
            agent: None,
        }
    }

    /// What it means here when this hook breaks.
    pub fn when_broken(&self) -> ErrorEffect {
        match self.mode {
            HookRunMode::Wait => self.on_error.at(self.event),
            // Nobody waits for it, so it cannot keep anything shut.
            HookRunMode::Background | HookRunMode::BackgroundRewake => ErrorEffect::Open,
        }
    }
}

fn derived_id(event: HookEvent, matcher: &HookMatcher, handler: &HookHandler) -> HookId {
    let digest = Sha256::digest(format!("{event}\0{}\0{}", matcher.text(), handler.identity()));
    let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    HookId::new(format!("{event}-{hex}"))
}
