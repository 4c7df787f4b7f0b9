use serde::{Deserialize, Serialize};

/// Something that was changed so that the provider takes the request. The
/// conversation itself is never changed, only what is sent.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Repair {
    /// What was done.
    pub kind: RepairKind,
    /// Where: a call id, a tool, a message.
    pub place: String,
    /// What was changed and why, for a person.
    pub detail: String,
}

/// What was done to a request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairKind {
    /// A call without a result got one that says its outcome is unknown.
    ResultMissing,
    /// A result without a call was left out.
    ResultOrphaned,
    /// A second result of a call was left out.
    ResultRepeated,
    /// A call id was changed because it was used before or is none.
    CallId,
    /// A call's input was put into an object.
    CallInput,
    /// Messages were merged, added or left out so that the roles alternate.
    Roles,
    /// Control characters were made visible.
    Text,
    /// An empty block was left out.
    Empty,
    /// A picture was made smaller.
    ImageShrunk,
    /// A picture or document was replaced by words.
    MediaReplaced,
    /// Thinking of another model, or unsigned, was left out.
    ThinkingLeftOut,
    /// A block was left out that this version cannot send.
    BlockLeftOut,
    /// A setting was changed to what the model takes.
    Setting,
    /// The limit of the answer was lowered to what fits.
    MaxTokens,
    /// A tool has another name on the wire.
    ToolName,
    /// A tool's schema was simplified on the wire.
    ToolSchema,
    /// A tool cannot be offered.
    ToolLeftOut,
    /// A reference to a tool that is not offered became words.
    ToolReference,
    /// The provider refused a block; it was replaced by words.
    Refused,
}
