use std::{sync::Arc, time::Duration};

use reqwest::{Response, StatusCode, header::ACCEPT};
use tokio::sync::oneshot;

use super::{HttpLine, SESSION, VERSION};
use crate::{
    jsonrpc::{CallError, parse_values},
    transport::{
        http_site::http_error,
        sse_decoder::{SseMessage, SseStream, StreamPosition},
    },
};

/// Maximum consecutive attempts to resume a broken stream.
const MAX_RESUMES: u32 = 5;
const RETRY_DEFAULT: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Minimum delay before resuming; shorter values of a server are raised to avoid a busy loop.
const RETRY_MIN: Duration = Duration::from_millis(50);

impl HttpLine {
    /// Reads a stream until it delivers the answer to a request. A stream that breaks before is resumed
    /// if the server assigns event ids.
    pub(super) async fn read_answer(self: &Arc<Self>, id: u64, response: Response) -> Result<(), CallError> {
        let mut stream = SseStream::new(response);
        let mut resumes = 0;
        loop {
            let broken = loop {
                match stream.next().await {
                    Ok(Some(event)) => {
                        resumes = 0;
                        if self.deliver(event, Some(id)) {
                            return Ok(());
                        }
                    }
                    Ok(None) => break String::from("the stream ended without an answer"),
                    Err(reason) => break reason,
                }
            };
            let position = stream.position().clone();
            if position.last_id.is_none() || self.is_modern() || MAX_RESUMES <= resumes {
                return Err(CallError::Closed(broken));
            }
            resumes += 1;
            pause(&position, resumes).await;
            stream = match self.get(&position).await {
                Ok(stream) => stream,
                Err(err) => {
                    return Err(CallError::Closed(format!("{broken}, and could not be resumed: {err}")));
                }
            };
        }
    }

    /// Delivers the message in an event. Returns whether it was the answer.
    fn deliver(&self, event: SseMessage, id: Option<u64>) -> bool {
        let mut answered = false;
        let values = parse_values(&event.data);
        if values.is_empty() && !event.data.is_empty() {
            self.inbox.noise(&String::from_utf8_lossy(&event.data));
        }
        for value in values {
            answered |= id.is_some_and(|id| Self::is_answer(&value, id));
            self.inbox.deliver(value);
        }
        answered
    }

    /// Opens the stream for messages the server sends on its own and keeps it open in the background.
    /// Completes when the server has responded for the first time.
    pub(super) async fn listen(self: &Arc<Self>) {
        let stop = self.end.child_token();
        if let Some(before) = self.state().news.replace(stop.clone()) {
            before.cancel();
        }
        let line = Arc::clone(self);
        let (answered, first_answer) = oneshot::channel();
        tokio::spawn(async move {
            tokio::select! {
                () = line.read_news(answered) => (),
                () = stop.cancelled() => (),
            }
        });
        let _ = first_answer.await;
    }

    async fn read_news(&self, answered: oneshot::Sender<()>) {
        let mut answered = Some(answered);
        let mut position = StreamPosition::default();
        let (mut failures, mut empty) = (0, 0);
        while failures < MAX_RESUMES {
            let stream = self.get(&position).await;
            drop(answered.take());
            match stream {
                Ok(mut stream) => {
                    (failures, empty) = (0, empty + 1);
                    while let Ok(Some(event)) = stream.next().await {
                        empty = 0;
                        self.deliver(event, None);
                    }
                    position = stream.position().clone();
                }
                // The server has no such stream, or the session is gone; requests will report that.
                Err(CallError::Http { status: 400..=499, .. } | CallError::Unauthorized { .. }) => return,
                Err(_) => failures += 1,
            }
            // Back off when the stream keeps ending without messages.
            pause(&position, failures.max(empty) + 1).await;
        }
    }

    async fn get(&self, position: &StreamPosition) -> Result<SseStream, CallError> {
        let (session, version) = {
            let state = self.state();
            (state.session.clone(), state.version.clone())
        };
        let request = || {
            let mut request = self.site.client.get(self.site.url.clone()).header(ACCEPT, "text/event-stream");
            let headers = [(SESSION, &session), (VERSION, &version), ("last-event-id", &position.last_id)];
            for (name, value) in headers {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            request
        };
        let response = self.site.send(request).await?;
        let status = response.status();
        let kind = response.headers().get(reqwest::header::CONTENT_TYPE);
        let is_stream =
            kind.and_then(|it| it.to_str().ok()).is_some_and(|it| it.starts_with("text/event-stream"));
        match (status.is_success(), is_stream) {
            (true, true) => {
                let mut stream = SseStream::new(response);
                stream.resume(position.clone());
                Ok(stream)
            }
            (true, false) => Err(http_error(StatusCode::NOT_ACCEPTABLE, b"the server offers no stream")),
            (false, _) => Err(http_error(status, b"")),
        }
    }
}

/// Waits for the server's delay, with exponential backoff.
async fn pause(position: &StreamPosition, attempt: u32) {
    let wanted = position.retry.map_or(RETRY_DEFAULT, Duration::from_millis);
    let wanted = wanted.max(RETRY_MIN);
    let wait = wanted.saturating_mul(1 << (attempt.saturating_sub(1)).min(5)).min(RETRY_MAX);
    tokio::time::sleep(wait).await;
}
