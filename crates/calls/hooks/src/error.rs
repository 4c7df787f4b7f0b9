use std::{fmt, time::Duration};

/// Why a hook gave no usable answer. This is never a denial: the hook did not decide.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HookFailure {
    /// The program or its script does not exist or cannot be executed.
    NotStarted(String),
    /// It was killed by a signal.
    Signal(i32),
    /// It exited with a status other than 0 and 2.
    ExitStatus {
        status: i32,
        /// Beginning of its standard error.
        said: String,
    },
    /// It exceeded its timeout.
    TimedOut(Duration),
    /// Its answer is malformed.
    BadAnswer(String),
    /// The HTTP server was unreachable or returned an error.
    Http(String),
    /// This process cannot run this kind of handler.
    NoHandler(String),
    /// The definition is invalid.
    Unusable(String),
    /// A callback failed.
    Callback(String),
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(why) => write!(f, "it did not start: {why}"),
            Self::Signal(signal) => write!(f, "it crashed (signal {signal})"),
            Self::ExitStatus { status, said } if said.is_empty() => {
                write!(f, "it ended with status {status}")
            }
            Self::ExitStatus { status, said } => write!(f, "it ended with status {status}: {said}"),
            Self::TimedOut(limit) => write!(f, "it did not finish within {} s", limit.as_secs_f64()),
            Self::BadAnswer(why) => write!(f, "its answer cannot be understood: {why}"),
            Self::Http(why) => write!(f, "its server did not decide: {why}"),
            Self::NoHandler(why) | Self::Unusable(why) => f.write_str(why),
            Self::Callback(why) => write!(f, "its callback failed: {why}"),
        }
    }
}
