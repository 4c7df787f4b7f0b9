use std::{fmt, time::Duration};

/// Why a hook gave no usable answer. None of these is a no: each means that
/// the question was never really answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HookFailure {
    /// The program, or the script it was to run, is not there or cannot be
    /// executed.
    NotStarted(String),
    /// It was killed by a signal it did not expect.
    Signal(i32),
    /// It ended with a status that is neither 0 nor 2.
    ExitStatus {
        /// The exit status of the process.
        status: i32,
        /// What it wrote to standard error, shortened.
        said: String,
    },
    /// It was still running when its time was up.
    TimedOut(Duration),
    /// It answered something that cannot be understood.
    BadAnswer(String),
    /// The server could not be reached, or did not answer with success.
    Http(String),
    /// Nothing in this process can run this kind of handler.
    NoHandler(String),
    /// The definition itself is broken.
    Unusable(String),
    /// Code of this process failed.
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
