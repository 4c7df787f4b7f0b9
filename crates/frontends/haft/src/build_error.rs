use haft_types::PermissionMode;

/// Why there is no agent, or no set of tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The working directory is not there.
    #[error("the working directory: {0}")]
    Directory(std::io::Error),
    /// There is no tokio runtime to live on.
    #[error("an agent lives on a task: build it inside a tokio runtime")]
    Runtime,
    /// Settings of the organisation forbid the mode that they name.
    #[error("the settings forbid the permission mode {0}")]
    Mode(PermissionMode),
    /// The session cannot be opened.
    #[cfg(feature = "agent")]
    #[error(transparent)]
    Session(#[from] haft_session::OpenError),
}
