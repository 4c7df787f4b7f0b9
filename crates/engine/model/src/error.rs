use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a request failed. Messages say what the user can do about it where that is known; none contains a
/// key.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelError {
    /// The key is missing or wrong, or has no access to the model.
    #[error("{message}")]
    Auth {
        /// What happened and what to do about it.
        message: String,
    },
    /// Rate limit reached, and the retry limits are exhausted.
    #[error("rate limited: {message}")]
    RateLimited {
        /// The provider's message.
        message: String,
        /// Wait time requested by the provider.
        retry_after: Option<Duration>,
    },
    /// The provider is overloaded or failed internally.
    #[error("the provider failed ({status}): {message}")]
    Server {
        /// HTTP status; 0 for an error inside a stream.
        status: u16,
        /// The provider's message.
        message: String,
    },
    /// The conversation does not fit the model's context window.
    #[error("the conversation is too long: {message}")]
    TooLong {
        /// The provider's message.
        message: String,
        /// Input tokens, if the provider reported them.
        tokens: Option<u64>,
        /// Context window in tokens, if the provider reported it.
        window: Option<u64>,
    },
    /// The provider rejected the request as invalid.
    #[error("the provider refused the request: {message}")]
    Invalid {
        /// The provider's message.
        message: String,
    },
    /// The provider does not know the model.
    #[error("{message}")]
    UnknownModel {
        /// The provider's message.
        message: String,
    },
    /// The connection failed or broke.
    #[error("connection to the provider failed: {message}")]
    Network {
        /// The server and the transport error.
        message: String,
    },
    /// The server sent no data for longer than the timeout.
    #[error("the provider sent nothing for {:.0} s", .after.as_secs_f64())]
    Stalled {
        /// The timeout that expired.
        after: Duration,
    },
    /// The response violates the API's format.
    #[error("the provider's answer cannot be read: {message}")]
    Protocol {
        /// What is wrong.
        message: String,
    },
    /// The provider's configuration is incomplete or invalid.
    #[error("{message}")]
    Config {
        /// What is missing or invalid.
        message: String,
    },
    /// A recording has no matching answer for this request.
    #[error("replay miss: {message}")]
    ReplayMiss {
        /// The first field that differs from the closest recorded request.
        message: String,
    },
}

impl ModelError {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. }
                | Self::Server { .. }
                | Self::Network { .. }
                | Self::Stalled { .. }
                | Self::Protocol { .. }
        )
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::Protocol { message: message.into() }
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::Config { message: message.into() }
    }
}
