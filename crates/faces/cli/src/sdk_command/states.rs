//! What a session is in, in words instead of flags.

use haft_agent::CompactedEvent;
use haft_types::{ToolUse, Usage};

/// What a turn showed so far.
#[derive(Default)]
pub(super) struct Seen {
    /// The answer that is coming in: who gives it, what it used.
    pub(super) answer: Option<(String, Usage)>,
    pub(super) in_tools: bool,
    pub(super) ttft_ms: Option<u64>,
    /// A summary somebody asked for; told at the end of the command.
    pub(super) compacted: Option<CompactedEvent>,
    pub(super) is_marked: bool,
    /// A call that somebody wants to decide about later.
    pub(super) deferred: Option<ToolUse>,
}

/// Whether the bypass mode can be switched to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Bypass {
    /// It was allowed when the session began.
    Launched,
    /// It was not.
    NotLaunched,
    /// The settings forbid it.
    Forbidden,
}

/// Calls of a resumed session that were left for later.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LeftForLater {
    /// There are none, or they were taken up.
    Nothing,
    /// There are some; the host has to come first.
    Waiting,
    /// The host is there.
    Ready,
}

/// What becomes of prompts that begin with a slash.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Commands {
    On,
    Off,
}

/// Whether files can be taken back to what they were before a prompt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Checkpoints {
    On,
    Off,
}

/// Whether and how the state of the session is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum StateFrames {
    None,
    /// The SDK reads them and keeps them to itself.
    HostOnly,
    /// For everybody.
    Open,
}

impl StateFrames {
    pub(super) fn from_env() -> Self {
        let set = super::start::is_set;
        if set("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") {
            Self::Open
        } else if set("CLAUDE_CODE_SDK_READS_SESSION_STATE") {
            Self::HostOnly
        } else {
            Self::None
        }
    }
}
