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
/// The shape is the one session readers of the Agent SDKs know: a `type`, for
/// conversation lines a `uuid` with its `parentUuid`, and a `message`. What
/// only Haft needs are lines of type `haft`, which other readers pass over.
/// Fields nobody here knows are kept.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LogEntry {
    /// What the person said, and the results of tools.
    User(ConversationLine),
    /// What the model said.
    Assistant(ConversationLine),
    /// A mark in the conversation, such as the boundary of a compaction.
    System(SystemLine),
    /// What a prompt named, and the model was shown with it.
    Attachment(AttachmentLine),
    /// State that is not part of the conversation.
    Haft(LogState),
    /// A name for the session.
    #[serde(rename = "custom-title")]
    CustomTitle {
        /// The name.
        #[serde(rename = "customTitle")]
        custom_title: String,
        /// Which session.
        #[serde(rename = "sessionId")]
        session_id: String,
    },
}

/// What every line of the conversation says about itself.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineHeader {
    /// Names the line.
    pub uuid: String,
    /// The line before it.
    pub parent_uuid: Option<String>,
    /// Which session.
    pub session_id: String,
    /// When, as ISO 8601.
    #[serde(default)]
    pub timestamp: String,
    /// Where the session was working.
    #[serde(default)]
    pub cwd: String,
    /// Whether it belongs to a sub-agent.
    #[serde(default)]
    pub is_sidechain: bool,
    /// Which version wrote it.
    #[serde(default)]
    pub version: String,
}

/// A line of the conversation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationLine {
    /// Which, when, where.
    #[serde(flatten)]
    pub head: LineHeader,
    /// What was said.
    pub message: LoggedMessage,
    /// Said by the program, not by the person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_meta: bool,
    /// The structured result of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use_result: Option<Value>,
    /// Everything else, as it was.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A message, and what the provider said about it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(from = "MessageRecord", into = "MessageRecord")]
pub struct LoggedMessage {
    /// The message.
    pub message: Message,
    /// How its content is written.
    pub form: ContentForm,
    /// Which model wrote it.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
}

/// How the content of a message is written. Readers of the Agent SDKs expect what
/// a person typed as a text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ContentForm {
    /// As one text, where it is nothing else.
    Text,
    /// As blocks.
    #[default]
    Blocks,
}

/// A message as it is in the file.
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

/// By hand: a derived reader keeps all of it aside to try one form after the other.
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

/// What a prompt named.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentLine {
    /// Which, when, where.
    #[serde(flatten)]
    pub head: LineHeader,
    /// What it is; [`Attachment`](crate::Attachment) where it is one of ours.
    pub attachment: Value,
    /// Everything else, as it was.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A mark in the conversation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemLine {
    /// Which, when, where.
    #[serde(flatten)]
    pub head: LineHeader,
    /// What kind of mark.
    pub subtype: String,
    /// Everything else, as it was.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What stands for a result that was shortened.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ResultStub {
    /// The call whose result it was.
    pub call: CallId,
    /// What is left of it.
    pub text: String,
}

/// A request that was answered, and what it cost.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct RequestLine {
    /// Which of the session, counted from 1.
    pub request: u64,
    /// When, as ISO 8601.
    pub timestamp: String,
    /// Who answered.
    pub model: String,
    /// What for.
    pub purpose: RequestPurpose,
    /// Tokens.
    pub usage: Usage,
    /// Whether the provider did not say, so that the tokens are an estimate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_estimate: bool,
    /// Money, where the price is known.
    pub usd: Option<f64>,
    /// What was lost, if it did not go on from what the provider had cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bust: Option<CacheMiss>,
    /// To compare the next one with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<LoggedPrefix>,
}

/// What a request was for.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestPurpose {
    /// The conversation.
    #[default]
    Answer,
    /// Summing it up.
    Summary,
}

/// State that is not part of the conversation, and must survive all the same.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LogState {
    /// Changes tools made to the session, in order.
    Changes {
        /// Which.
        changes: Vec<ContextChange>,
    },
    /// What outlives every compaction, as it was then.
    Kept {
        /// All of it.
        kept: Box<PreservedState>,
    },
    /// Results that were shortened: what stands for them from here on.
    Stubs {
        /// Which.
        stubs: Vec<ResultStub>,
    },
    /// What a call left behind for the next time (keys of ours in its `meta`).
    Meta {
        /// Which call.
        call: CallId,
        /// What.
        meta: Map<String, Value>,
    },
    /// What everything has cost so far.
    Cost {
        /// Tokens.
        usage: Usage,
        /// Money, where the prices are known.
        usd: f64,
    },
    /// A request was answered.
    Asked(Box<RequestLine>),
    /// Who writes what follows. From here on, calls that act are said to start
    /// before they run.
    Writer(WriterLine),
    /// A call that may act is about to run.
    Started(Box<CallStartedLine>),
    /// A call is done.
    Call(Box<CallFinishedLine>),
    /// The system prompt from here on.
    Prompt {
        /// All of it.
        prompt: Box<SystemPrompt>,
    },
    /// The system prompt stays, and the model was told what differs from it.
    Told {
        /// What the prompt would say.
        prompt: Box<SystemPrompt>,
    },
    /// The tools of servers that requests declare from here on.
    Tools {
        /// All of them, in order.
        tools: Vec<ToolDef>,
    },
    /// And these behind them.
    MoreTools {
        /// Which.
        tools: Vec<ToolDef>,
    },
    /// An agent that another one started begins a run, in its own log.
    RunBegan {
        /// The run.
        run: String,
    },
    /// The run has ended; what came of it.
    RunEnded {
        /// The run.
        run: String,
        /// The report.
        report: serde_json::Value,
    },
    /// The report of a run is in what follows, where that does not say so itself.
    RunHeard {
        /// The run.
        #[serde(rename = "runId")]
        run: String,
    },
    /// What the person was shown beside the conversation.
    Shown(Box<ShownLine>),
    /// Written by a newer version.
    #[serde(other)]
    Unknown,
}

/// What the person was shown and no model hears: kept so that whoever shows the
/// session again shows all of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ShownLine {
    /// How it came to be shown.
    pub why: ShownReason,
    /// The answer it was part of; the prompt, where it is what came of one.
    pub name: String,
    /// What the person had typed, where that is in no other line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub typed: String,
    /// What was shown, in order.
    pub pieces: Vec<ShownContent>,
}

/// How something came to be shown that is no part of the conversation.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownReason {
    /// An answer broke off and does not count.
    BrokenOff,
    /// A thought was interrupted.
    Interrupted,
    /// A command of ours said it.
    Command,
    /// It says why a turn ended.
    Ended,
}

/// A piece of what was shown.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownContent {
    /// A thought.
    Thought(String),
    /// Words.
    Said(String),
    /// Words whose lines stay as they are.
    Printed(String),
}
