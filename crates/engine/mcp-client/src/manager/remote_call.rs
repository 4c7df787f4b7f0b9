//! Calls of remote tools, with reconnection.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::managed_server::{Server, ServerUnavailableError};
use crate::{
    client::OfferedTool,
    jsonrpc::{CallError, ProgressReport, RequestOptions},
};

/// Cancellation and progress reporting of a call.
#[derive(Clone)]
pub(crate) struct CallOptions {
    pub(crate) cancel: CancellationToken,
    pub(crate) progress: Option<Arc<dyn Fn(ProgressReport) + Send + Sync>>,
    /// Haft's id of the call, for the server's logs.
    pub(crate) call_id: String,
    /// W3C trace parent.
    pub(crate) traceparent: Option<String>,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallFailure {
    /// The server is not available; the call was not sent.
    Unavailable(ServerUnavailableError),
    /// The connection broke during the call; its outcome is unknown.
    Lost { reason: String },
    /// The server exceeded a timeout.
    TimedOut(String),
    /// Cancelled by the caller.
    Cancelled,
    /// The server returned an error.
    Refused(String),
}

impl Server {
    /// Calls a tool. A call that was not sent is repeated once on a new connection. A call lost with its
    /// connection is repeated only if the server declares the tool read-only or idempotent.
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

    /// Sends a notification; ignored if the server is not connected.
    pub(crate) fn notify(&self, method: &str) {
        let session = self.slot().session.clone();
        if let Some(session) = session {
            session.notify(method);
        }
    }

    /// Sends another request, such as `resources/read`.
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
