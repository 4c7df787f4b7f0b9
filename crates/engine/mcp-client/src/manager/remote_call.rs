//! One call of a remote tool, whatever happens to its server meanwhile.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::managed_server::{Server, ServerUnavailableError};
use crate::{
    client::OfferedTool,
    jsonrpc::{CallError, ProgressReport, RequestOptions},
};

/// How a call may end, and who watches it.
#[derive(Clone)]
pub(crate) struct CallOptions {
    pub(crate) cancel: CancellationToken,
    pub(crate) progress: Option<Arc<dyn Fn(ProgressReport) + Send + Sync>>,
    /// Our id of the call, for the server's logs.
    pub(crate) call_id: String,
    /// The trace it belongs to.
    pub(crate) traceparent: Option<String>,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallFailure {
    /// The server is not there, and the call never reached it.
    Unavailable(ServerUnavailableError),
    /// The server went away with the call.
    Lost { reason: String },
    /// The server took too long.
    TimedOut(String),
    /// We were told to stop.
    Cancelled,
    /// The server said no.
    Refused(String),
}

impl Server {
    /// Calls a tool. A call that never reached the server is repeated once on
    /// a new connection; one that was lost on the way only if repeating it
    /// changes nothing, by the server's own word.
    pub(crate) async fn call_tool(
        &self,
        def: &OfferedTool,
        arguments: Value,
        options: &CallOptions,
    ) -> Result<Value, CallFailure> {
        let mut meta = json!({"claudecode/toolUseId": options.call_id});
        if let Some(traceparent) = &options.traceparent {
            meta["traceparent"] = json!(traceparent);
        }
        let params = Map::from_iter([
            (String::from("name"), json!(def.name)),
            (String::from("_meta"), meta),
            (String::from("arguments"), arguments),
        ]);
        let request = RequestOptions {
            idle: self.config.timeouts.idle,
            total: self.config.timeouts.total,
            cancel: options.cancel.clone(),
            progress: options.progress.clone(),
            headers: crate::client::call_headers(&def.input_schema, &params["arguments"]),
        };
        let mut repeated = false;
        loop {
            let session = tokio::select! {
                session = self.session() => session.map_err(CallFailure::Unavailable)?,
                () = options.cancel.cancelled() => return Err(CallFailure::Cancelled),
            };
            let err = match session.call("tools/call", &params, &request).await {
                Ok(result) => return Ok(result),
                Err(err) => err,
            };
            let again = match &err {
                CallError::NotSent(_) => true,
                CallError::Closed(_) => def.annotations.may_be_repeated(),
                _ => false,
            };
            if again && !repeated {
                repeated = true;
                continue;
            }
            return Err(self.failure(err));
        }
    }

    /// Tells a connected server something; one that is not connected does not
    /// care.
    pub(crate) fn notify(&self, method: &str) {
        let session = self.slot().session.clone();
        if let Some(session) = session {
            session.notify(method);
        }
    }

    /// Any other request; `resources/read` and the like.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Result<Value, CallFailure> {
        let session = self.session().await.map_err(CallFailure::Unavailable)?;
        let mut request = RequestOptions::within(self.config.timeouts.idle);
        request.cancel = cancel.clone();
        session.call(method, &params, &request).await.map_err(|err| self.failure(err))
    }

    pub(crate) fn failure(&self, err: CallError) -> CallFailure {
        match err {
            CallError::Cancelled => CallFailure::Cancelled,
            CallError::Silent { .. } | CallError::TooLong { .. } => CallFailure::TimedOut(err.to_string()),
            CallError::Closed(reason) => CallFailure::Lost { reason },
            CallError::NotSent(reason) | CallError::HeldBack(reason) => {
                CallFailure::Unavailable(ServerUnavailableError::new(format!(
                    "the server `{}` is not reachable: {reason}",
                    self.name()
                )))
            }
            CallError::Unauthorized { challenge } | CallError::Forbidden { challenge } => {
                self.refused(challenge);
                CallFailure::Unavailable(ServerUnavailableError {
                    reason: format!(
                        "the server `{}` asks for a login; the user has to run `haft mcp login {}` first",
                        self.name(),
                        self.name()
                    ),
                    needs_auth: true,
                })
            }
            other => CallFailure::Refused(other.to_string()),
        }
    }
}
