use std::{sync::Arc, time::Duration};

use reqwest::{
    RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde_json::Value;

use super::{HttpLine, SESSION, VERSION, routing_headers};
use crate::{
    client::MODERN,
    jsonrpc::{CallError, JsonRpcMessage, MAX_MESSAGE_BYTES, parse_values},
    transport::{
        OutgoingMessage,
        http_site::{body, challenge, elsewhere, explanation, http_error},
    },
};

/// Maximum time a legacy server may take to open its stream or to report that it has none.
const STREAM_LIMIT: Duration = Duration::from_secs(2);

impl HttpLine {
    /// Sends a request and delivers all messages of the response, finally its answer or the error.
    pub(super) async fn request(self: &Arc<Self>, id: u64, message: OutgoingMessage) {
        let begins = message.message["method"] == "initialize";
        self.wait_for_session(begins).await;
        let failure = match self.post(&message).await {
            Ok(response) => self.answered(id, begins, response).await.err(),
            Err(err) => Some(err),
        };
        let Some(err) = failure else { return };
        let gone = match &err {
            CallError::NotSent(reason) => Some(reason.clone()),
            _ => None,
        };
        self.inbox.fail(id, err);
        // The server cannot be reached: report it to the supervisor.
        if let Some(reason) = gone {
            self.inbox.closed(reason);
        }
    }

    /// Sends a notification or response.
    pub(super) async fn tell(self: &Arc<Self>, message: OutgoingMessage) {
        self.wait_for_session(/*begins*/ false).await;
        // Best effort; the server's own timeouts handle a lost notification.
        let _ = self.post(&message).await;
    }

    /// Ends the handshake of a legacy session and opens the stream for messages the server sends on its
    /// own. Later requests wait for it, or such messages could be lost.
    pub(super) async fn begin(self: Arc<Self>, message: OutgoingMessage) {
        let _ = self.post(&message).await;
        if !self.is_modern() {
            let _ = tokio::time::timeout(STREAM_LIMIT, self.listen()).await;
        }
    }

    async fn wait_for_session(&self, begins: bool) {
        let begun = if begins { None } else { self.state().begun.clone() };
        if let Some(begun) = begun {
            begun.await;
        }
    }

    async fn post(&self, message: &OutgoingMessage) -> Result<Response, CallError> {
        let session = self.state().session.clone();
        let text = message.message.to_string();
        let request = || {
            let request = self
                .site
                .client
                .post(self.site.url.clone())
                .header(ACCEPT, "application/json, text/event-stream")
                .header(CONTENT_TYPE, "application/json")
                .body(text.clone());
            self.protocol_headers(request, message, session.as_deref())
        };
        let response = self.site.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(self.refused(response, session.is_some()).await)
    }

    fn protocol_headers(
        &self,
        mut request: RequestBuilder,
        message: &OutgoingMessage,
        session: Option<&str>,
    ) -> RequestBuilder {
        // The first modern request is sent before the version is negotiated.
        let is_modern = self.is_modern() || message.message["method"] == "server/discover";
        let version = if is_modern { Some(MODERN.to_owned()) } else { self.state().version.clone() };
        if let Some(version) = version.filter(|_| message.message["method"] != "initialize") {
            request = request.header(VERSION, version);
        }
        // Legacy servers ignore these headers; intermediaries may use them.
        for (name, value) in routing_headers(&message.message) {
            request = request.header(name, value);
        }
        if is_modern {
            for (name, value) in &message.headers {
                request = request.header(name, value);
            }
        } else if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        request
    }

    /// Converts an HTTP error response.
    async fn refused(&self, response: Response, had_session: bool) -> CallError {
        let status = response.status();
        if status == StatusCode::FORBIDDEN {
            let challenge = challenge(&response);
            if challenge.contains("insufficient_scope") {
                return CallError::Forbidden { challenge };
            }
        }
        if status.is_redirection() {
            return CallError::Elsewhere(elsewhere(&response));
        }
        let body = explanation(response).await;
        let mentions_session = String::from_utf8_lossy(&body).to_ascii_lowercase().contains("session");
        let forgotten =
            status == StatusCode::NOT_FOUND || (status == StatusCode::BAD_REQUEST && mentions_session);
        if had_session && forgotten {
            let mut state = self.state();
            state.session = None;
            if let Some(news) = state.news.take() {
                news.cancel();
            }
            return CallError::SessionExpired;
        }
        let frames = parse_values(&body).into_iter().filter_map(JsonRpcMessage::from_value);
        let mut errors = frames.filter_map(|frame| match frame {
            JsonRpcMessage::Response { answer: Err(error), .. } => Some(error),
            _ => None,
        });
        errors.next().map_or_else(|| http_error(status, &body), CallError::Rpc)
    }

    async fn answered(self: &Arc<Self>, id: u64, begins: bool, response: Response) -> Result<(), CallError> {
        if begins {
            let session = response.headers().get(SESSION).and_then(|it| it.to_str().ok()).map(str::to_owned);
            self.state().session = session;
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            return self.read_answer(id, response).await;
        }
        let status = response.status();
        let body = body(response, MAX_MESSAGE_BYTES).await.map_err(CallError::Closed)?;
        let values = parse_values(&body);
        if values.is_empty() {
            let said = if body.is_empty() { &b"the answer is empty"[..] } else { &body };
            return Err(http_error(status, &said[..said.len().min(1000)]));
        }
        values.into_iter().for_each(|value| self.inbox.deliver(value));
        // The response contained other messages but no answer.
        Err(CallError::Closed(String::from("the server answered something else")))
    }

    /// Whether a value is the answer to the request with this id.
    pub(super) fn is_answer(value: &Value, id: u64) -> bool {
        match value {
            Value::Array(batch) => batch.iter().any(|it| JsonRpcMessage::answers(it) == Some(id)),
            other => JsonRpcMessage::answers(other) == Some(id),
        }
    }
}
