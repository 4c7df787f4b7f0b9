//! Converts session events to updates.

use std::{
    borrow::Cow,
    collections::HashMap,
    time::{Duration, SystemTime},
};

use haft_agent::{
    AgentEvent, EndReason, TurnEnd,
    log::{ShownContent, ShownLine, ShownReason},
};
use haft_model::{ModelError, ModelEvent};
use haft_session::{SessionEvent, SessionEventKind};
use haft_tool::ProgressEvent;
use haft_types::{AgentId, CallId, Content, MessageBlock, ToolUse, Usage, text};
use serde_json::{Value, json};

use super::{
    call_info::{CallInspector, CallPresentation},
    content::{chunk_content, fenced, of_result, text_block},
    diffs,
    update::{AcpUpdate, CallAnnounced, CallChange, CallContent, CallLocation, ChunkUpdate, ContentBlock},
};
use crate::{
    client_capabilities::EditorCapabilities,
    jsonrpc::{AUTH_REQUIRED, AcpError},
};

/// Minimum interval between progress updates of a call.
const PROGRESS_PACE: Duration = Duration::from_millis(50);

/// Maximum lines of a sub-agent's activity shown on its call.
const CHILD_LINES: usize = 12;

/// Maximum bytes of text in one update.
const MAX_PART_BYTES: usize = 200_000;

/// Builds the updates of one session.
pub(crate) struct UpdateBuilder {
    pub(crate) looks: CallInspector,
    abilities: EditorCapabilities,
    /// Message id of the current answer.
    answer: String,
    /// The part of the current block that was already sent.
    streamed: String,
    /// Calls without a result.
    open_calls: HashMap<CallId, OpenCall>,
}

struct OpenCall {
    look: CallPresentation,
    /// When its progress was last sent.
    told: Option<SystemTime>,
    /// Activity of its sub-agent.
    child: Vec<String>,
}

/// The response to a prompt request.
pub(crate) type PromptResponse = Result<Value, AcpError>;

/// Kind of text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ChunkKind {
    Said,
    Thought,
}

impl ChunkKind {
    fn update(self, chunk: ChunkUpdate<'_>) -> AcpUpdate<'_> {
        match self {
            Self::Said => AcpUpdate::AgentMessageChunk(chunk),
            Self::Thought => AcpUpdate::AgentThoughtChunk(chunk),
        }
    }
}

impl UpdateBuilder {
    pub(crate) fn new(looks: CallInspector, abilities: EditorCapabilities) -> Self {
        Self { looks, abilities, answer: String::new(), streamed: String::new(), open_calls: HashMap::new() }
    }

    /// Returns the description of a call that has no result yet.
    pub(crate) fn open_call(&self, call: &CallId) -> Option<&CallPresentation> {
        self.open_calls.get(call).map(|it| &it.look)
    }

    /// Returns the updates for an event, in order. `changes` are the diffs of a finished command.
    pub(crate) fn of(&mut self, event: &SessionEvent, changes: Vec<Value>) -> Vec<Value> {
        self.typed(event, changes).into_iter().map(AcpUpdate::into_value).collect()
    }

    fn typed<'a>(&'a mut self, event: &'a SessionEvent, changes: Vec<Value>) -> Vec<AcpUpdate<'a>> {
        match &event.what {
            SessionEventKind::Agent(it) if event.agent == AgentId::Main => self.agent(it, event.at, changes),
            SessionEventKind::Agent(it) => self.child(it, event.parent_call.as_ref()),
            SessionEventKind::Notice(words) => self.notice("info", words),
            SessionEventKind::Renamed(title) => {
                vec![AcpUpdate::Other(json!({"sessionUpdate": "session_info_update", "title": title}))]
            }
            SessionEventKind::Cleared(id) => {
                let words = format!("The conversation begins anew, as session {id}; the old one stays.");
                vec![said(ChunkKind::Said, words, "")]
            }
            SessionEventKind::CommandEnded(it) => {
                let name = beside(it.facts.prompts.first());
                it.result.shown().into_iter().map(|piece| piece_update(&piece, name.clone())).collect()
            }
            SessionEventKind::TurnEnded(it) => {
                let name = beside(it.facts.prompts.first());
                let remark = it.end.reason.remark().map(ShownContent::Said);
                remark.into_iter().map(|piece| piece_update(&piece, name.clone())).collect()
            }
            _ => Vec::new(),
        }
    }

    fn agent<'a>(
        &'a mut self,
        event: &'a AgentEvent,
        at: SystemTime,
        changes: Vec<Value>,
    ) -> Vec<AcpUpdate<'a>> {
        match event {
            AgentEvent::Model(ModelEvent::Started { id, .. }) => {
                self.answer.clone_from(id);
                self.streamed.clear();
                Vec::new()
            }
            AgentEvent::Model(ModelEvent::Text(piece)) => self.piece(ChunkKind::Said, piece),
            AgentEvent::Model(ModelEvent::Thinking(piece)) => self.piece(ChunkKind::Thought, piece),
            AgentEvent::Block(it) => self.block(&it.block, &it.message_id),
            AgentEvent::Progress(it) => self.progress(it, at),
            AgentEvent::ResultLogged { answered, .. } => {
                let (report, failed) = (&answered.report, answered.report.error.is_some());
                self.ended(&report.id, &report.content, failed, report.data.as_ref(), changes)
            }
            AgentEvent::Withdrawn(it) => self.withdrawn(&it.message_id),
            AgentEvent::Retrying(it) => {
                let mut out = self.forget_answer();
                let words = format!("asking again ({} of {}): {}", it.attempt, it.most, it.reason);
                out.extend(self.notice("warning", &words));
                out
            }
            AgentEvent::Compacted(_) => self.compacted(&uuid::Uuid::new_v4().to_string()),
            AgentEvent::Notice(words) => self.notice("info", words),
            _ => Vec::new(),
        }
    }

    fn piece<'a>(&'a mut self, voice: ChunkKind, piece: &'a str) -> Vec<AcpUpdate<'a>> {
        if piece.is_empty() {
            return Vec::new();
        }
        self.streamed.push_str(piece);
        vec![said(voice, piece, self.answer.as_str())]
    }

    /// Handles a complete block: sends the part that was not streamed.
    pub(crate) fn block<'a>(
        &'a mut self,
        block: &'a MessageBlock,
        message_id: &'a str,
    ) -> Vec<AcpUpdate<'a>> {
        let streamed = std::mem::take(&mut self.streamed);
        let rest = |voice: ChunkKind, words: &'a str| {
            let rest = words.strip_prefix(streamed.as_str()).unwrap_or_default();
            parts(rest).map(|part| said(voice, part, message_id)).collect()
        };
        match block {
            MessageBlock::Text { text } => rest(ChunkKind::Said, text),
            MessageBlock::Thinking { thinking, .. } => rest(ChunkKind::Thought, thinking),
            MessageBlock::ToolUse(call) => vec![AcpUpdate::ToolCall(self.called(call))],
            _ => Vec::new(),
        }
    }

    fn called<'a>(&'a mut self, call: &'a ToolUse) -> CallAnnounced<'a> {
        let open = OpenCall { look: self.looks.look(call), told: None, child: Vec::new() };
        let open = self.open_calls.entry(call.id.clone()).insert_entry(open).into_mut();
        open.look.announced(call)
    }

    /// Sends a note that a displayed answer is discarded, because editors cannot remove text.
    fn withdrawn<'a>(&mut self, message_id: &'a str) -> Vec<AcpUpdate<'a>> {
        self.streamed.clear();
        let words = "\n\n*The answer broke off here and does not count.*\n\n";
        vec![said(ChunkKind::Said, words, message_id)]
    }

    /// Ends the calls of a discarded answer; they are announced again under other ids.
    fn forget_answer(&mut self) -> Vec<AcpUpdate<'static>> {
        self.streamed.clear();
        let failed = |(id, _): (CallId, OpenCall)| {
            let words = text_block("The answer broke off and is asked for again.");
            let update = AcpUpdate::ToolCallUpdate(CallChange::new(&id, "failed").showing(words));
            AcpUpdate::Other(update.into_value())
        };
        self.open_calls.drain().map(failed).collect()
    }

    fn progress<'a>(&mut self, event: &'a ProgressEvent, at: SystemTime) -> Vec<AcpUpdate<'a>> {
        let Some(open) = self.open_calls.get_mut(&event.call_id) else { return Vec::new() };
        let since = open.told.and_then(|told| at.duration_since(told).ok());
        if since.is_some_and(|it| it < PROGRESS_PACE) {
            return Vec::new();
        }
        open.told = Some(at);
        let mut update = CallChange::new(&event.call_id, "in_progress");
        let tail = event.data["tail"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let tail: Vec<&str> = tail.collect();
        if !tail.is_empty() {
            let tail = tail.join("\n");
            update = update.showing(text_block(fenced(text::tail(&tail, 16_000))));
        }
        vec![AcpUpdate::ToolCallUpdate(update)]
    }

    /// Handles the end of a call, for both the event and the log line.
    pub(crate) fn ended<'a>(
        &mut self,
        call: &'a CallId,
        content: &'a Content,
        failed: bool,
        data: Option<&Value>,
        mut changes: Vec<Value>,
    ) -> Vec<AcpUpdate<'a>> {
        let look = self.open_calls.remove(call).map(|it| it.look).unwrap_or_default();
        let mut update = CallChange::new(call, if failed { "failed" } else { "completed" });
        let diffs: Vec<Value> = match look.command {
            // The journal has the complete change.
            None if !changes.is_empty() => std::mem::take(&mut changes),
            _ => data.filter(|_| !failed).map(diffs::of_data).unwrap_or_default(),
        };
        let mut shown: Vec<CallContent<'a>> = diffs.into_iter().map(CallContent::Other).collect();
        if shown.is_empty() {
            let is_printed = matches!(look.kind, "execute" | "read" | "search");
            shown = of_result(content, is_printed);
            shown.extend(changes.into_iter().map(CallContent::Other));
        }
        update.content = Some(shown);
        if let Some(line) = data.and_then(diffs::first_line)
            && let [path] = look.paths.as_slice()
        {
            let path = path.to_string_lossy().into_owned().into();
            update.locations = vec![CallLocation { path, line: Some(line) }];
        }
        let mut updates = vec![AcpUpdate::ToolCallUpdate(update)];
        updates.extend(data.filter(|_| !failed).and_then(plan).map(AcpUpdate::Other));
        updates
    }

    /// Converts text that was shown beside the conversation, from the log.
    pub(crate) fn shown<'a>(&mut self, line: &'a ShownLine) -> Vec<AcpUpdate<'a>> {
        let message = match line.why {
            ShownReason::BrokenOff | ShownReason::Interrupted => line.name.clone(),
            ShownReason::Command | ShownReason::Ended => beside(Some(&line.name)),
        };
        let mut out = Vec::new();
        if !line.typed.is_empty() {
            out.push(typed_by_person(text_block(line.typed.as_str()), &line.name));
        }
        out.extend(line.pieces.iter().map(|piece| piece_update(piece, message.clone())));
        if line.why == ShownReason::BrokenOff {
            out.extend(self.withdrawn(&line.name));
        }
        out
    }

    /// Shows the activity of a sub-agent on the call that started it.
    fn child<'a>(&mut self, event: &AgentEvent, parent: Option<&'a CallId>) -> Vec<AcpUpdate<'a>> {
        let (AgentEvent::Block(it), Some(parent)) = (event, parent) else { return Vec::new() };
        let MessageBlock::ToolUse(call) = &it.block else { return Vec::new() };
        let title = self.looks.look(call).title;
        let Some(open) = self.open_calls.get_mut(parent) else { return Vec::new() };
        open.child.push(text::one_line(&title, 160));
        let skipped = open.child.len().saturating_sub(CHILD_LINES);
        let lines = open.child[skipped..].join("\n");
        let update = CallChange::new(parent, "in_progress").showing(text_block(fenced(&lines)));
        vec![AcpUpdate::ToolCallUpdate(update)]
    }

    /// Builds a notice to the user, if the editor supports notices.
    fn notice(&self, severity: &str, words: &str) -> Vec<AcpUpdate<'static>> {
        tracing::info!(severity, words, "notice");
        if !self.abilities.notices {
            return Vec::new();
        }
        let title = text::one_line(words, 120);
        let mut update = json!({"sessionUpdate": "notice", "severity": severity, "title": title});
        if title != words {
            update["description"] = json!(words);
        }
        vec![AcpUpdate::Other(update)]
    }

    /// Reports a compaction of the conversation.
    pub(crate) fn compacted(&self, id: &str) -> Vec<AcpUpdate<'static>> {
        if !self.abilities.compaction {
            return Vec::new();
        }
        let update = json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": "completed"});
        vec![AcpUpdate::Other(update)]
    }
}

/// Splits a text into parts that fit into one update.
fn parts(words: &str) -> impl Iterator<Item = &str> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let part = Some(text::head(rest, MAX_PART_BYTES / 4)).filter(|it| !it.is_empty()).unwrap_or(rest);
        rest = &rest[part.len()..];
        (!part.is_empty()).then_some(part)
    })
}

/// Builds a message chunk for model output. An empty `message` means the chunk has no message id.
fn said<'a>(
    voice: ChunkKind,
    words: impl Into<Cow<'a, str>>,
    message: impl Into<Cow<'a, str>>,
) -> AcpUpdate<'a> {
    let message_id = Some(message.into()).filter(|it| !it.is_empty());
    voice.update(ChunkUpdate { content: text_block(words), message_id })
}

/// Derives a session title from the first message.
pub(crate) fn title_of(words: &str) -> String {
    text::one_line(words, 80)
}

/// Builds a chunk for a user message, for a replay.
pub(crate) fn user_message<'a>(block: &'a MessageBlock, name: &'a str) -> Option<AcpUpdate<'a>> {
    chunk_content(block).map(|content| typed_by_person(content, name))
}

fn typed_by_person<'a>(content: ContentBlock<'a>, name: &'a str) -> AcpUpdate<'a> {
    AcpUpdate::UserMessageChunk(ChunkUpdate { content, message_id: Some(name.into()) })
}

/// Returns the plan in a structured result, if it contains one.
fn plan(data: &Value) -> Option<Value> {
    let status = |item: &Value| match item["status"].as_str() {
        Some("completed") => "completed",
        Some("in_progress") => "in_progress",
        _ => "pending",
    };
    let entries: Vec<Value> = data["newTodos"]
        .as_array()?
        .iter()
        .map(|it| {
            let words = it["content"].as_str().unwrap_or_default();
            json!({"content": words, "priority": "medium", "status": status(it)})
        })
        .collect();
    Some(json!({"sessionUpdate": "plan", "entries": entries}))
}

/// Builds the update with the use of the context window and the total cost.
pub(crate) fn usage_update(last: &Usage, window: u64, usd: Option<f64>) -> Value {
    let used = last.total_input() + last.output_tokens;
    let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": window});
    if let Some(usd) = usd {
        update["cost"] = json!({"amount": usd, "currency": "USD"});
    }
    update
}

/// Returns the message id of text beside the conversation, derived from its prompt.
fn beside(prompt: Option<&String>) -> String {
    prompt.filter(|it| !it.is_empty()).map(|it| format!("{it}-beside")).unwrap_or_default()
}

/// Converts a part of what is shown beside the conversation.
fn piece_update<'a>(piece: &ShownContent, message: String) -> AcpUpdate<'a> {
    let (voice, words) = match piece {
        ShownContent::Thought(words) => (ChunkKind::Thought, words.clone()),
        ShownContent::Said(words) => (ChunkKind::Said, words.clone()),
        ShownContent::Printed(words) => (ChunkKind::Said, fenced(words)),
    };
    said(voice, words, message)
}

/// Builds the response to a prompt request.
pub(crate) fn turn_answer(end: &TurnEnd) -> PromptResponse {
    let reason = match &end.reason {
        EndReason::Completed
        | EndReason::Stopped(_)
        | EndReason::NoProgress(_)
        | EndReason::Incomplete(_)
        | EndReason::NoStructuredOutput(_) => "end_turn",
        EndReason::Exhausted(_) => "max_turn_requests",
        EndReason::Interrupted => "cancelled",
        EndReason::OutputTruncated => "max_tokens",
        EndReason::Refused => "refusal",
        EndReason::Failed(error) => {
            let is_login = matches!(error, ModelError::Auth { .. });
            let words = error.to_string();
            return Err(if is_login {
                AcpError::new(AUTH_REQUIRED, words)
            } else {
                AcpError::internal(words)
            });
        }
    };
    Ok(json!({"stopReason": reason}))
}
