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

/// Configuration of one server, with variables expanded.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The server's name in the configuration; the middle part of `mcp__name__tool`.
    pub name: String,
    /// Where it is configured.
    pub scope: ServerScope,
    /// How it is reached.
    pub endpoint: ServerEndpoint,
    /// Which of its claims about its tools are believed.
    pub trust: ServerTrust,
    pub timeouts: Timeouts,
    /// Whether its tools are in every request instead of behind tool search.
    pub always_load: bool,
    /// Minimum level of log messages requested from it.
    pub log_level: Option<String>,
    /// Protocol generation, for servers that cannot handle the probe for it.
    pub era: Option<ProtocolRevision>,
    /// Limits of its requests to the model; `None` forbids them. Enforced by the
    /// [`crate::SamplingHandler`].
    pub sampling: Option<SamplingRules>,
    /// Whether its process runs in the sandbox. Enforced by the code that starts it.
    pub sandbox: bool,
}

/// Limits of a server's requests to the model.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SamplingRules {
    /// Maximum output tokens per request.
    pub max_tokens: u32,
    /// Maximum requests per session.
    pub max_requests: u32,
    /// Whether the user confirms each request.
    #[serde(rename = "approval")]
    pub confirm: SamplingConfirm,
    /// Model to use instead of the session's.
    pub model: Option<String>,
}

/// Whether the user confirms a server's requests to the model.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum SamplingConfirm {
    /// Each request; denied when no approver is available.
    #[default]
    #[serde(rename = "ask")]
    EachRequest,
    /// None: the configuration approves all requests.
    #[serde(rename = "always")]
    Never,
}

impl Default for SamplingRules {
    fn default() -> Self {
        Self { max_tokens: 4096, max_requests: 20, confirm: SamplingConfirm::EachRequest, model: None }
    }
}

impl ServerConfig {
    /// Creates an untrusted server with default limits.
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

    /// Returns a hash of what was approved: command, arguments and variables, or URL and headers. A
    /// server with another hash counts as another server.
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

/// How a server is reached.
#[derive(Clone)]
pub enum ServerEndpoint {
    /// A local process.
    Stdio(StdioCommand),
    /// Streamable HTTP.
    Http(HttpEndpoint),
    /// The HTTP+SSE transport of revision 2024-11-05.
    Sse(HttpEndpoint),
    WebSocket(HttpEndpoint),
    /// In this process, or over a channel of the embedder.
    InProcess(Arc<dyn Connector>),
}

impl ServerEndpoint {
    /// Returns the transport's name in configuration files.
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
            // Headers may contain secrets.
            Self::Http(it) | Self::Sse(it) | Self::WebSocket(it) => write!(f, "{}({})", self.kind(), it.url),
            Self::InProcess(_) => f.write_str("InProcess"),
        }
    }
}

/// Where a server is configured, in descending precedence.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerScope {
    /// The administrator.
    Managed,
    /// A flag or the embedding program, for this session.
    Dynamic,
    /// The embedding program, with a server in its own process.
    Sdk,
    /// The user, for this project only.
    Local,
    /// The project: shared, so it needs the user's approval.
    Project,
    /// The user, for all projects.
    User,
    Plugin,
}

impl ServerScope {
    /// Returns the name used in configuration and output.
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

/// Which of a server's claims about its tools are believed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerTrust {
    /// None, except that a tool is destructive.
    #[default]
    Untrusted,
    /// Tools that claim to be read-only may run concurrently.
    Approved,
    /// Tools that claim to be read-only also run without a prompt.
    Trusted,
}

/// Timeouts of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// From process start to the end of the handshake.
    pub startup: Duration,
    /// Maximum time without progress during a call.
    pub idle: Duration,
    /// Maximum total duration of a call.
    pub total: Duration,
}

impl Timeouts {
    /// Returns the defaults. The idle timeout is 30 minutes for local servers, whose tools may compile
    /// for a long time, and 5 minutes for remote ones.
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
