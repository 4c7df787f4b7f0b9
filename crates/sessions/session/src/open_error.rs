use std::path::PathBuf;

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The spec makes no sense, whatever the session.
    #[error("{0}")]
    Spec(String),
    /// The spec makes sense, but the session cannot begin.
    #[error("{0}")]
    Start(String),
    /// Nobody has a key for the provider; says where one is looked for.
    #[error("{0}")]
    NoKey(String),
    /// A rule of the program makes no sense.
    #[error("the rule {rule}: {problem}")]
    Rule {
        /// The rule.
        rule: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A log cannot be read or written.
    #[error("the session log {}: {source}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
