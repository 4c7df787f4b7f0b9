use serde::{Deserialize, Serialize};

/// A request that missed the provider's prompt cache.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CacheMiss {
    /// Number of the request in the session, starting at 1.
    pub request: u64,
    /// Cause of the miss.
    pub cause: CacheMissCause,
    /// Explanation of the cause.
    pub detail: String,
    /// Number of tokens billed again.
    pub tokens: u64,
    /// Whether `tokens` is an estimate, because the provider does not report cache usage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// Cause of a prompt cache miss.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMissCause {
    /// The conversation was summarised.
    Compaction,
    /// Old results were shortened to save space.
    ResultsCleared,
    /// The model changed.
    ModelChanged,
    /// Tools were added, removed, changed or reordered.
    ToolsChanged,
    /// The system prompt changed.
    SystemChanged,
    /// Request settings (thinking, tool choice, …) changed.
    SettingsChanged,
    /// An earlier message was repaired or left out.
    Repaired,
    /// The session was rewound.
    Rewound,
    /// The conversation in the log differs from the one that was sent.
    Resumed,
    /// An earlier message changed.
    HistoryChanged,
    /// Nothing changed; the provider no longer had the cache entry.
    Expired,
    /// A cause written by a newer version.
    #[serde(other)]
    Other,
}

impl CacheMissCause {
    /// The cause as one word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Compaction => "compaction",
            Self::ResultsCleared => "results_cleared",
            Self::ModelChanged => "model_changed",
            Self::ToolsChanged => "tools_changed",
            Self::SystemChanged => "system_changed",
            Self::SettingsChanged => "settings_changed",
            Self::Repaired => "repaired",
            Self::Rewound => "rewound",
            Self::Resumed => "resumed",
            Self::HistoryChanged => "history_changed",
            Self::Expired => "expired",
            Self::Other => "other",
        }
    }
}

/// Fingerprint of a request in the log, to detect after a restart whether the next request continues it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct LoggedPrefix {
    /// Hash of its tools.
    pub tools: u64,
    /// Hash of its system prompt.
    pub system: u64,
    /// Hash of its settings.
    pub settings: u64,
    /// Number of blocks in its conversation.
    pub blocks: usize,
    /// Hash of all blocks.
    pub history: u64,
    /// Estimated tokens.
    pub tokens: u64,
    /// Time it was sent, in seconds since the Unix epoch.
    pub at: u64,
}
