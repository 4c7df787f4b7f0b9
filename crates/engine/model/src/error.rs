use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why there is no answer. Every text says what a person can do about it, as
/// far as anybody knows; none holds a key.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelError {
    /// No key, a wrong key, or no right to the model.
    #[error("{message}")]
    Auth {
        /// What to do.
        message: String,
    },
    /// Too many requests, for longer than it makes sense to wait.
    #[error("rate limited: {message}")]
    RateLimited {
        /// The provider's words.
        message: String,
        /// When to come back.
        retry_after: Option<Duration>,
    },
    /// The provider is overloaded or broken.
    #[error("the provider failed ({status}): {message}")]
    Server {
        /// HTTP status; 0 for an error inside a stream.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// The conversation does not fit the model's window.
    #[error("the conversation is too long: {message}")]
    TooLong {
        /// The provider's words.
        message: String,
        /// Tokens of the input, where it says.
        tokens: Option<u64>,
        /// Tokens of the window, where it says.
        window: Option<u64>,
    },
    /// The provider does not take the request as it is.
    #[error("the provider refused the request: {message}")]
    Invalid {
        /// The provider's words.
        message: String,
    },
    /// There is no such model at this provider.
    #[error("{message}")]
    UnknownModel {
        /// The provider's words.
        message: String,
    },
    /// The connection could not be made or broke.
    #[error("connection to the provider failed: {message}")]
    Network {
        /// The server, and what the transport said.
        message: String,
    },
    /// Nothing came for too long.
    #[error("the provider sent nothing for {:.0} s", .after.as_secs_f64())]
    Stalled {
        /// How long nothing came.
        after: Duration,
    },
    /// What came is not what the form promises.
    #[error("the provider's answer cannot be read: {message}")]
    Protocol {
        /// What is wrong.
        message: String,
    },
    /// The settings of the provider are not enough to ask it.
    #[error("{message}")]
    Config {
        /// What is missing.
        message: String,
    },
    /// A recording has no answer for this request.
    #[error("replay miss: {message}")]
    ReplayMiss {
        /// The first field that differs.
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
