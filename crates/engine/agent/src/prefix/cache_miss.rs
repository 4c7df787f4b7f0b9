use serde::{Deserialize, Serialize};

/// A request that could not go on from what the provider had cached.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CacheMiss {
    /// Which request of the session, counted from 1.
    pub request: u64,
    /// Why, in one word.
    pub cause: CacheMissCause,
    /// Why, in words.
    pub detail: String,
    /// Tokens that were billed again.
    pub tokens: u64,
    /// Whether the provider does not say what it cached, so that the tokens are
    /// an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// Why a cached prefix was lost.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMissCause {
    /// The conversation was summed up.
    Compaction,
    /// Old results were shortened to make room.
    ResultsCleared,
    /// Another model answers.
    ModelChanged,
    /// Tools were added, removed, changed or put into another order.
    ToolsChanged,
    /// The system prompt changed.
    SystemChanged,
    /// How the model is to think or to answer changed.
    SettingsChanged,
    /// Something sent before had to be repaired or left out.
    Repaired,
    /// The session went on from an earlier point.
    Rewound,
    /// The conversation in the log is not the one that was sent.
    Resumed,
    /// Something sent before changed.
    HistoryChanged,
    /// Nothing changed; the provider did not have it any more.
    Expired,
    /// A newer version knows it.
    #[serde(other)]
    Other,
}

impl CacheMissCause {
    /// In one word, as programs read it.
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

/// What is kept of a request in the log, to know after a restart whether the
/// next one goes on from it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct LoggedPrefix {
    /// A number for its tools.
    pub tools: u64,
    /// A number for its system prompt.
    pub system: u64,
    /// A number for its settings.
    pub settings: u64,
    /// How many blocks its conversation had.
    pub blocks: usize,
    /// A number for all of them.
    pub history: u64,
    /// Its tokens, about.
    pub tokens: u64,
    /// When it was sent, in seconds since 1970.
    pub at: u64,
}
