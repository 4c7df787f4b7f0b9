use crate::jsonrpc::CallError;

/// Category of a connection error; decides what advice the user gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum McpClientError {
    /// The program was not found or the connection failed.
    NotThere,
    /// The connection ended.
    Ended,
    /// No protocol message within the timeout.
    Silent,
    /// A protocol error was returned.
    SaidNo,
    /// The answer is not an MCP message.
    NotMcp,
    /// HTTP status.
    Status(u16),
    /// The URL redirects to another origin.
    Elsewhere,
    /// A login is required.
    Login,
}

impl McpClientError {
    pub(crate) fn from_call_error(err: &CallError) -> Self {
        match err {
            CallError::Rpc(_) => Self::SaidNo,
            CallError::Silent { .. } | CallError::TooLong { .. } => Self::Silent,
            CallError::Elsewhere(_) => Self::Elsewhere,
            CallError::NotSent(_) | CallError::HeldBack(_) | CallError::Cancelled => Self::NotThere,
            CallError::Closed(_) => Self::Ended,
            CallError::Http { status: 100..=299, .. }
            | CallError::SessionExpired
            | CallError::Unreadable(_) => Self::NotMcp,
            CallError::Http { status, .. } => Self::Status(*status),
            CallError::Unauthorized { .. } | CallError::Forbidden { .. } => Self::Login,
        }
    }
}
