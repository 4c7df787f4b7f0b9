use serde::{Deserialize, Serialize};

/// A change made to a request so that the provider accepts it. Only the copy that is sent is changed,
/// never the conversation.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Repair {
    /// What was changed.
    pub kind: RepairKind,
    /// Where: a call id, a tool name, a message.
    pub place: String,
    /// What was changed and why, for the user.
    pub detail: String,
}

/// Kind of change.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairKind {
    /// A call without a result got one that says the outcome is unknown.
    ResultMissing,
    /// A result without a call was removed.
    ResultOrphaned,
    /// A second result of a call was removed.
    ResultRepeated,
    /// A call id was replaced because it is invalid or was used before.
    CallId,
    /// A call's input that is not an object was wrapped in one.
    CallInput,
    /// Messages were merged, added or removed so that the roles alternate.
    Roles,
    /// Control characters were escaped.
    Text,
    /// An empty block was removed.
    Empty,
    /// An image was scaled down.
    ImageShrunk,
    /// An image or document was replaced by text.
    MediaReplaced,
    /// Thinking that is unsigned or from another model was removed.
    ThinkingLeftOut,
    /// A block this version cannot send was removed.
    BlockLeftOut,
    /// A setting was changed to one the model supports.
    Setting,
    /// `max_tokens` was lowered to what fits.
    MaxTokens,
    /// A tool is sent under another name.
    ToolName,
    /// A tool is sent with a simplified schema.
    ToolSchema,
    /// A tool cannot be offered.
    ToolLeftOut,
    /// A reference to a tool that is not offered was replaced by text.
    ToolReference,
    /// A block that the provider rejected was replaced by text.
    Refused,
}
