use std::fmt;

/// Why a server has no answer, in words for whoever asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LspError {
    /// It could not be started, or ended before it could answer.
    NotStarted {
        /// Its name.
        server: String,
        /// What happened, with what it printed last.
        why: String,
    },
    /// It ended, or was ended because it made no sense.
    Ended {
        /// Its name.
        server: String,
        /// How.
        why: String,
    },
    /// It has ended too often and is left alone.
    Off {
        /// Its name.
        server: String,
        /// How it ended last.
        why: String,
    },
    /// It did not answer in time.
    Silent {
        /// Its name.
        server: String,
        /// What was asked.
        method: String,
        /// How long.
        seconds: u64,
    },
    /// It said no.
    Refused {
        /// Its name.
        server: String,
        /// What was asked.
        method: String,
        /// Its number for that.
        code: i64,
        /// Its words.
        message: String,
    },
    /// It cannot do that at all.
    Unsupported {
        /// Its name.
        server: String,
        /// What was asked.
        method: String,
    },
    /// It answered with something that is no answer to the question.
    Nonsense {
        /// Its name.
        server: String,
        /// What was asked.
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
