//! Assembles blocks from fragments, for all wire formats.
//!
//! **Invariant:** a call is emitted when its block has ended *and* the answer is known not to have been
//! cut off there: when another block starts, or when the stop reason is known. Until then it is held
//! back; a held call with a complete input object is announced as [`ModelEvent::CallWritten`].

use std::{collections::BTreeMap, sync::Arc};

use haft_types::{CallId, MessageBlock, ToolUse, Usage};
use serde_json::{Map, Value, json};

use super::{
    arguments::{parse_arguments, salvage},
    split_surrogates::SurrogateJoiner,
};
use crate::{CallProblem, InvalidCall, ModelEvent, StopReason, ToolSet, text_tool_calls::coerce};

/// Assembles one answer.
pub(crate) struct ResponseAssembler {
    model: String,
    tools: Arc<ToolSet>,
    open: BTreeMap<usize, OpenBlock>,
    held: Option<AssembledCall>,
    handed_out: usize,
    usage: Usage,
    stopped: bool,
    coerces: bool,
    out: Vec<ModelEvent>,
}

struct OpenBlock {
    kind: BlockKind,
    text: String,
    joiner: SurrogateJoiner,
    citations: Vec<Value>,
}

enum BlockKind {
    Text,
    Thinking { signature: String },
    Redacted,
    Call { id: CallId, name: String },
    Other(Value),
}

struct AssembledCall {
    id: CallId,
    name: String,
    json: String,
}

impl ResponseAssembler {
    /// Creates an assembler. `tools` is the set the request offered, used to map wire names and schemas.
    pub(crate) fn new(model: &str, tools: Arc<ToolSet>) -> Self {
        Self {
            model: model.to_owned(),
            tools,
            open: BTreeMap::new(),
            held: None,
            handed_out: 0,
            usage: Usage::default(),
            stopped: false,
            coerces: false,
            out: Vec::new(),
        }
    }

    /// Enables parsing of string inputs as arrays and objects where the schema allows only those, for
    /// models that write them as strings.
    pub(crate) fn coerce_inputs(&mut self) {
        self.coerces = true;
    }

    pub(crate) fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Takes the events produced since the last call.
    pub(crate) fn drain(&mut self) -> Vec<ModelEvent> {
        std::mem::take(&mut self.out)
    }

    /// Returns the number of calls emitted.
    pub(crate) fn handed_out(&self) -> usize {
        self.handed_out
    }

    /// Whether the stop reason was received.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether a text block is in progress, in which case chunks arrive quickly.
    pub(crate) fn is_writing_text(&self) -> bool {
        self.open.values().any(|open| matches!(open.kind, BlockKind::Text))
    }

    pub(crate) fn started(&mut self, id: &str, model: &str) {
        self.out.push(ModelEvent::Started { id: id.to_owned(), model: model.to_owned() });
    }

    pub(crate) fn usage(&mut self) -> &mut Usage {
        &mut self.usage
    }

    pub(crate) fn tell_usage(&mut self) {
        self.out.push(ModelEvent::Usage(self.usage));
    }

    fn begin(&mut self, index: usize, kind: BlockKind) -> &mut OpenBlock {
        self.release();
        let open = OpenBlock {
            kind,
            text: String::new(),
            joiner: SurrogateJoiner::default(),
            citations: Vec::new(),
        };
        self.open.entry(index).insert_entry(open).into_mut()
    }

    pub(crate) fn begin_text(&mut self, index: usize) {
        self.begin(index, BlockKind::Text);
    }

    pub(crate) fn begin_thinking(&mut self, index: usize) {
        self.begin(index, BlockKind::Thinking { signature: String::new() });
    }

    pub(crate) fn begin_redacted(&mut self, index: usize, data: &str) {
        data.clone_into(&mut self.begin(index, BlockKind::Redacted).text);
    }

    pub(crate) fn begin_call(&mut self, index: usize, id: &str, name: &str) {
        let name = self.tools.by_wire_name(name).map_or(name, |tool| tool.def.name.as_str()).to_owned();
        let id = CallId::from(id);
        self.begin(index, BlockKind::Call { id: id.clone(), name: name.clone() });
        self.out.push(ModelEvent::ToolStarted { id, name });
    }

    pub(crate) fn begin_other(&mut self, index: usize, block: Value) {
        self.begin(index, BlockKind::Other(block));
    }

    /// Appends a fragment to a block of any type.
    pub(crate) fn piece(&mut self, index: usize, piece: &str) {
        let Some(open) = self.open.get_mut(&index) else { return };
        let piece = open.joiner.push(piece);
        if piece.is_empty() {
            return;
        }
        open.text.push_str(&piece);
        match &open.kind {
            BlockKind::Text => self.out.push(ModelEvent::Text(piece)),
            BlockKind::Thinking { .. } => self.out.push(ModelEvent::Thinking(piece)),
            BlockKind::Call { id, .. } => {
                self.out.push(ModelEvent::ToolInput { id: id.clone(), json: piece })
            }
            BlockKind::Redacted | BlockKind::Other(_) => {}
        }
    }

    pub(crate) fn signature(&mut self, index: usize, piece: &str) {
        if let Some(OpenBlock { kind: BlockKind::Thinking { signature }, .. }) = self.open.get_mut(&index) {
            signature.push_str(piece);
        }
    }

    /// Adds a citation to a text block.
    pub(crate) fn citation(&mut self, index: usize, citation: &Value) {
        if let Some(open) = self.open.get_mut(&index).filter(|_| citation.is_object()) {
            open.citations.push(citation.clone());
        }
    }

    /// Returns what an open block contains so far.
    pub(crate) fn written(&self, index: usize) -> Option<&str> {
        self.open.get(&index).map(|open| open.text.as_str())
    }

    /// Returns the tool name of an open call.
    pub(crate) fn call_name(&self, index: usize) -> Option<&str> {
        match &self.open.get(&index)?.kind {
            BlockKind::Call { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether the block with this index is open.
    pub(crate) fn is_open(&self, index: usize) -> bool {
        self.open.contains_key(&index)
    }

    /// Ends a block.
    pub(crate) fn end(&mut self, index: usize) {
        let Some(mut open) = self.open.remove(&index) else { return };
        open.text.extend(open.joiner.finish());
        let OpenBlock { kind, text, citations, .. } = open;
        if !citations.is_empty() {
            self.out.push(ModelEvent::Cited(citations));
        }
        match kind {
            BlockKind::Text if text.is_empty() => {}
            BlockKind::Text => self.out.push(ModelEvent::Block(MessageBlock::Text { text })),
            BlockKind::Thinking { signature } => {
                let model = Some(self.model.clone());
                self.out.push(ModelEvent::Block(MessageBlock::Thinking { thinking: text, signature, model }));
            }
            BlockKind::Redacted => {
                let model = Some(self.model.clone());
                self.out.push(ModelEvent::Block(MessageBlock::RedactedThinking { data: text, model }));
            }
            BlockKind::Call { id, name } => {
                self.release();
                if let Ok(input) = serde_json::from_str::<Map<String, Value>>(&text) {
                    let mut input = Value::Object(input);
                    self.coerce(&name, &mut input);
                    let call = ToolUse { id: id.clone(), name: name.clone(), input };
                    self.out.push(ModelEvent::CallWritten(call));
                }
                self.held = Some(AssembledCall { id, name, json: text });
            }
            BlockKind::Other(mut block) => {
                if let Ok(input) = serde_json::from_str::<Value>(&text) {
                    block["input"] = input;
                }
                self.out.push(ModelEvent::Block(MessageBlock::Other(block)));
            }
        }
    }

    /// Emits the call that is held back.
    fn release(&mut self) {
        let Some(AssembledCall { id, name, json }) = self.held.take() else { return };
        match parse_arguments(&json) {
            Ok(mut input) => {
                self.coerce(&name, &mut input);
                self.handed_out += 1;
                self.out.push(ModelEvent::Block(MessageBlock::ToolUse(ToolUse { id, name, input })));
            }
            Err(bad) => {
                let call = ToolUse { id, name, input: bad.salvage };
                self.out.push(ModelEvent::BadCall(InvalidCall {
                    call,
                    problem: CallProblem::Malformed { error: bad.error },
                }));
            }
        }
    }

    fn coerce(&self, name: &str, input: &mut Value) {
        let tool = self.tools.tools().iter().find(|tool| tool.def.name == name).filter(|_| self.coerces);
        if let (Some(tool), Value::Object(fields)) = (tool, input) {
            coerce(fields, &tool.schema);
        }
    }

    /// Ends the answer with a stop reason. Later calls are ignored.
    pub(crate) fn stop(&mut self, reason: StopReason) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        if reason.may_cut_a_block() {
            self.give_up_held();
        } else {
            self.release();
        }
        let left: Vec<usize> = self.open.keys().copied().collect();
        for index in left {
            self.end(index);
            // A call whose block has not ended is truncated, whatever the stop reason is.
            self.give_up_held();
        }
        self.tell_usage();
        self.out.push(ModelEvent::Stopped(reason));
    }

    fn give_up_held(&mut self) {
        let Some(AssembledCall { id, name, json }) = self.held.take() else { return };
        let call = ToolUse { id, name, input: salvage(&json) };
        let output_tokens = Some(self.usage.output_tokens).filter(|count| *count > 0);
        self.out.push(ModelEvent::BadCall(InvalidCall {
            call,
            problem: CallProblem::Truncated { output_tokens },
        }));
    }

    /// Ends an answer whose stream broke after calls were emitted: those stay valid, unfinished blocks
    /// are dropped.
    pub(crate) fn interrupt(&mut self) {
        self.open.clear();
        self.held = None;
        self.stopped = true;
        self.tell_usage();
        self.out.push(ModelEvent::Stopped(StopReason::Interrupted));
    }
}

/// Reads a token count.
pub(crate) fn count(value: &Value, name: &str) -> Option<u64> {
    value.get(name).and_then(Value::as_u64)
}

/// Converts an input that arrived as an object to JSON text.
pub(crate) fn as_text(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => json!(other).to_string(),
    }
}
