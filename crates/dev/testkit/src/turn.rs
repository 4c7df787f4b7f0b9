use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One answer: a refusal, or pieces that are streamed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Turn {
    /// Which requests it answers; an empty one answers any.
    #[serde(skip_serializing_if = "MockWhen::is_any")]
    pub when: MockWhen,
    /// How often it may be used.
    pub times: Times,
    /// The window that a request must fit to get this turn, where it is another one
    /// than the script's.
    pub window: Option<u64>,
    /// Waits before the first byte.
    pub delay_ms: u64,
    /// Closes the connection without a byte.
    pub drop: bool,
    /// Answers with an error status instead.
    pub error: Option<ErrorReply>,
    /// Answers with exactly this body, status 200.
    pub raw: Option<String>,
    /// What the model says.
    pub reply: Vec<ReplyPiece>,
    /// Why it stops: the name in the Messages form (`end_turn`, `tool_use`,
    /// `max_tokens`, …). Without it, what fits the pieces.
    pub stop: Option<String>,
    /// What was used; without it, what was counted.
    pub usage: Option<UsageReply>,
    /// Ends the body at a byte.
    pub cut: Option<ByteFault<StreamCut>>,
    /// Pauses the body at a byte.
    pub stall: Option<ByteFault<StreamStall>>,
}

impl Turn {
    /// Says these pieces.
    pub fn from_pieces(reply: impl IntoIterator<Item = ReplyPiece>) -> Self {
        Self { reply: reply.into_iter().collect(), ..Self::default() }
    }

    /// Says one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::from_pieces([ReplyPiece::text(text)])
    }

    /// Makes one call.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::from_pieces([ReplyPiece::tool(name, input)])
    }

    /// Fails with a status.
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

    /// Stops for this reason.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// Answers only requests whose last user text contains this.
    #[must_use]
    pub fn when(mut self, last_user: &str) -> Self {
        self.when.last_user = Some(TextMatcher::contains(last_user));
        self
    }

    /// Answers as often as it fits.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = Times::Always;
        self
    }

    /// Answers only requests that fit this window.
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
    /// The turn answers every request that fits.
    Always,
    /// The turn answers this many requests.
    #[serde(untagged)]
    Count(usize),
}

impl Default for Times {
    fn default() -> Self {
        Self::Count(1)
    }
}

/// Which requests a turn answers: all that is given must fit.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockWhen {
    /// The text of the last user message, tool results left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_user: Option<TextMatcher>,
    /// The text of the tool results in the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<TextMatcher>,
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<TextMatcher>,
    /// The model asked for.
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

/// A test of a text. A plain string means `contains`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextMatcher {
    /// The text holds this part.
    Contains(String),
    /// The text is exactly this.
    Equals(String),
    /// Matches this regular expression somewhere.
    Regex(String),
    /// Holds this.
    #[serde(untagged)]
    Plain(String),
}

impl TextMatcher {
    /// Fits texts that hold this part.
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

/// An error status and its words.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorReply {
    /// The HTTP status of the answer.
    pub status: u16,
    /// Error type, as in the Messages form (`overloaded_error`, …).
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says.
    pub message: String,
    /// Extra headers, such as `retry-after`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A piece of an answer, or something that happens between two pieces.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyPiece {
    /// A text block.
    Text(String),
    /// A thinking block, signed for the model asked for.
    Thinking(String),
    /// A thinking block the service hides.
    RedactedThinking(String),
    /// A tool call.
    Tool(ToolPiece),
    /// A block of the service's own (`server_tool_use`, `web_search_tool_result`), or
    /// a text with citations, as it stands in an answer. Only in the Messages form.
    Block(Value),
    /// An unfinished text block: its end never comes.
    OpenText(String),
    /// An unfinished thinking block: neither signature nor end comes.
    OpenThinking(String),
    /// Nothing for a while.
    Stall(StreamStall),
    /// The body ends here.
    Cut(StreamCut),
    /// An error frame in the middle of the stream; nothing comes after it.
    Error(ErrorReply),
    /// Bytes put into the body as they are.
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

    /// A complete call.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::Tool(ToolPiece { name: name.into(), input, ..ToolPiece::default() })
    }
}

/// A tool call.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolPiece {
    /// The name of the tool that is called.
    pub name: String,
    /// Its id; without it, one made from the numbers of request and block.
    pub id: Option<String>,
    /// The input of the call.
    pub input: Value,
    /// The input as text, when it is not to be JSON.
    pub json: Option<String>,
    /// Where (in characters) the input's text is split into pieces.
    pub split: Option<Vec<usize>>,
    /// Ends the input after so many characters.
    pub keep: Option<usize>,
    /// Whether the end of the block never comes.
    pub open: bool,
}

impl ToolPiece {
    /// The input's text, as far as it is kept.
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

/// Something that happens when so many bytes of the body are out.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ByteFault<T> {
    /// After how many bytes.
    pub byte: usize,
    /// What happens at that byte.
    pub what: T,
}

/// How a body ends too early.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamCut {
    /// The connection breaks.
    Reset,
    /// The body ends as if it were whole.
    End,
}

/// How long nothing comes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamStall {
    /// Until the client goes away.
    Forever,
    /// So many milliseconds.
    #[serde(untagged)]
    Ms(u64),
}

/// What the answer says was used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct UsageReply {
    /// Input outside the cache; without it, what was counted.
    pub input_tokens: Option<u64>,
    /// Output; without it, what was counted.
    pub output_tokens: Option<u64>,
    /// Input written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Input read from the cache.
    pub cache_read_input_tokens: u64,
    /// Searches of the service's own.
    pub web_search_requests: u64,
}
