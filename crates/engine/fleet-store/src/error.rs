//! Errors of a store, with advice for the user.

use std::time::Duration;

/// Why a store operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The lease has expired: the run has another owner by now, or none. Nothing was changed; the caller
    /// must stop working on the run.
    #[error("run {run} is no longer owned with epoch {epoch}: another worker has it, or it has ended")]
    Stale {
        run: String,
        /// The outdated epoch.
        epoch: u64,
    },
    /// The item does not exist, or belongs to another tenant.
    #[error("no {what} {name:?} here")]
    Unknown {
        /// Kind of the item: "job", "schedule", "blob".
        what: &'static str,
        name: String,
    },
    /// The engine cannot be reached.
    #[error("{engine} does not answer ({said}): {advice}")]
    Gone {
        /// Engine and address, without credentials.
        engine: String,
        /// The connection error.
        said: String,
        /// What the user can do.
        advice: String,
    },
    /// The engine has no space left.
    #[error("{place} is full ({said}): make room there, nothing was lost and work goes on by itself")]
    Full {
        /// The directory or stream.
        place: String,
        /// The engine's error.
        said: String,
    },
    /// The engine's version, or the format version of the stored data, is not supported.
    #[error("{what} is version {found}, needed is {needed}: {advice}")]
    WrongVersion {
        /// Whose version.
        what: String,
        /// The version found.
        found: String,
        /// The version needed.
        needed: String,
        /// What the user can do.
        advice: String,
    },
    /// The request is invalid or not allowed.
    #[error("{0}")]
    Refused(String),
    /// Stored data cannot be read.
    #[error("{place} is damaged: {said}")]
    Corrupt {
        /// Where it is stored.
        place: String,
        /// What is wrong.
        said: String,
    },
}

impl StoreError {
    /// Whether the same request may succeed later without any intervention.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Full { .. })
    }

    /// Returns how long to wait before a retry; `None` if a retry is useless.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        self.is_passing().then_some(Duration::from_secs(1))
    }
}
