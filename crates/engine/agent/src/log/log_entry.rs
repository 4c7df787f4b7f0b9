use std::fmt;

use haft_model::ToolDef;
use haft_tool::ContextChange;
use haft_types::{CallId, Message, MessageBlock, Role, Usage};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{CallFinishedLine, CallStartedLine, WriterLine};
use crate::{CacheMiss, LoggedPrefix, PreservedState, SystemPrompt};

/// One line of a session log.
///
/// The format is that of the Agent SDKs: a `type`, for conversation lines a `uuid` and its `parentUuid`,
/// and a `message`. Additional data of Haft is in lines of type `haft`, which other readers skip.
/// Unknown fields are preserved.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LogEntry {
    /// A message of the user, or results of tools.
    User(ConversationLine),
    /// A message of the model.
    Assistant(ConversationLine),
    /// A marker in the conversation, such as a compaction.
    System(SystemLine),
    /// An attachment of a prompt.
    Attachment(AttachmentLine),
    /// State that is not part of the conversation.
    Haft(LogState),
    /// The name of the session.
    #[serde(rename = "custom-title")]
    CustomTitle {
        #[serde(rename = "customTitle")]
        custom_title: String,
        #[serde(rename = "sessionId")]
        session_id: String,
    },
}

/// Common fields of all conversation lines.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineHeader {
    /// Unique id of the line.
    pub uuid: String,
    /// Uuid of the previous line, if there is one.
    pub parent_uuid: Option<String>,
    /// Id of the session.
    pub session_id: String,
    /// Time, as ISO 8601.
    #[serde(default)]
    pub timestamp: String,
    /// Working directory.
    #[serde(default)]
    pub cwd: String,
    /// Whether the line belongs to a sub-agent.
    #[serde(default)]
    pub is_sidechain: bool,
    /// Version of the program that wrote it.
    #[serde(default)]
    pub version: String,
}

/// A line of the conversation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationLine {
    #[serde(flatten)]
    pub head: LineHeader,
    pub message: LoggedMessage,
    /// Whether the program wrote the message, not the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_meta: bool,
    /// The structured result of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_result: Option<Value>,
    /// Unknown fields, unchanged.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A message, with metadata from the provider.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(from = "MessageRecord", into = "MessageRecord")]
pub struct LoggedMessage {
    pub message: Message,
    /// How its content is serialised.
    pub form: ContentForm,
    /// Name of the model that wrote it.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// Token usage of the answer.
    pub usage: Option<Usage>,
}

/// How the content of a message is serialised. Readers of the Agent SDKs expect typed prompts as a
/// string.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ContentForm {
    /// As a string, if it is a single text.
    Text,
    /// As a list of blocks.
    #[default]
    Blocks,
}

/// A message as stored in the file.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct MessageRecord {
    role: Role,
    content: RecordedContent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum RecordedContent {
    Text(String),
    Blocks(Vec<MessageBlock>),
}

/// Hand-written, because a derived untagged deserialiser buffers the whole value to try one variant
/// after the other.
impl<'de> Deserialize<'de> for RecordedContent {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = RecordedContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of blocks")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RecordedContent, E> {
                Ok(RecordedContent::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<RecordedContent, E> {
                Ok(RecordedContent::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<RecordedContent, A::Error> {
                let mut all = Vec::new();
                while let Some(block) = blocks.next_element()? {
                    all.push(block);
                }
                Ok(RecordedContent::Blocks(all))
            }
        }

        reader.deserialize_any(ContentVisitor)
    }
}

impl From<MessageRecord> for LoggedMessage {
    fn from(MessageRecord { role, content, model, id, usage }: MessageRecord) -> Self {
        let (content, form) = match content {
            RecordedContent::Text(text) => (vec![MessageBlock::Text { text }], ContentForm::Text),
            RecordedContent::Blocks(blocks) => (blocks, ContentForm::Blocks),
        };
        Self { message: Message { role, content }, form, model, id, usage }
    }
}

impl From<LoggedMessage> for MessageRecord {
    fn from(
        LoggedMessage { message: Message { role, content }, form, model, id, usage }: LoggedMessage,
    ) -> Self {
        let content = match (form, <[MessageBlock; 1]>::try_from(content)) {
            (ContentForm::Text, Ok([MessageBlock::Text { text }])) => RecordedContent::Text(text),
            (_, Ok(one)) => RecordedContent::Blocks(one.into()),
            (_, Err(blocks)) => RecordedContent::Blocks(blocks),
        };
        Self { role, content, model, id, usage }
    }
}

/// An attachment of a prompt.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentLine {
    #[serde(flatten)]
    pub head: LineHeader,
    /// The attachment; an [`Attachment`](crate::Attachment) if Haft wrote it.
    pub attachment: Value,
    /// Unknown fields, unchanged.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A marker in the conversation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemLine {
    #[serde(flatten)]
    pub head: LineHeader,
    /// Kind of the marker.
    pub subtype: String,
    /// Unknown fields, unchanged.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The replacement of a result that was shortened.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ResultStub {
    pub call: CallId,
    /// The remaining text.
    pub text: String,
}

/// An answered request and its cost.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct RequestLine {
    /// Number of the request in the session, starting at 1.
    pub request: u64,
    /// Time, as ISO 8601.
    pub timestamp: String,
    /// Name of the model.
    pub model: String,
    /// Purpose of the request.
    pub purpose: RequestPurpose,
    pub usage: Usage,
    /// Whether `usage` is an estimate because the provider did not report it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_estimate: bool,
    /// Cost in US dollars, if the price is known.
    pub usd: Option<f64>,
    /// The prompt cache miss, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bust: Option<CacheMiss>,
    /// Fingerprint of the request, for comparison with the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<LoggedPrefix>,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestPurpose {
    /// An answer in the conversation.
    #[default]
    Answer,
    /// A summary for compaction.
    Summary,
}

/// State that is not part of the conversation but must survive a restart.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LogState {
    /// Context changes made by tools, in order.
    Changes {
        changes: Vec<ContextChange>,
    },
    /// Snapshot of the state that survives compactions.
    Kept {
        kept: Box<PreservedState>,
    },
    /// Results that are replaced by stubs from here on.
    Stubs {
        stubs: Vec<ResultStub>,
    },
    /// Metadata that a call stored for a resumed session.
    Meta {
        call: CallId,
        meta: Map<String, Value>,
    },
    /// Total usage and cost so far.
    Cost {
        usage: Usage,
        /// Cost in US dollars.
        usd: f64,
    },
    Asked(Box<RequestLine>),
    /// Writer of the following lines. From here on, calls with side effects are logged before they run.
    Writer(WriterLine),
    /// A call with side effects is about to run.
    Started(Box<CallStartedLine>),
    /// A call is done.
    Call(Box<CallFinishedLine>),
    /// The system prompt from here on.
    Prompt {
        prompt: Box<SystemPrompt>,
    },
    /// The system prompt is unchanged; the model was told the differences in messages.
    Told {
        /// The prompt with these differences.
        prompt: Box<SystemPrompt>,
    },
    /// MCP tools that requests declare from here on.
    Tools {
        tools: Vec<ToolDef>,
    },
    /// MCP tools that are appended to the declared ones.
    MoreTools {
        tools: Vec<ToolDef>,
    },
    /// A sub-agent starts a run (in its own log).
    RunBegan {
        /// Id of the run.
        run: String,
    },
    /// A run has ended.
    RunEnded {
        /// Id of the run.
        run: String,
        report: serde_json::Value,
    },
    /// The next message contains the report of this run, without naming it.
    RunHeard {
        /// Id of the run.
        #[serde(rename = "runId")]
        run: String,
    },
    /// Output shown to the user that is not part of the conversation.
    Shown(Box<ShownLine>),
    /// A kind written by a newer version.
    #[serde(other)]
    Unknown,
}

/// Output shown to the user that the model does not get, kept so that the session can be displayed
/// completely.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ShownLine {
    /// Why it was shown.
    pub why: ShownReason,
    /// Id of the answer it belongs to; for the result of a prompt, the prompt's uuid.
    pub name: String,
    /// Text the user typed, if no other line contains it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub typed: String,
    /// What was shown, in order.
    pub pieces: Vec<ShownContent>,
}

/// Why output is not part of the conversation.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownReason {
    /// The answer broke off and is void.
    BrokenOff,
    /// The thinking was interrupted.
    Interrupted,
    /// It is the output of a built-in command.
    Command,
    /// It explains why a turn ended.
    Ended,
}

/// A piece of shown output.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownContent {
    /// Thinking.
    Thought(String),
    /// Text.
    Said(String),
    /// Preformatted text.
    Printed(String),
}
