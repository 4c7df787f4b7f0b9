//! What can go wrong with a store, and what to do about it.

use std::time::Duration;

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The run has another owner by now, or none. Nothing was changed; whoever
    /// gets this stops working on the run.
    #[error("run {run} is no longer owned with epoch {epoch}: another worker has it, or it has ended")]
    Stale {
        /// The run.
        run: String,
        /// The epoch that counts no more.
        epoch: u64,
    },
    /// Nothing by that name here, or nothing this tenant may know of.
    #[error("no {what} {name:?} here")]
    Unknown {
        /// What was looked for: "job", "schedule", "blob".
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The engine does not answer.
    #[error("{engine} does not answer ({said}): {advice}")]
    Gone {
        /// The engine and where it was looked for, without credentials.
        engine: String,
        /// What the connection said.
        said: String,
        /// What to do.
        advice: String,
    },
    /// The engine has no room.
    #[error("{place} is full ({said}): make room there, nothing was lost and work goes on by itself")]
    Full {
        /// The place: a directory, a stream.
        place: String,
        /// What the engine said.
        said: String,
    },
    /// The engine, or what another Haft wrote into it, is of another version.
    #[error("{what} is version {found}, needed is {needed}: {advice}")]
    WrongVersion {
        /// Whose version.
        what: String,
        /// The one that is there.
        found: String,
        /// The one that would do.
        needed: String,
        /// What to do.
        advice: String,
    },
    /// The request makes no sense, or is not allowed.
    #[error("{0}")]
    Refused(String),
    /// What is stored cannot be read.
    #[error("{place} is damaged: {said}")]
    Corrupt {
        /// Where.
        place: String,
        /// What is wrong.
        said: String,
    },
}

impl StoreError {
    /// Whether the same request may succeed later without anybody changing it.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Full { .. })
    }

    /// How long to wait before asking again.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        self.is_passing().then_some(Duration::from_secs(1))
    }
}
