use haft_tool::{ContextChange, ErrorKind, Output, Rendering, ToolError};
use haft_types::{Block, CallId, Content, Message, MessageBlock, ToolUse, tags};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use crate::{CallDecision, CallTiming, DenialSource};

/// What came of a call. There is always exactly one.
#[derive(Clone, Debug)]
pub struct CallReport {
    /// The `tool_use` id.
    pub id: CallId,
    /// The tool's name, or the name the model used when there is no such tool.
    pub name: String,
    /// What the model reads.
    pub content: Content,
    /// Set when the call failed at any stage.
    pub error: Option<ErrorKind>,
    /// The structured result, for programs.
    pub data: Option<Value>,
    /// Messages to add after the result.
    pub new_messages: Vec<Message>,
    /// What hooks want the model to know beside the result.
    pub context: Vec<String>,
    /// Session changes, applied per batch in emission order.
    pub changes: Vec<ContextChange>,
    /// What the outside wants to see beside the result.
    pub meta: Option<Value>,
    /// What a person sees.
    pub rendering: Option<Rendering>,
    /// What hooks want the person to know.
    pub notices: Vec<String>,
    /// Somebody who was asked wants the whole turn to end here, for this reason.
    pub stop: Option<String>,
    /// It was not run because somebody wants to decide about it later; it can be
    /// taken up then. The turn ends.
    pub left_for_later: bool,
    /// Who said no, where somebody did.
    pub denied_by: Option<DenialSource>,
    /// What permission said, where the call came that far.
    pub decision: Option<Box<CallDecision>>,
    /// How long it spent where.
    pub timing: CallTiming,
}

/// A call of the model with its report.
#[derive(Clone, Debug)]
pub struct AnsweredCall {
    /// The call, as the model made it.
    pub call: ToolUse,
    /// The report.
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

    /// The messages to add after the result. Tags of Haft in them are neutral.
    pub fn added_messages(&self) -> Vec<Message> {
        let mut messages = self.new_messages.clone();
        messages.iter_mut().for_each(Message::neutralise);
        messages
    }

    /// The report of a call that ran in another process and ended well there.
    pub fn recovered(id: CallId, name: String, output: Output) -> Self {
        Self::success(id, name, output)
    }

    /// The report of a call that never got into the pipeline.
    pub fn refused(id: CallId, name: String, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::failure(id, name, ToolError::new(kind, message))
    }

    /// The block that answers the call in the next request. Tags of Haft in it
    /// are neutral.
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

/// The public form: `{"id","name","content","is_error","error_kind"?,"data"?}`.
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
