use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use haft_types::AgentId;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{HookCallback, HookEvent, matcher::HookMatcher};

/// Effect of a failed hook on the operation it was asked about.
///
/// A hook fails if it cannot be started, crashes, times out, or gives a malformed answer. A hook that
/// denies has not failed. A command that cannot start, crashes, or exits with a status other than 0 and
/// 2 counts as `Open` unless the definition or
/// [`HookPorts::strict_commands`](crate::HookPorts::strict_commands) says otherwise.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorEffect {
    /// Continue as if the hook did not exist, and notify the user.
    Open,
    /// Block, with a message that the gate could not run.
    Closed,
}

/// The `on_error` setting of a definition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorPolicy {
    /// Not set: the event's default applies.
    Default,
    /// Set. Such a hook must give a verdict: plain text where a verdict is expected counts as a failure.
    Explicit(ErrorEffect),
}

impl ErrorPolicy {
    /// The effective value at this event.
    pub const fn at(self, event: HookEvent) -> ErrorEffect {
        match self {
            Self::Default => event.default_on_error(),
            Self::Explicit(on_error) => on_error,
        }
    }
}

/// Id of a hook, in reports and in the setting that disables it.
///
/// Consists of the event and a hash of what the hook does, so it is the same on all machines, unless the
/// definition has an `id`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HookId(Arc<str>);

impl HookId {
    /// Creates an id from any text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

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
    /// Another source: `--settings`, an agent's front matter, the SDK.
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

/// A configured hook.
#[derive(Clone, Debug)]
pub struct HookDefinition {
    /// Id in reports and in `disabledHooks`.
    pub id: HookId,
    /// Event at which it runs.
    pub event: HookEvent,
    /// Subjects for which it runs.
    pub matcher: HookMatcher,
    /// What it does.
    pub handler: HookHandler,
    /// A permission rule (`if`): the hook runs only for calls that match it.
    pub condition: Option<String>,
    /// Environment variables of its process, in addition to those of all hooks.
    pub env: Vec<(String, String)>,
    /// Timeout.
    pub timeout: Duration,
    /// What happens if it fails.
    pub on_error: ErrorPolicy,
    /// Whether the caller waits for it.
    pub mode: HookRunMode,
    /// Whether it runs once or always.
    pub repeat: HookRepeat,
    /// Text shown to the user while it runs.
    pub status_message: Option<String>,
    /// Where it was defined.
    pub source: Arc<HookSource>,
    /// If set, it runs only for this sub-agent.
    pub agent: Option<AgentId>,
}

/// Whether the caller waits for a hook.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HookRunMode {
    /// The caller waits for the answer.
    Wait,
    /// Runs in the background; the answer has no effect.
    Background,
    /// Runs in the background; a blocking answer wakes up the model.
    BackgroundRewake,
}

/// How often a hook runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HookRepeat {
    /// Every time.
    Always,
    /// Only the first time.
    Once,
}

/// What a hook does.
#[derive(Clone, Debug)]
pub enum HookHandler {
    Command(CommandHandler),
    /// Sends the input to an HTTP server.
    Http(HttpHandler),
    /// Calls code of this process.
    Callback(Callback),
    /// Runs in another crate: an MCP tool, a prompt or an agent.
    External(ExternalHandler),
    /// An invalid definition; the reason. It is kept, because a gate must not disappear silently.
    Unusable(String),
}

/// Kind of a handler.
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
    /// A shell command line.
    Shell {
        line: String,
        /// The shell; by default bash, or sh if there is no bash.
        shell: Option<String>,
    },
    /// A program with arguments, without a shell.
    Exec {
        /// The program, looked up in `PATH`.
        program: String,
        /// The arguments, before variable expansion.
        args: Vec<String>,
    },
}

/// An HTTP server to call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpHandler {
    /// URL for the POST request.
    pub url: String,
    /// Headers; `$NAME` and `${NAME}` are expanded for allowed variables.
    pub headers: Vec<(String, String)>,
    /// Variables that may be used in headers.
    pub allowed_env_vars: Vec<String>,
}

/// A named callback.
#[derive(Clone)]
pub struct Callback {
    /// Distinguishes it from other callbacks.
    pub name: String,
    /// The code to call.
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
    /// Its kind.
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

    /// One line for display: the command, URL or name.
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

    /// Identity of a handler: equal texts mean equal behaviour. Ids are derived from it, so it must not
    /// change between releases.
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
    /// A hook for all subjects, with the event's defaults.
    pub fn new(event: HookEvent, handler: HookHandler, source: Arc<HookSource>) -> Self {
        Self::matching(event, HookMatcher::all(), handler, source)
    }

    /// A hook for some subjects, with the event's defaults.
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

    /// The effect if this hook fails.
    pub fn when_broken(&self) -> ErrorEffect {
        match self.mode {
            HookRunMode::Wait => self.on_error.at(self.event),
            // The caller does not wait for it, so it cannot block.
            HookRunMode::Background | HookRunMode::BackgroundRewake => ErrorEffect::Open,
        }
    }
}

fn derived_id(event: HookEvent, matcher: &HookMatcher, handler: &HookHandler) -> HookId {
    let digest = Sha256::digest(format!("{event}\0{}\0{}", matcher.text(), handler.identity()));
    let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    HookId::new(format!("{event}-{hex}"))
}
