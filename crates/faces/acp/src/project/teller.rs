//! Events of a session, as updates.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use haft_agent::{
    AgentEvent, EndReason, TurnEnd,
    log::{ShownLine, ShownPiece, ShownWhy},
};
use haft_model::{Event, ModelError};
use haft_session::{Happening, SessionEvent};
use haft_tool::ProgressEvent;
use haft_types::{AgentId, CallId, Content, MessageBlock, ToolUse, Usage, text};
use serde_json::{Value, json};

use super::{
    calls::{CallLook, CallLooks, call_update},
    content::{chunk_content, fenced, of_call, of_result, text_block},
    diffs,
};
use crate::{
    client::ClientAbilities,
    wire::{AUTH_REQUIRED, AcpError},
};

/// How often what a command prints is told at most.
const PROGRESS_PACE: Duration = Duration::from_millis(50);

/// Lines of a child's work that are shown on the call that began it.
const CHILD_LINES: usize = 12;

/// Longest part of a text that is told at once, in bytes.
const LONGEST_PART: usize = 200_000;

/// Makes updates of what one session does.
pub(crate) struct UpdateTeller {
    pub(crate) looks: CallLooks,
    abilities: ClientAbilities,
    /// The answer that is coming in, as its provider calls it.
    answer: String,
    /// What of the current block was told already.
    streamed: String,
    /// Calls that have no result yet.
    open_calls: HashMap<CallId, OpenCall>,
}

struct OpenCall {
    look: CallLook,
    /// When its progress was told last.
    told: Option<SystemTime>,
    /// What a child does for it.
    child: Vec<String>,
}

/// How a prompt ended, for the editor.
pub(crate) type TurnAnswer = Result<Value, AcpError>;

/// Which kind of words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ChunkVoice {
    Said,
    Thought,
}

impl ChunkVoice {
    fn update(self) -> &'static str {
        match self {
            Self::Said => "agent_message_chunk",
            Self::Thought => "agent_thought_chunk",
        }
    }
}

impl UpdateTeller {
    pub(crate) fn new(looks: CallLooks, abilities: ClientAbilities) -> Self {
        Self { looks, abilities, answer: String::new(), streamed: String::new(), open_calls: HashMap::new() }
    }

    /// What a call is about, if it has no result yet.
    pub(crate) fn open_call(&self, call: &CallId) -> Option<&CallLook> {
        self.open_calls.get(call).map(|it| &it.look)
    }

    /// The updates of an event, in order. `changes` are the diffs of what a
    /// command changed, for the event of its result.
    pub(crate) fn of(&mut self, event: &SessionEvent, changes: Vec<Value>) -> Vec<Value> {
        match &event.what {
            Happening::Agent(it) if event.agent == AgentId::Main => self.agent(it, event.at, changes),
            Happening::Agent(it) => self.child(it, event.parent_call.as_ref()),
            Happening::Notice(words) => self.notice("info", words),
            Happening::Renamed(title) => {
                vec![json!({"sessionUpdate": "session_info_update", "title": title})]
            }
            Happening::Cleared(id) => {
                let words = format!("The conversation begins anew, as session {id}; the old one stays.");
                vec![said(ChunkVoice::Said, &words, None)]
            }
            Happening::CommandEnded(it) => {
                let name = beside(it.facts.prompts.first());
                it.result.shown().iter().map(|piece| piece_update(piece, &name)).collect()
            }
            Happening::TurnEnded(it) => {
                let name = beside(it.facts.prompts.first());
                let remark = it.end.reason.remark().map(ShownPiece::Said);
                remark.iter().map(|piece| piece_update(piece, &name)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn agent(&mut self, event: &AgentEvent, at: SystemTime, changes: Vec<Value>) -> Vec<Value> {
        match event {
            AgentEvent::Model(Event::Started { id, .. }) => {
                self.answer.clone_from(id);
                self.streamed.clear();
                Vec::new()
            }
            AgentEvent::Model(Event::Text(piece)) => self.piece(ChunkVoice::Said, piece),
            AgentEvent::Model(Event::Thinking(piece)) => self.piece(ChunkVoice::Thought, piece),
            AgentEvent::Block(it) => self.block(&it.block, &it.message_id),
            AgentEvent::Progress(it) => self.progress(it, at),
            AgentEvent::Result(it) => {
                let (report, failed) = (&it.report, it.report.error.is_some());
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

    fn piece(&mut self, voice: ChunkVoice, piece: &str) -> Vec<Value> {
        if piece.is_empty() {
            return Vec::new();
        }
        self.streamed.push_str(piece);
        vec![said(voice, piece, Some(&self.answer))]
    }

    /// A block is complete: what of it was not told piece by piece is told now.
    pub(crate) fn block(&mut self, block: &MessageBlock, message_id: &str) -> Vec<Value> {
        let streamed = std::mem::take(&mut self.streamed);
        let rest = |voice: ChunkVoice, words: &str| {
            let rest = words.strip_prefix(streamed.as_str()).unwrap_or_default();
            parts(rest).map(|part| said(voice, part, Some(message_id))).collect()
        };
        match block {
            MessageBlock::Text { text } => rest(ChunkVoice::Said, text),
            MessageBlock::Thinking { thinking, .. } => rest(ChunkVoice::Thought, thinking),
            MessageBlock::ToolUse(call) => vec![self.called(call)],
            _ => Vec::new(),
        }
    }

    fn called(&mut self, call: &ToolUse) -> Value {
        let look = self.looks.look(call);
        let update = look.announced(call);
        self.open_calls.insert(call.id.clone(), OpenCall { look, told: None, child: Vec::new() });
        update
    }

    /// Nothing takes back what an editor shows: a line below says that it does
    /// not count.
    fn withdrawn(&mut self, message_id: &str) -> Vec<Value> {
        self.streamed.clear();
        let words = "\n\n*The answer broke off here and does not count.*\n\n";
        vec![said(ChunkVoice::Said, words, Some(message_id))]
    }

    /// Calls of an answer that broke off come again under other names.
    fn forget_answer(&mut self) -> Vec<Value> {
        self.streamed.clear();
        let lost: Vec<CallId> = self.open_calls.drain().map(|(id, _)| id).collect();
        let failed = |id: &CallId| {
            let mut update = call_update(id, "failed");
            update["content"] = json!([of_call(text_block("The answer broke off and is asked for again."))]);
            update
        };
        lost.iter().map(failed).collect()
    }

    fn progress(&mut self, event: &ProgressEvent, at: SystemTime) -> Vec<Value> {
        let Some(open) = self.open_calls.get_mut(&event.call_id) else { return Vec::new() };
        let since = open.told.and_then(|told| at.duration_since(told).ok());
        if since.is_some_and(|it| it < PROGRESS_PACE) {
            return Vec::new();
        }
        open.told = Some(at);
        let mut update = call_update(&event.call_id, "in_progress");
        let tail = event.data["tail"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let tail: Vec<&str> = tail.collect();
        if !tail.is_empty() {
            let tail = tail.join("\n");
            update["content"] = json!([of_call(text_block(&fenced(text::tail(&tail, 16_000))))]);
        }
        vec![update]
    }

    /// A call is done. The same for the event and for the line of the log.
    pub(crate) fn ended(
        &mut self,
        call: &CallId,
        content: &Content,
        failed: bool,
        data: Option<&Value>,
        mut changes: Vec<Value>,
    ) -> Vec<Value> {
        let look = self.open_calls.remove(call).map(|it| it.look).unwrap_or_default();
        let mut update = call_update(call, if failed { "failed" } else { "completed" });
        let mut shown: Vec<Value> = match look.command {
            // What the record of changes knows is whole.
            None if !changes.is_empty() => std::mem::take(&mut changes),
            _ => data.filter(|_| !failed).map(diffs::of_data).unwrap_or_default(),
        };
        if shown.is_empty() {
            let is_printed = matches!(look.kind, "execute" | "read" | "search");
            shown = of_result(content, is_printed);
            shown.extend(changes);
        }
        update["content"] = Value::Array(shown);
        if let Some(line) = data.and_then(diffs::first_line)
            && let [path] = look.paths.as_slice()
        {
            update["locations"] = json!([{"path": path, "line": line}]);
        }
        let plan = data.filter(|_| !failed).and_then(plan);
        std::iter::once(update).chain(plan).collect()
    }

    /// What was shown beside the conversation, from the log.
    pub(crate) fn shown(&mut self, line: &ShownLine) -> Vec<Value> {
        let message = match line.why {
            ShownWhy::BrokenOff | ShownWhy::Interrupted => line.name.clone(),
            ShownWhy::Command | ShownWhy::Ended => beside(Some(&line.name)),
        };
        let typed = MessageBlock::Text { text: line.typed.clone() };
        let typed = person_said(&typed, &line.name).filter(|_| !line.typed.is_empty());
        let mut out: Vec<Value> = typed.into_iter().collect();
        out.extend(line.pieces.iter().map(|piece| piece_update(piece, &message)));
        if line.why == ShownWhy::BrokenOff {
            out.extend(self.withdrawn(&line.name));
        }
        out
    }

    /// What a child does is shown on the call that began it.
    fn child(&mut self, event: &AgentEvent, parent: Option<&CallId>) -> Vec<Value> {
        let (AgentEvent::Block(it), Some(parent)) = (event, parent) else { return Vec::new() };
        let MessageBlock::ToolUse(call) = &it.block else { return Vec::new() };
        let title = self.looks.look(call).title;
        let Some(open) = self.open_calls.get_mut(parent) else { return Vec::new() };
        open.child.push(text::one_line(&title, 160));
        let skipped = open.child.len().saturating_sub(CHILD_LINES);
        let lines = open.child[skipped..].join("\n");
        let mut update = call_update(parent, "in_progress");
        update["content"] = json!([of_call(text_block(&fenced(&lines)))]);
        vec![update]
    }

    /// Something the person should know, if the editor shows such things.
    pub(crate) fn notice(&self, severity: &str, words: &str) -> Vec<Value> {
        tracing::info!(severity, words, "notice");
        if !self.abilities.notices {
            return Vec::new();
        }
        let title = text::one_line(words, 120);
        let mut update = json!({"sessionUpdate": "notice", "severity": severity, "title": title});
        if title != words {
            update["description"] = json!(words);
        }
        vec![update]
    }

    /// The conversation was made shorter.
    pub(crate) fn compacted(&self, id: &str) -> Vec<Value> {
        if !self.abilities.compaction {
            return Vec::new();
        }
        vec![json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": "completed"})]
    }
}

/// A text in parts that a line can hold.
fn parts(words: &str) -> impl Iterator<Item = &str> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let part = Some(text::head(rest, LONGEST_PART / 4)).filter(|it| !it.is_empty()).unwrap_or(rest);
        rest = &rest[part.len()..];
        (!part.is_empty()).then_some(part)
    })
}

fn said(voice: ChunkVoice, words: &str, message: Option<&str>) -> Value {
    let mut update = json!({"sessionUpdate": voice.update(), "content": text_block(words)});
    if let Some(message) = message.filter(|it| !it.is_empty()) {
        update["messageId"] = json!(message);
    }
    update
}

/// What a session is called after what was said first.
pub(crate) fn title_of(words: &str) -> String {
    text::one_line(words, 80)
}

/// What the person said, for a session that is shown again.
pub(crate) fn person_said(block: &MessageBlock, name: &str) -> Option<Value> {
    let content = chunk_content(block)?;
    Some(json!({"sessionUpdate": "user_message_chunk", "content": content, "messageId": name}))
}

/// The plan that a structured result holds, if it holds one.
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

/// What fills the window, and what everything has cost.
pub(crate) fn usage_update(last: &Usage, window: u64, usd: Option<f64>) -> Value {
    let used = last.total_input() + last.output_tokens;
    let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": window});
    if let Some(usd) = usd {
        update["cost"] = json!({"amount": usd, "currency": "USD"});
    }
    update
}

/// What words are called that stand beside the conversation, after their prompt.
fn beside(prompt: Option<&String>) -> String {
    prompt.filter(|it| !it.is_empty()).map(|it| format!("{it}-beside")).unwrap_or_default()
}

/// A piece of what is shown beside the conversation.
fn piece_update(piece: &ShownPiece, message: &str) -> Value {
    let message = Some(message);
    match piece {
        ShownPiece::Thought(words) => said(ChunkVoice::Thought, words, message),
        ShownPiece::Said(words) => said(ChunkVoice::Said, words, message),
        ShownPiece::Printed(words) => said(ChunkVoice::Said, &fenced(words), message),
    }
}

/// What a prompt is answered with.
pub(crate) fn turn_answer(end: &TurnEnd) -> TurnAnswer {
    let reason = match &end.reason {
        EndReason::Completed
        | EndReason::Stopped(_)
        | EndReason::NoProgress(_)
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
