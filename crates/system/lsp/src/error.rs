use std::fmt;

/// Why a request to a server failed, with text for the user or model.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LspError {
    /// The server could not be started, or exited during the handshake.
    NotStarted {
        server: String,
        /// The reason, with the last standard error output.
        why: String,
    },
    /// The server exited, or was stopped because of a protocol error.
    Ended {
        server: String,
        /// The reason.
        why: String,
    },
    /// The server exited too often and is not restarted.
    Off {
        server: String,
        /// Reason of the last exit.
        why: String,
    },
    /// The server did not answer in time.
    Silent {
        server: String,
        /// Method of the request.
        method: String,
        /// Timeout in seconds.
        seconds: u64,
    },
    /// The server returned an error response.
    Refused {
        server: String,
        /// Method of the request.
        method: String,
        /// Error code.
        code: i64,
        /// Error message.
        message: String,
    },
    /// The server does not implement the method.
    Unsupported {
        server: String,
        /// Method of the request.
        method: String,
    },
    /// The response is malformed.
    Nonsense {
        server: String,
        /// Method of the request.
        method: String,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for LspError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { server, why } => write!(f, "{server} did not start: {why}"),
            Self::Ended { server, why } => {
                write!(f, "{server} ended while it was asked ({why}); the next call starts it anew")
            }
            Self::Off { server, why } => write!(
                f,
                "{server} ended three times within five minutes and is left alone for now; the last time: {why}"
            ),
            Self::Silent { server, method, seconds } => {
                write!(f, "{server} did not answer {method} within {seconds} s")
            }
            Self::Refused { server, method, code, message } => {
                write!(f, "{server} refused {method}: {message} ({code})")
            }
            Self::Unsupported { server, method } => write!(f, "{server} does not offer {method}"),
            Self::Nonsense { server, method, why } => {
                write!(f, "{server} answered {method} with something that is no answer: {why}")
            }
        }
    }
}

impl std::error::Error for LspError {}
