//! Requests to the host.

use std::sync::Arc;

use haft_session::{EventSender, SessionEventKind};
use haft_tool_runtime::PendingMap;
use serde_json::{Value, json};

use crate::MAX_LINE;

/// The connection to the host program. Clones share it.
#[derive(Clone)]
pub struct SdkClient(Arc<ClientLine>);

struct ClientLine {
    events: EventSender,
    questions: PendingMap<String, (), Result<Value, SdkClientError>>,
}

/// Why a request to the host has no answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SdkClientError {
    /// The host has disconnected or closed its input.
    Closed,
    /// The host answered with this error.
    Refused(String),
    /// The request exceeds the maximum line length.
    TooLong,
}

impl std::fmt::Display for SdkClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("stream closed before response received"),
            Self::Refused(reason) => f.write_str(reason),
            Self::TooLong => write!(f, "the request is longer than the {MAX_LINE} bytes a line may have"),
        }
    }
}

impl SdkClient {
    /// Creates a connection whose frames are sent in order with the events of a session.
    pub fn new(events: EventSender) -> Self {
        Self(Arc::new(ClientLine { events, questions: PendingMap::default() }))
    }

    /// Sends a frame. Discarded if nobody reads any more.
    pub fn tell(&self, frame: Value) {
        self.0.events.tell(SessionEventKind::Echo(frame));
    }

    /// Sends a request and waits for the answer. Dropping the future cancels the request.
    pub async fn ask(&self, request: Value) -> Result<Value, SdkClientError> {
        let id = uuid::Uuid::new_v4().to_string();
        let frame = json!({"type": "control_request", "request_id": id, "request": request});
        let taken_back = json!({"type": "control_cancel_request", "request_id": id});
        let asked = self.0.questions.ask(id, (), || self.tell(frame), |()| self.tell(taken_back)).await;
        asked.unwrap_or(Err(SdkClientError::Closed))
    }

    /// Passes an answer of the host to the waiting request. Answers to unknown or cancelled requests are
    /// ignored.
    pub fn answered(&self, request_id: &str, answer: Result<Value, String>) {
        self.0.questions.resolve(request_id, answer.map_err(SdkClientError::Refused)).ok();
    }

    /// Fails all open and future requests with [`SdkClientError::Closed`].
    pub fn close(&self) {
        self.0.questions.close();
    }
}

/// Whether a request fits into a line.
pub(crate) fn fits(request: &Value) -> bool {
    // Space for the envelope.
    request.to_string().len() < MAX_LINE - 200
}

/// A host for tests, whose frames are sent to the receiver.
#[cfg(test)]
pub(crate) fn with_receiver() -> (SdkClient, tokio::sync::mpsc::UnboundedReceiver<Value>) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let events = EventSender::to(move |event| {
        if let SessionEventKind::Echo(frame) = event.what {
            sender.send(frame).ok();
        }
    });
    (SdkClient::new(events), receiver)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_find_their_questions_in_any_order() {
        let (host, mut frames) = with_receiver();
        let ask = |n: u32| {
            let host = host.clone();
            tokio::spawn(async move { host.ask(json!({"n": n})).await })
        };
        let asked: Vec<_> = (0..20).map(ask).collect();
        let mut questions = Vec::new();
        for _ in 0..20 {
            questions.push(frames.recv().await.unwrap());
        }
        for question in questions.iter().rev() {
            let id = question["request_id"].as_str().unwrap();
            host.answered("unknown", Ok(Value::Null));
            host.answered(id, Ok(question["request"]["n"].clone()));
            host.answered(id, Err("twice".to_owned()));
        }
        for (n, asked) in asked.into_iter().enumerate() {
            assert_eq!(asked.await.unwrap(), Ok(json!(n)));
        }
        assert!(frames.try_recv().is_err(), "nothing was taken back");
    }

    #[tokio::test]
    async fn a_dropped_question_is_taken_back_and_a_closed_host_answers_at_once() {
        let (host, mut frames) = with_receiver();
        let asked = tokio::spawn({
            let host = host.clone();
            async move { host.ask(json!({})).await }
        });
        let id = frames.recv().await.unwrap()["request_id"].clone();
        asked.abort();
        let cancel = frames.recv().await.unwrap();
        assert_eq!(cancel, json!({"type": "control_cancel_request", "request_id": id}));

        let asked = tokio::spawn({
            let host = host.clone();
            async move { host.ask(json!({})).await }
        });
        frames.recv().await.unwrap();
        host.close();
        assert_eq!(asked.await.unwrap(), Err(SdkClientError::Closed));
        assert_eq!(host.ask(json!({})).await, Err(SdkClientError::Closed));
    }
}
