use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One answer: an error, or a stream of pieces.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Turn {
    /// Which requests it answers; any if empty.
    #[serde(skip_serializing_if = "MockWhen::is_any")]
    pub when: MockWhen,
    /// How often it may be used.
    pub times: Times,
    /// Context window a request must fit to get this turn; default: the script's.
    pub window: Option<u64>,
    /// Delay before the first byte, in milliseconds.
    pub delay_ms: u64,
    /// Closes the connection without a response.
    pub drop: bool,
    /// Responds with an error.
    pub error: Option<ErrorReply>,
    /// Responds with exactly this body and status 200.
    pub raw: Option<String>,
    /// Content of the answer.
    pub reply: Vec<ReplyPiece>,
    /// Stop reason as named in the Messages API (`end_turn`, `tool_use`, `max_tokens`, …). Default: what
    /// fits the content.
    pub stop: Option<String>,
    /// Reported usage; default: counted.
    pub usage: Option<UsageReply>,
    /// Ends the body at a byte.
    pub cut: Option<ByteFault<StreamCut>>,
    /// Pauses the body at a byte.
    pub stall: Option<ByteFault<StreamStall>>,
}

impl Turn {
    /// Creates a turn with these pieces.
    pub fn from_pieces(reply: impl IntoIterator<Item = ReplyPiece>) -> Self {
        Self { reply: reply.into_iter().collect(), ..Self::default() }
    }

    /// Creates a turn with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::from_pieces([ReplyPiece::text(text)])
    }

    /// Creates a turn with one tool call.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::from_pieces([ReplyPiece::tool(name, input)])
    }

    /// Creates a turn that responds with an error.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let error = ErrorReply {
            status,
            kind: kind.to_owned(),
            message: message.to_owned(),
            headers: BTreeMap::new(),
        };
        Self { error: Some(error), ..Self::default() }
    }

    /// Adds a header to an error.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Some(error) = &mut self.error {
            error.headers.insert(name.to_owned(), value.to_owned());
        }
        self
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// Restricts the turn to requests whose last user text contains this.
    #[must_use]
    pub fn when(mut self, last_user: &str) -> Self {
        self.when.last_user = Some(TextMatcher::contains(last_user));
        self
    }

    /// Allows any number of uses.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = Times::Always;
        self
    }

    /// Restricts the turn to requests that fit this window.
    #[must_use]
    pub fn window(mut self, tokens: u64) -> Self {
        self.window = Some(tokens);
        self
    }

    /// Cuts the body at a byte.
    #[must_use]
    pub fn cut_at(mut self, byte: usize, how: StreamCut) -> Self {
        self.cut = Some(ByteFault { byte, what: how });
        self
    }
}

/// How often a turn may be used.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// Any number of times.
    Always,
    /// This many times.
    #[serde(untagged)]
    Count(usize),
}

impl Default for Times {
    fn default() -> Self {
        Self::Count(1)
    }
}

/// Which requests a turn answers; all given conditions must match.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockWhen {
    /// Text of the last user message without tool results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_user: Option<TextMatcher>,
    /// Text of the tool results in the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<TextMatcher>,
    /// System prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<TextMatcher>,
    /// Requested model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<TextMatcher>,
}

impl MockWhen {
    pub(crate) fn is_any(&self) -> bool {
        self.last_user.is_none()
            && self.tool_result.is_none()
            && self.system.is_none()
            && self.model.is_none()
    }
}

/// A condition on a text. A plain string means `contains`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextMatcher {
    /// Contains this part.
    Contains(String),
    /// Equals this text.
    Equals(String),
    /// Contains a match of this regular expression.
    Regex(String),
    /// Contains this part.
    #[serde(untagged)]
    Plain(String),
}

impl TextMatcher {
    /// Creates a condition that the text contains this part.
    pub fn contains(text: &str) -> Self {
        Self::Contains(text.to_owned())
    }

    pub(crate) fn fits(&self, text: &str) -> bool {
        match self {
            Self::Contains(part) | Self::Plain(part) => text.contains(part.as_str()),
            Self::Equals(whole) => text == whole,
            Self::Regex(pattern) => regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(text)),
        }
    }
}

/// An error response.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorReply {
    /// HTTP status.
    pub status: u16,
    /// Error type as named in the Messages API (`overloaded_error`, …).
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
    /// Additional headers, such as `retry-after`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A piece of an answer, or a fault between two pieces.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyPiece {
    /// A text block.
    Text(String),
    /// A thinking block, signed for the requested model.
    Thinking(String),
    /// A redacted thinking block.
    RedactedThinking(String),
    /// A tool call.
    Tool(ToolPiece),
    /// A block of a server-side tool (`server_tool_use`, `web_search_tool_result`), or a text with
    /// citations, as it appears in an answer. Messages API only.
    Block(Value),
    /// A text block without an end.
    OpenText(String),
    /// A thinking block without signature and end.
    OpenThinking(String),
    /// A pause.
    Stall(StreamStall),
    /// The end of the body.
    Cut(StreamCut),
    /// An error event in the middle of the stream; nothing follows.
    Error(ErrorReply),
    /// Bytes inserted into the body unchanged.
    Raw(String),
}

impl ReplyPiece {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A thinking block.
    pub fn thinking(text: impl Into<String>) -> Self {
        Self::Thinking(text.into())
    }

    /// A complete tool call.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::Tool(ToolPiece { name: name.into(), input, ..ToolPiece::default() })
    }
}

/// A tool call.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolPiece {
    pub name: String,
    /// Call id; default: derived from the numbers of request and block.
    pub id: Option<String>,
    pub input: Value,
    /// Input as text that need not be valid JSON.
    pub json: Option<String>,
    /// Positions (in characters) at which the input is split into deltas.
    pub split: Option<Vec<usize>>,
    /// Truncates the input after this many characters.
    pub keep: Option<usize>,
    /// Whether the end of the block is omitted.
    pub open: bool,
}

impl ToolPiece {
    /// Returns the input text, truncated to `keep`.
    pub(crate) fn text(&self) -> String {
        let whole = match &self.json {
            Some(text) => text.clone(),
            None if self.input.is_null() => "{}".to_owned(),
            None => self.input.to_string(),
        };
        match self.keep {
            Some(keep) => whole.chars().take(keep).collect(),
            None => whole,
        }
    }
}

/// A fault after a number of bytes of the body.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ByteFault<T> {
    /// Number of bytes.
    pub byte: usize,
    /// The fault.
    pub what: T,
}

/// A premature end of a body.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamCut {
    /// The connection is reset.
    Reset,
    /// The body ends as if it were complete.
    End,
}

/// A pause.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamStall {
    /// Until the client disconnects.
    Forever,
    /// This many milliseconds.
    #[serde(untagged)]
    Ms(u64),
}

/// Reported usage.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct UsageReply {
    /// Uncached input tokens; default: counted.
    pub input_tokens: Option<u64>,
    /// Output tokens; default: counted.
    pub output_tokens: Option<u64>,
    /// Tokens written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Server-side web searches.
    pub web_search_requests: u64,
}
