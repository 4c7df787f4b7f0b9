use std::{fmt, time::Duration};

use haft_types::text;
use serde::{Deserialize, Serialize};

use crate::{
    client::{ServerInfo, SkippedOffer},
    config::ServerScope,
};

/// What a person sees of one server.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Where it is configured.
    pub scope: ServerScope,
    /// How it is reached: `stdio`, `http`, `sse`, `ws`, `sdk`.
    pub transport: &'static str,
    /// What it is doing.
    pub state: ServerState,
    /// What it said about itself, now or the last time.
    pub info: Option<ServerInfo>,
    /// Its process, if one runs.
    pub pid: Option<u32>,
    /// How many tools it offers.
    pub tools: usize,
    /// Offered, but unusable.
    pub skipped: Vec<SkippedOffer>,
    /// Usable after a repair.
    pub repaired: Vec<SkippedOffer>,
    /// Tools that are no longer what was agreed to.
    pub changed: Vec<String>,
    /// How many lines of output were no messages, and the first of them.
    pub noise: Option<NonProtocolOutput>,
    /// How long the last connect took.
    pub connect_time: Option<Duration>,
    /// Why it last failed.
    pub last_error: Option<String>,
    /// What a person can do about that.
    pub advice: Option<String>,
    /// The last lines it wrote for people.
    pub log_tail: String,
}

/// Output that is no message.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NonProtocolOutput {
    /// How many lines.
    pub lines: u64,
    /// The first of them.
    pub first: String,
}

impl fmt::Display for NonProtocolOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = text::one_line(&self.first, 120);
        match self.lines {
            1 => write!(f, "1 line of its output was no message: {first}")?,
            lines => write!(f, "{lines} lines of its output were no messages, first: {first}")?,
        }
        // A common mistake with a name.
        if self.first.to_ascii_lowercase().starts_with("content-length:") {
            f.write_str(" (it frames messages like a language server; here each is one line)")
        } else {
            Ok(())
        }
    }
}

/// What a server is doing.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ServerState {
    /// Switched off.
    Disabled,
    /// Its tools are known from the last time; it starts when one is called.
    Cached,
    /// It is being started or reached.
    Connecting,
    /// It works.
    Ready,
    /// It ended, and is being started again.
    Restarting {
        /// How many times in a row.
        attempt: u32,
    },
    /// Somebody has to log in.
    NeedsAuth,
    /// It cannot be used; a call tries again after a while.
    Failed,
}

impl ServerState {
    /// The word the Agent SDKs know.
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

/// Something that happened to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerEvent {
    /// It is doing something else now.
    State {
        /// Which server.
        server: String,
        /// What.
        state: ServerState,
    },
    /// Its list of tools changed.
    Tools {
        /// Which server.
        server: String,
    },
    /// Its list of prompts or resources changed.
    Lists {
        /// Which server.
        server: String,
    },
    /// A resource changed.
    Resource {
        /// Which server.
        server: String,
        /// Which resource.
        uri: String,
    },
    /// Tools are no longer what was agreed to; they ask before they run until
    /// [`crate::McpManager::accept_definitions`].
    Definitions {
        /// Which server.
        server: String,
        /// Which tools.
        tools: Vec<String>,
    },
    /// It wrote a line to its error output. Many at once may be missed by those
    /// who listen slowly.
    Output {
        /// Which server.
        server: String,
        /// The line; bounded.
        line: String,
    },
    /// It said something the protocol does not know. Many at once may be missed by
    /// those who listen slowly.
    Own {
        /// Which server.
        server: String,
        /// What.
        method: String,
        /// The rest of it; bounded.
        params: serde_json::Value,
    },
    /// A log message.
    Log {
        /// Which server.
        server: String,
        /// How serious.
        level: String,
        /// What.
        message: String,
    },
}
