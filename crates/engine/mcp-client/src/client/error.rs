use crate::jsonrpc::CallError;

/// What went wrong, as far as it decides what helps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum McpClientError {
    /// The program or the connection could not be had at all.
    NotThere,
    /// It ended.
    Ended,
    /// It did not say anything that counts, in all the time it had.
    Silent,
    /// It answered with an error of the protocol.
    SaidNo,
    /// It answered, but not in the protocol.
    NotMcp,
    /// An HTTP status.
    Status(u16),
    /// Its address leads elsewhere.
    Elsewhere,
    /// Somebody has to log in.
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
