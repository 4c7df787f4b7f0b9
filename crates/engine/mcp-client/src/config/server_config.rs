use std::{fmt, sync::Arc, time::Duration};

use haft_types::text::hex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    HttpEndpoint,
    client::ProtocolRevision,
    transport::{Connector, StdioCommand},
};

/// One server, as configured. Variables are expanded already.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What the user calls it: the middle of `mcp__name__tool`.
    pub name: String,
    /// Where the configuration comes from.
    pub scope: ServerScope,
    /// How to reach it.
    pub endpoint: ServerEndpoint,
    /// How far its claims count.
    pub trust: ServerTrust,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Its tools are in every request instead of behind tool search.
    pub always_load: bool,
    /// Asks it for log messages from this level on.
    pub log_level: Option<String>,
    /// Which protocol it speaks, for servers that take the question amiss.
    pub era: Option<ProtocolRevision>,
    /// Whether it may ask the model, and how much. Whoever offers
    /// [`crate::SamplingHandler`] goes by it.
    pub sampling: Option<SamplingRules>,
    /// Whether its process is to be held by the sandbox. Whoever starts servers
    /// goes by it.
    pub sandbox: bool,
}

/// How much a server may ask of the model.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SamplingRules {
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Questions in one session.
    pub max_requests: u32,
    /// Whether a person agrees to each.
    #[serde(rename = "approval")]
    pub confirm: SamplingConfirm,
    /// Another model than the session's.
    pub model: Option<String>,
}

/// Whether a person agrees to a server's questions to the model.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum SamplingConfirm {
    /// To each of them; without a person none is asked.
    #[default]
    #[serde(rename = "ask")]
    EachRequest,
    /// The user agreed to all of them in the configuration.
    #[serde(rename = "always")]
    Never,
}

impl Default for SamplingRules {
    fn default() -> Self {
        Self { max_tokens: 4096, max_requests: 20, confirm: SamplingConfirm::EachRequest, model: None }
    }
}

impl ServerConfig {
    /// A server with default limits that is trusted with nothing.
    pub fn new(name: impl Into<String>, endpoint: ServerEndpoint) -> Self {
        let timeouts = Timeouts::for_endpoint(&endpoint);
        Self {
            name: name.into(),
            scope: ServerScope::Dynamic,
            endpoint,
            trust: ServerTrust::Untrusted,
            timeouts,
            always_load: false,
            log_level: None,
            era: None,
            sampling: None,
            sandbox: false,
        }
    }

    /// Identifies what an approval is about: the command with its arguments and
    /// variables, or the address with its headers. A changed one is another
    /// server, whatever its name.
    pub fn fingerprint(&self) -> String {
        let content = match &self.endpoint {
            ServerEndpoint::Stdio(it) => json!(["stdio", it.program, it.args, it.env, it.cwd]),
            ServerEndpoint::Http(it) => json!(["http", it.url, it.headers, it.headers_helper]),
            ServerEndpoint::Sse(it) => json!(["sse", it.url, it.headers, it.headers_helper]),
            ServerEndpoint::WebSocket(it) => json!(["ws", it.url, it.headers, it.headers_helper]),
            ServerEndpoint::InProcess(_) => json!(["in-process", self.name]),
        };
        hex(&Sha256::digest(content.to_string()))
    }
}

/// How to reach a server.
#[derive(Clone)]
pub enum ServerEndpoint {
    /// A local process.
    Stdio(StdioCommand),
    /// Streamable HTTP.
    Http(HttpEndpoint),
    /// The older HTTP with server-sent events.
    Sse(HttpEndpoint),
    /// A WebSocket.
    WebSocket(HttpEndpoint),
    /// In this process, or behind a channel of the host.
    InProcess(Arc<dyn Connector>),
}

impl ServerEndpoint {
    /// The name of the transport in configuration files.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
            Self::Sse(_) => "sse",
            Self::WebSocket(_) => "ws",
            Self::InProcess(_) => "sdk",
        }
    }
}

impl fmt::Debug for ServerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(it) => write!(f, "Stdio({} {:?})", it.program, it.args),
            // Headers hold secrets.
            Self::Http(it) | Self::Sse(it) | Self::WebSocket(it) => write!(f, "{}({})", self.kind(), it.url),
            Self::InProcess(_) => f.write_str("InProcess"),
        }
    }
}

/// Where a server's configuration comes from. Earlier ones win.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerScope {
    /// The administrator.
    Managed,
    /// A flag, or the program that embeds us, for this session.
    Dynamic,
    /// The program that embeds us, in its own process.
    Sdk,
    /// The user, for this project only.
    Local,
    /// The project: shared, and so not to be trusted unseen.
    Project,
    /// The user, everywhere.
    User,
    /// A plugin.
    Plugin,
}

impl ServerScope {
    /// The public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::Dynamic => "dynamic",
            Self::Sdk => "sdk",
            Self::Local => "local",
            Self::Project => "project",
            Self::User => "user",
            Self::Plugin => "plugin",
        }
    }
}

/// How far a server's claims about its tools count.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerTrust {
    /// Not at all.
    #[default]
    Untrusted,
    /// Tools that claim to change nothing may run side by side, and a warning
    /// that one destroys something is shown.
    Approved,
    /// Tools that claim to change nothing also run without asking.
    Trusted,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// From the start to the end of the handshake.
    pub startup: Duration,
    /// Longest silence during a call; progress starts it again.
    pub idle: Duration,
    /// Longest call.
    pub total: Duration,
}

impl Timeouts {
    /// Local tools may compile the world in silence; an address that is silent
    /// for minutes has forgotten us.
    pub fn for_endpoint(endpoint: &ServerEndpoint) -> Self {
        let idle = match endpoint {
            ServerEndpoint::Stdio(_) | ServerEndpoint::InProcess(_) => Duration::from_secs(30 * 60),
            ServerEndpoint::Http(_) | ServerEndpoint::Sse(_) | ServerEndpoint::WebSocket(_) => {
                Duration::from_secs(5 * 60)
            }
        };
        Self { startup: Duration::from_secs(30), idle, total: Duration::from_secs(28 * 3600) }
    }
}
