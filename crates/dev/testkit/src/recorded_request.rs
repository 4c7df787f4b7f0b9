use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::MockForm;

/// One request as it came, and what became of it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Which request it was, from 0, over the life of the server.
    pub index: usize,
    /// The wire form; `None` for paths that are none.
    pub form: Option<MockForm>,
    /// The path of the request, without the host.
    pub path: String,
    /// The headers, names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Bytes,
    /// Which turn of the script answered, from 0.
    pub turn: Option<usize>,
    /// The status it was answered with; 0 for a dropped connection.
    pub status: u16,
    /// The words of a refusal by the rules, or of a missing turn.
    pub refusal: Option<String>,
    /// When its head had come, since the server started.
    pub received: Duration,
    /// When the last byte of the answer was out.
    pub answered: Option<Duration>,
    /// Whether the client went away before that.
    pub abandoned: bool,
}

impl Recorded {
    /// The body as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}
