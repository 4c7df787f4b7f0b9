use std::{fmt, time::Duration};

use haft_types::text;
use serde::{Deserialize, Serialize};

use crate::{
    client::{ServerInfo, SkippedOffer},
    config::ServerScope,
};

/// Status of a server, for display.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    pub name: String,
    /// Where it is configured.
    pub scope: ServerScope,
    /// Transport: `stdio`, `http`, `sse`, `ws`, `sdk`.
    pub transport: &'static str,
    pub state: ServerState,
    /// What it reported about itself, now or in an earlier session.
    pub info: Option<ServerInfo>,
    /// Process id, if a process is running.
    pub pid: Option<u32>,
    /// Number of tools.
    pub tools: usize,
    /// Tools that cannot be used, and why.
    pub skipped: Vec<SkippedOffer>,
    /// Tools that were repaired, and how.
    pub repaired: Vec<SkippedOffer>,
    /// Tools whose definition differs from the accepted one.
    pub changed: Vec<String>,
    /// Output that is not protocol messages.
    pub noise: Option<NonProtocolOutput>,
    /// Duration of the last connection attempt.
    pub connect_time: Option<Duration>,
    /// The last error.
    pub last_error: Option<String>,
    /// What the user can do about the error.
    pub advice: Option<String>,
    /// Last lines of its error output.
    pub log_tail: String,
}

/// Output of a server that is not protocol messages.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NonProtocolOutput {
    /// Number of lines.
    pub lines: u64,
    /// The first line.
    pub first: String,
}

impl fmt::Display for NonProtocolOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = text::one_line(&self.first, 120);
        match self.lines {
            1 => write!(f, "1 line of its output was no message: {first}")?,
            lines => write!(f, "{lines} lines of its output were no messages, first: {first}")?,
        }
        // LSP-style framing, a common mistake.
        if self.first.to_ascii_lowercase().starts_with("content-length:") {
            f.write_str(" (it frames messages like a language server; here each is one line)")
        } else {
            Ok(())
        }
    }
}

/// State of a server.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ServerState {
    Disabled,
    /// Not connected; its tools are known from the cache. It is started when one is called.
    Cached,
    /// Being started or connected.
    Connecting,
    /// Connected.
    Ready,
    /// Ended, and is being restarted.
    Restarting {
        /// Consecutive attempts.
        attempt: u32,
    },
    /// Requires a login.
    NeedsAuth,
    /// Cannot be used; a call tries again after the backoff.
    Failed,
}

impl ServerState {
    /// Returns the state's name in the Agent SDK protocol.
    pub fn wire_name(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Cached | Self::Connecting | Self::Restarting { .. } => "pending",
            Self::Ready => "connected",
            Self::NeedsAuth => "needs-auth",
            Self::Failed => "failed",
        }
    }
}

/// A change of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEvent {
    /// Its state changed.
    State { server: String, state: ServerState },
    /// Its tool list changed.
    Tools { server: String },
    /// Its list of prompts or resources changed.
    Lists { server: String },
    /// A subscribed resource changed.
    Resource { server: String, uri: String },
    /// Tools differ from their accepted definitions; they prompt before they run until
    /// [`crate::McpManager::accept_definitions`].
    Definitions {
        server: String,
        /// Names of the tools.
        tools: Vec<String>,
    },
    /// A line of its error output. A slow receiver may miss some.
    Output {
        server: String,
        /// The line, truncated to a maximum length.
        line: String,
    },
    /// A notification that is not part of the protocol. A slow receiver may miss some.
    Own {
        server: String,
        method: String,
        /// Parameters, limited in size.
        params: serde_json::Value,
    },
    /// A log message.
    Log {
        server: String,
        /// Log level, as sent.
        level: String,
        message: String,
    },
}
