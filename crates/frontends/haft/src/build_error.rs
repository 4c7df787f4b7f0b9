use haft_types::PermissionMode;

/// Why an agent or a tool set cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The working directory does not exist or is not accessible.
    #[error("the working directory: {0}")]
    Directory(std::io::Error),
    /// There is no tokio runtime in the calling thread.
    #[error("an agent lives on a task: build it inside a tokio runtime")]
    Runtime,
    /// Managed settings of the organisation disable the mode they name.
    #[error("the settings forbid the permission mode {0}")]
    Mode(PermissionMode),
    /// The session cannot be opened.
    #[cfg(feature = "agent")]
    #[error(transparent)]
    Session(#[from] haft_session::OpenError),
}
