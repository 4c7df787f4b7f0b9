use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::MockForm;

/// A received request and its outcome.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Number of the request, from 0, over the lifetime of the server.
    pub index: usize,
    /// API; `None` for an unknown path.
    pub form: Option<MockForm>,
    /// Path without host.
    pub path: String,
    /// Headers in order, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// Body, byte for byte.
    pub body: Bytes,
    /// Index of the turn that answered, from 0.
    pub turn: Option<usize>,
    /// Status of the response; 0 for a dropped connection.
    pub status: u16,
    /// Error text of a rejection, or of a missing turn.
    pub refusal: Option<String>,
    /// When the request head was received, since the server's start.
    pub received: Duration,
    /// When the last byte of the response was written.
    pub answered: Option<Duration>,
    /// Whether the client disconnected before that.
    pub abandoned: bool,
}

impl Recorded {
    /// Returns the body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns the first header with this name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}
