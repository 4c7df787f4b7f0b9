use haft_tool::{ContextChange, ErrorKind, Output, Rendering, ToolError};
use haft_types::{Block, CallId, Content, Message, MessageBlock, ToolUse, tags};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use crate::{CallDecision, CallTiming, DenialSource};

/// The result of one tool call. Every `tool_use` gets exactly one.
#[derive(Clone, Debug)]
pub struct CallReport {
    /// The `tool_use` id.
    pub id: CallId,
    /// The tool's name; the name the model used if no such tool exists.
    pub name: String,
    /// The result text and images the model reads.
    pub content: Content,
    /// The kind of failure, if the call failed at any stage.
    pub error: Option<ErrorKind>,
    /// The structured result, for programs. `None` if the tool has none.
    pub data: Option<Value>,
    /// Messages to add to the conversation after the result.
    pub new_messages: Vec<Message>,
    /// Text that hooks add for the model, next to the result.
    pub context: Vec<String>,
    /// Session changes (directory, mode, loaded tools). The executor applies them per batch, in emission
    /// order.
    pub changes: Vec<ContextChange>,
    /// Tool-defined metadata for clients. The model does not see it.
    pub meta: Option<Value>,
    /// How the result is displayed to users; `None` uses the content.
    pub rendering: Option<Rendering>,
    /// Text that hooks add for the user.
    pub notices: Vec<String>,
    /// Why the whole turn ends with this call: a hook or an approver asked for it.
    pub stop: Option<String>,
    /// Whether a hook deferred the call: it was not run, the turn ends, and the call can be resumed when
    /// the decision is made.
    pub left_for_later: bool,
    /// What denied the call, if it was denied.
    pub denied_by: Option<DenialSource>,
    /// The permission decision; `None` if the call failed before the permission stage.
    pub decision: Option<Box<CallDecision>>,
    /// Time spent per stage.
    pub timing: CallTiming,
}

/// A tool call of the model together with its report.
#[derive(Clone, Debug)]
pub struct AnsweredCall {
    /// The call as the model wrote it.
    pub call: ToolUse,
    /// The result of the call.
    pub report: CallReport,
}

impl CallReport {
    pub(crate) fn success(id: CallId, name: String, output: Output) -> Self {
        Self {
            id,
            name,
            content: output.content,
            error: None,
            data: (!output.data.is_null()).then_some(output.data),
            new_messages: output.new_messages,
            context: Vec::new(),
            changes: output.changes,
            meta: output.meta,
            rendering: Some(output.rendering),
            notices: Vec::new(),
            stop: None,
            left_for_later: false,
            denied_by: None,
            decision: None,
            timing: CallTiming::default(),
        }
    }

    pub(crate) fn failure(id: CallId, name: String, error: ToolError) -> Self {
        Self {
            id,
            name,
            content: Content::text(error.message),
            error: Some(error.kind),
            data: error.data.map(|data| *data),
            new_messages: Vec::new(),
            context: Vec::new(),
            changes: Vec::new(),
            meta: None,
            rendering: None,
            notices: Vec::new(),
            stop: None,
            left_for_later: false,
            denied_by: None,
            decision: None,
            timing: CallTiming::default(),
        }
    }

    /// Returns [`CallReport::new_messages`] with Haft's reserved tags escaped, so that tool output
    /// cannot imitate them.
    pub fn added_messages(&self) -> Vec<Message> {
        let mut messages = self.new_messages.clone();
        messages.iter_mut().for_each(Message::neutralise);
        messages
    }

    /// Builds the report of a call that ran successfully in another process.
    pub fn recovered(id: CallId, name: String, output: Output) -> Self {
        Self::success(id, name, output)
    }

    /// Builds the report of a call that was rejected before it entered the pipeline.
    pub fn refused(id: CallId, name: String, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::failure(id, name, ToolError::new(kind, message))
    }

    /// Returns the `tool_result` block for the next request, with Haft's reserved tags escaped so that
    /// tool output cannot imitate them.
    pub fn to_block(&self) -> MessageBlock {
        let mut content = self.content.clone();
        if content.0.is_empty() {
            content = Content::text("(no output)");
        }
        if content.neutralise() {
            content.0.push(Block::text(tags::NOTE));
        }
        MessageBlock::ToolResult { tool_use_id: self.id.clone(), content, is_error: self.error.is_some() }
    }
}

/// Serializes the public form: `{"id","name","content","is_error","error_kind"?,"data"?}`.
impl Serialize for CallReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("content", &self.content)?;
        map.serialize_entry("is_error", &self.error.is_some())?;
        if let Some(kind) = self.error {
            map.serialize_entry("error_kind", &kind)?;
        }
        if let Some(data) = &self.data {
            map.serialize_entry("data", data)?;
        }
        map.end()
    }
}
