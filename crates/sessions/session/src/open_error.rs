use std::path::PathBuf;

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The spec is invalid, independent of files and environment.
    #[error("{0}")]
    Spec(String),
    /// The spec is valid, but the session cannot start in this environment.
    #[error("{0}")]
    Start(String),
    /// No API key for the provider was found; the text lists where Haft looks for one.
    #[error("{0}")]
    NoKey(String),
    /// A permission rule of the embedding program is invalid.
    #[error("the rule {rule}: {problem}")]
    Rule {
        /// The rule.
        rule: String,
        /// What is wrong with the rule.
        problem: String,
    },
    /// A log cannot be read or written.
    #[error("the session log {}: {source}", path.display())]
    Log {
        /// Path of the log.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
}
