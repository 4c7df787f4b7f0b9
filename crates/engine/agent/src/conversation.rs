//! The conversation as sent in requests, and its log.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::ContextChange;
use haft_tool_runtime::CallLog;
use haft_types::{CallId, Content, Message, MessageBlock, Role, SessionId, Usage};
use serde_json::{Map, Value, json};

use crate::{
    Attachment, Masker, PreservedState, ResultsInContext, StoredPrefix,
    call_log_writer::CallLogWriter,
    log::{
        self, AttachmentLine, ContentForm, ConversationLine, LineHeader, LogEntry, LogFile, LogState,
        LogWriter, LoggedMessage, ReadReport, RequestLine, ResultStub, SystemLine, UnpaidAnswers, WriterLine,
    },
    logged_results::{shorten_texts, unchanged_results},
    unfinished_calls::{CallsInLog, ExternalCallStates},
};

/// Subtype of the log line that marks a compaction: the messages before it are replaced by those after
/// it.
pub(crate) const COMPACT_BOUNDARY: &str = "compact_boundary";

/// A conversation and its log.
///
/// **Invariant:** requests are derived from the log; messages are in both or in neither.
pub struct Conversation {
    pub(crate) session_id: SessionId,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) last_uuid: Option<String>,
    cwd: String,
    log: LogWriter,
    log_path: Option<PathBuf>,
    /// Results that were added while reading the log.
    pub(crate) settled: Vec<LogEntry>,
    /// Whether they were written to the log.
    settled_is_logged: bool,
    /// Fields added to every log line.
    stamp: Map<String, Value>,
    /// While reading a log: the position after each line, as number of messages and of blocks in the
    /// last one. A line whose parent is not the last line starts a branch there.
    pub(crate) ends: HashMap<String, (usize, usize)>,
    /// Ids of all calls ever made.
    calls: HashSet<CallId>,
    /// Results that are part of the next request.
    held: ResultsInContext,
    /// Results that were replaced by stubs.
    stubbed: HashSet<CallId>,
    /// Masks secrets in log lines.
    pub(crate) masker: Masker,
    /// Whether this is a sub-agent's conversation.
    pub(crate) is_sidechain: bool,
    /// While reading: epoch of the log's owner in the remote store, if there is one.
    pub(crate) epoch: Option<u64>,
}

/// What a resumed session restores, besides the conversation.
#[derive(Debug, Default)]
pub struct Restored {
    /// Context changes made by tools, in order.
    pub changes: Vec<ContextChange>,
    /// Total token usage.
    pub usage: Usage,
    /// Total cost in US dollars.
    pub usd: f64,
    /// Metadata that calls stored for a resumed session.
    pub meta: Vec<(CallId, Map<String, Value>)>,
    /// State that survives compactions.
    pub kept: PreservedState,
    /// System prompt and tools that requests began with.
    pub prefix: StoredPrefix,
    /// Number of answered requests.
    pub requests: u64,
    /// Provider id of the answer whose blocks were read last.
    last_answer: Option<String>,
    /// The last answered request.
    pub asked: Option<Box<RequestLine>>,
    /// Answers whose cost a killed process did not log.
    unpaid: UnpaidAnswers,
    pub(crate) calls: CallsInLog,
    /// Whether the last answer is complete.
    pub(crate) answer_is_whole: bool,
    /// Whether the parent of a result line is the line of its call, instead of the line before it.
    results_branch: bool,
    /// Number of old lines that were skipped because no request could contain them.
    pub left_out: usize,
    /// Statistics of reading the log.
    pub report: ReadReport,
}

impl Restored {
    /// Adds the cost of an answer. Totals are only written at the end of a prompt, so the last one may
    /// be missing.
    fn count(&mut self, asked: &RequestLine) {
        self.usage += asked.usage;
        self.usd += asked.usd.unwrap_or_default();
    }
}

/// A line to be added.
pub(crate) struct NewLogLine {
    pub(crate) uuid: String,
    pub(crate) message: Message,
    pub(crate) origin: MessageOrigin,
    pub(crate) tool_use_result: Option<Value>,
}

/// Author of a line.
pub(crate) enum MessageOrigin {
    /// The user, or a tool.
    User,
    /// The program, with the user role.
    Meta,
    /// The program, reporting an event such as the end of a sub-agent.
    Reported(Value),
    Model {
        model: String,
        id: String,
        usage: Usage,
    },
}

impl Conversation {
    /// Creates an empty conversation. Without a log, nothing is stored.
    pub fn new(session_id: SessionId, cwd: &Path, log: Option<LogFile>) -> Self {
        let mut conversation = Self {
            session_id,
            messages: Vec::new(),
            last_uuid: None,
            cwd: cwd.display().to_string(),
            log: LogWriter::default(),
            log_path: None,
            settled: Vec::new(),
            settled_is_logged: false,
            stamp: Map::new(),
            ends: HashMap::new(),
            calls: HashSet::new(),
            held: ResultsInContext::default(),
            stubbed: HashSet::new(),
            masker: Masker::default(),
            is_sidechain: false,
            epoch: None,
        };
        if let Some(log) = log {
            conversation.set_log(log);
        }
        conversation
    }

    /// Restores a conversation from a log, with `until` only up to and including the line with this
    /// uuid.
    pub fn resume(
        session_id: SessionId,
        cwd: &Path,
        from: &Path,
        until: Option<&str>,
    ) -> std::io::Result<(Self, Restored)> {
        Self::resume_with(session_id, cwd, from, until, &|_: &CallId| None)
    }

    /// Like [`Conversation::resume`]. Open calls at the end get a result, also in the log: it says that
    /// a started call may have had its effect, and that one that was not started had none. `seen`
    /// describes known effects of such calls, as text for the model without a final full stop.
    pub fn resume_with(
        session_id: SessionId,
        cwd: &Path,
        from: &Path,
        until: Option<&str>,
        seen: &dyn ExternalCallStates,
    ) -> std::io::Result<(Self, Restored)> {
        Self::resumed(Self::new(session_id, cwd, None), from, until, seen)
    }

    pub(crate) fn resumed(
        mut conversation: Self,
        from: &Path,
        until: Option<&str>,
        seen: &dyn ExternalCallStates,
    ) -> std::io::Result<(Self, Restored)> {
        let mut restored = Restored::default();
        let recent = match until {
            // The line may be anywhere, so the whole log is read.
            Some(_) => log::RecentEntries::default(),
            None => log::recent(from)?,
        };
        for state in recent.states {
            conversation.take(LogEntry::Haft(state), &mut restored);
        }
        if 0 < recent.left_out {
            restored.left_out = recent.left_out;
            conversation.begin_without(recent.first, recent.left_out, &mut restored);
        }
        let mut done = false;
        restored.report = log::read_from(from, recent.start, |entry| {
            if !done {
                done = until.is_some() && uuid_of(&entry) == until;
                conversation.take(entry, &mut restored);
            }
        })?;
        conversation.ends = HashMap::new();
        if until.is_none() {
            if let Some(unpaid) = restored.unpaid.end() {
                restored.count(&unpaid);
            }
            conversation.settle(&mut restored.calls, seen);
        }
        conversation.hold_again();
        Ok((conversation, restored))
    }

    /// A shared view of the results that are part of the next request.
    pub fn held(&self) -> ResultsInContext {
        self.held.clone()
    }

    fn hold_again(&self) {
        let results = self.messages.iter().flat_map(|message| &message.content);
        let ids = results.filter_map(|block| match block {
            MessageBlock::ToolResult { tool_use_id, .. } => Some(tool_use_id.clone()),
            _ => None,
        });
        let stubbed = self.stubbed.iter();
        let mut held: HashSet<CallId> = ids.collect();
        stubbed.for_each(|id| {
            held.remove(id);
        });
        self.held.set(held);
    }

    /// Adds fields to every log line from now on.
    pub fn stamp(&mut self, fields: Map<String, Value>) {
        self.stamp = fields;
    }

    /// Masks secrets in log lines from now on. Requests are not masked until the session is resumed.
    pub fn mask(&mut self, masker: Masker) {
        self.masker = masker;
    }

    /// Starts with these messages, which are not logged.
    pub fn begin_with(&mut self, messages: Vec<Message>) {
        self.messages = messages.into_iter().map(Arc::new).collect();
    }

    /// Sets the log to append to.
    pub fn set_log(&mut self, log: LogFile) {
        self.log_path = Some(log.path().to_owned());
        let owner = log.fence().map(crate::log::RemoteLogHandle::owner);
        let writer = WriterLine::of_this_process(self.session_id.as_str(), owner);
        self.log.attach(log, LogEntry::Haft(LogState::Writer(writer)));
        if !std::mem::replace(&mut self.settled_is_logged, true) {
            // Lines that cannot be written wait; the error is reported with the next line.
            self.log.write_down(&self.settled);
        }
    }

    /// Returns a writer that logs calls with side effects before they run. Without a log it allows all
    /// calls.
    pub fn witness(&self) -> Arc<dyn CallLog> {
        Arc::new(CallLogWriter { log: self.log.downgrade() })
    }

    /// Reports once that the log is writable again.
    pub(crate) fn take_recovery(&self) -> Option<String> {
        self.log.take_recovery()
    }

    /// A text about calls that did not run because the log could not be written.
    pub(crate) fn take_refused(&self) -> Option<String> {
        self.log.take_refused()
    }

    /// Collects log lines from now on for [`Conversation::take_mirrored`].
    pub fn mirror(&mut self) {
        self.log.mirror(&self.settled);
    }

    /// Whether log lines are collected.
    pub fn is_mirrored(&self) -> bool {
        self.log.is_mirrored()
    }

    /// Takes the log lines since the last call.
    pub fn take_mirrored(&mut self) -> Vec<LogEntry> {
        self.log.take_mirrored()
    }

    pub fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    pub fn log_path(&self) -> Option<&Path> {
        self.log_path.as_deref()
    }

    /// Whether a call with this id was ever made.
    pub(crate) fn has_call(&self, id: &CallId) -> bool {
        self.calls.contains(id)
    }

    /// The messages of the next request.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The beginning is too long to be sent: only the user's first message and a note remain.
    fn begin_without(&mut self, first: Option<LogEntry>, left_out: usize, restored: &mut Restored) {
        if let Some(first) = first {
            self.take(first, restored);
        }
        self.join(Message::user(format!(
            "[The {left_out} steps that followed are left out: together they are too long. What was done then can be seen in the files.]"
        )));
    }

    fn take(&mut self, entry: LogEntry, restored: &mut Restored) {
        if let Some(unpaid) = restored.unpaid.take(&entry) {
            restored.count(&unpaid);
        }
        match entry {
            LogEntry::User(line) | LogEntry::Assistant(line)
                if line.head.is_sidechain == self.is_sidechain =>
            {
                // Logs of versions that did not count requests.
                if line.message.id.is_some() && line.message.id != restored.last_answer {
                    restored.requests += 1;
                    restored.last_answer.clone_from(&line.message.id);
                }
                self.branch_at(&line, &mut restored.results_branch);
                restored.calls.said(&line.message.message);
                restored.answer_is_whole &= line.message.message.role == Role::User;
                self.join(line.message.message);
                self.end_at(line.head.uuid);
            }
            LogEntry::Attachment(line) if line.head.is_sidechain == self.is_sidechain => {
                // Attachments of other programs have an unknown format.
                if let Ok(attachment) = serde_json::from_value::<Attachment>(line.attachment) {
                    self.join(attachment.message());
                }
                self.end_at(line.head.uuid);
            }
            LogEntry::System(line) if line.subtype == COMPACT_BOUNDARY => {
                self.last_uuid = Some(line.head.uuid);
                self.messages.clear();
                self.ends.clear();
            }
            LogEntry::System(line) if line.head.is_sidechain == self.is_sidechain => {
                self.end_at(line.head.uuid)
            }
            LogEntry::Haft(LogState::Writer(writer)) => restored.calls.writer(writer),
            LogEntry::Haft(LogState::Started(line)) => restored.calls.started(*line),
            LogEntry::Haft(LogState::Call(line)) => restored.calls.done(&line),
            LogEntry::Haft(LogState::Changes { changes }) => restored.changes.extend(changes),
            LogEntry::Haft(LogState::Stubs { stubs }) => self.apply_stubs(&stubs),
            LogEntry::Haft(LogState::Kept { kept }) => restored.kept = *kept,
            LogEntry::Haft(LogState::Meta { call, meta }) => restored.meta.push((call, meta)),
            LogEntry::Haft(LogState::Asked(asked)) => {
                restored.requests = asked.request;
                restored.answer_is_whole |= asked.purpose == log::RequestPurpose::Answer;
                restored.count(&asked);
                if asked.sent.is_some() {
                    restored.asked = Some(asked);
                }
            }
            LogEntry::Haft(LogState::Prompt { prompt }) => {
                (restored.prefix.prompt, restored.prefix.told) = (Some(prompt), None);
            }
            LogEntry::Haft(LogState::Told { prompt }) => restored.prefix.told = Some(prompt),
            LogEntry::Haft(LogState::Tools { tools }) => restored.prefix.tools = tools,
            LogEntry::Haft(LogState::MoreTools { tools }) => restored.prefix.tools.extend(tools),
            LogEntry::Haft(LogState::Cost { usage, usd }) => (restored.usage, restored.usd) = (usage, usd),
            _ => (),
        }
    }

    /// Merges consecutive lines of the same role into one message.
    fn join(&mut self, message: Message) {
        for block in &message.content {
            if let MessageBlock::ToolUse(call) = block {
                self.calls.insert(call.id.clone());
            }
        }
        match self.messages.last_mut() {
            Some(last) if last.role == message.role => {
                let content = &mut Arc::make_mut(last).content;
                for block in message.content {
                    // A deferred call that was run later has two results; the later one counts.
                    match content.iter_mut().find(|it| answers_the_same(it, &block)) {
                        Some(earlier) => *earlier = block,
                        None => content.push(block),
                    }
                }
            }
            _ => self.messages.push(Arc::new(message)),
        }
    }

    /// Adds lines to conversation and log. If the log cannot be written, the first failure is returned
    /// as an error; the conversation continues and the lines wait.
    pub(crate) fn add(&mut self, lines: Vec<NewLogLine>) -> std::io::Result<()> {
        self.add_with(lines, Vec::new())
    }

    /// Like [`Conversation::add`], with state entries in the same write.
    pub(crate) fn add_with(&mut self, lines: Vec<NewLogLine>, states: Vec<LogState>) -> std::io::Result<()> {
        let mut entries = self.entries(lines);
        entries.extend(states.into_iter().map(LogEntry::Haft));
        self.write(entries)
    }

    /// Adds lines to the conversation and returns their log entries.
    pub(crate) fn entries(&mut self, lines: Vec<NewLogLine>) -> Vec<LogEntry> {
        let mut entries = Vec::new();
        for line in lines {
            let head = self.head(line.uuid);
            let (model, id, usage) = match &line.origin {
                MessageOrigin::Model { model, id, usage } => {
                    (Some(model.clone()), Some(id.clone()), Some(*usage))
                }
                MessageOrigin::User | MessageOrigin::Meta | MessageOrigin::Reported(_) => (None, None, None),
            };
            let form = match (&line.origin, line.message.content.as_slice()) {
                (MessageOrigin::User, [MessageBlock::Text { .. }]) => ContentForm::Text,
                _ => ContentForm::Blocks,
            };
            let mut message = line.message.clone();
            self.masker.mask_message(&mut message);
            let mut tool_use_result = line.tool_use_result;
            if let Some(value) = &mut tool_use_result {
                shorten_texts(value);
                self.masker.mask_value(value);
            }
            let mut rest = self.stamp.clone();
            if let MessageOrigin::Reported(origin) = &line.origin {
                rest.insert(String::from("origin"), origin.clone());
            }
            let logged = ConversationLine {
                head,
                message: LoggedMessage { message, form, model, id, usage },
                is_meta: matches!(line.origin, MessageOrigin::Meta | MessageOrigin::Reported(_)),
                tool_use_result,
                rest,
            };
            entries.push(match line.message.role {
                Role::User => LogEntry::User(logged),
                Role::Assistant => LogEntry::Assistant(logged),
            });
            for block in &line.message.content {
                if let MessageBlock::ToolResult { tool_use_id, .. } = block {
                    self.held.add(tool_use_id.clone());
                }
            }
            self.join(line.message);
        }
        entries
    }

    /// Adds an attachment of a prompt to conversation and log.
    pub(crate) fn attach(&mut self, attachment: &Attachment) -> std::io::Result<()> {
        let head = self.head(uuid());
        let mut shown = json!(attachment);
        self.masker.mask_value(&mut shown);
        self.join(attachment.message());
        let rest = self.stamp.clone();
        self.write(vec![LogEntry::Attachment(AttachmentLine { head, attachment: shown, rest })])
    }

    /// Logs a state entry.
    pub(crate) fn note(&mut self, state: LogState) -> std::io::Result<()> {
        if matches!(state, LogState::Prompt { .. } | LogState::Told { .. }) && self.has_secrets(&state) {
            // A masked prompt would differ from the one that was sent, so it is not logged.
            return Ok(());
        }
        self.write(vec![LogEntry::Haft(state)])
    }

    fn has_secrets(&self, state: &LogState) -> bool {
        let Ok(plain) = serde_json::to_value(state) else { return true };
        let mut masked = plain.clone();
        self.masker.mask_value(&mut masked);
        masked != plain
    }

    /// Names the session.
    pub(crate) fn name(&mut self, title: &str) -> std::io::Result<()> {
        let session_id = self.session_id.to_string();
        self.write(vec![LogEntry::CustomTitle { custom_title: title.to_owned(), session_id }])
    }

    /// Replaces results by stubs; the log keeps the full results.
    pub(crate) fn shorten_results(&mut self, stubs: Vec<ResultStub>) -> std::io::Result<()> {
        self.apply_stubs(&stubs);
        self.note(LogState::Stubs { stubs })
    }

    fn apply_stubs(&mut self, stubs: &[ResultStub]) {
        let texts: HashMap<&CallId, &str> = stubs.iter().map(|it| (&it.call, it.text.as_str())).collect();
        let is_meant = |block: &MessageBlock| matches!(block, MessageBlock::ToolResult { tool_use_id, .. } if texts.contains_key(tool_use_id));
        for message in &mut self.messages {
            if !message.content.iter().any(is_meant) {
                continue;
            }
            for block in &mut Arc::make_mut(message).content {
                if let MessageBlock::ToolResult { tool_use_id, content, .. } = block
                    && let Some(text) = texts.get(tool_use_id)
                {
                    *content = Content::text(*text);
                    self.held.remove(tool_use_id);
                    self.stubbed.insert(tool_use_id.clone());
                }
            }
        }
    }

    /// Replaces all messages.
    pub(crate) fn replace(&mut self, messages: Vec<Message>, metadata: Value) -> std::io::Result<()> {
        let mut rest = Map::new();
        rest.insert("compactMetadata".to_owned(), metadata);
        let head = self.head(uuid());
        self.write(vec![LogEntry::System(SystemLine { head, subtype: COMPACT_BOUNDARY.to_owned(), rest })])?;
        let before = std::mem::take(&mut self.messages);
        self.held.set(HashSet::new());
        let stays = unchanged_results(&before, &messages);
        let lines = messages.into_iter().map(|message| NewLogLine {
            uuid: uuid(),
            message,
            origin: MessageOrigin::Meta,
            tool_use_result: None,
        });
        let added = self.add(lines.collect());
        // Results that became stubs are no longer part of the request.
        self.held.set(stays);
        added
    }

    /// The last text of the model.
    pub(crate) fn last_text(&self) -> String {
        let last = self.messages.iter().rev().find(|message| message.role == Role::Assistant);
        let texts = last.into_iter().flat_map(|message| &message.content).filter_map(|block| match block {
            MessageBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("")
    }

    fn head(&mut self, uuid: String) -> LineHeader {
        let parent_uuid = self.last_uuid.replace(uuid.clone());
        LineHeader {
            uuid,
            parent_uuid,
            session_id: self.session_id.to_string(),
            timestamp: log::timestamp::now(),
            cwd: self.cwd.clone(),
            is_sidechain: self.is_sidechain,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn write(&self, entries: Vec<LogEntry>) -> std::io::Result<()> {
        self.log.append(entries)
    }
}

fn answers_the_same(a: &MessageBlock, b: &MessageBlock) -> bool {
    match (a, b) {
        (
            MessageBlock::ToolResult { tool_use_id: a, .. },
            MessageBlock::ToolResult { tool_use_id: b, .. },
        ) => a == b,
        _ => false,
    }
}

/// A new random uuid for a line.
pub(crate) fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn uuid_of(entry: &LogEntry) -> Option<&str> {
    match entry {
        LogEntry::User(line) | LogEntry::Assistant(line) => Some(&line.head.uuid),
        LogEntry::System(line) => Some(&line.head.uuid),
        LogEntry::Attachment(line) => Some(&line.head.uuid),
        LogEntry::Haft(_) | LogEntry::CustomTitle { .. } => None,
    }
}

/// Metadata of a compaction, in the format of the Agent SDKs.
pub(crate) fn compact_metadata(trigger: &str, tokens_before: u64) -> Value {
    json!({"trigger": trigger, "preTokens": tokens_before})
}
