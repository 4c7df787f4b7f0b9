//! The conversation as the next request holds it, and the log it comes from.

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

/// The mark that everything before it is summed up in what follows.
pub(crate) const COMPACT_BOUNDARY: &str = "compact_boundary";

/// The conversation and its log.
///
/// **Invariant:** what is sent is derived from what is logged; nothing is in
/// the one that is not in the other.
pub struct Conversation {
    pub(crate) session_id: SessionId,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) last_uuid: Option<String>,
    cwd: String,
    log: LogWriter,
    log_path: Option<PathBuf>,
    /// Results that reading the log added.
    pub(crate) settled: Vec<LogEntry>,
    /// Whether they are in the log too.
    settled_is_logged: bool,
    /// What every line says beside the rest.
    stamp: Map<String, Value>,
    /// Where lines of a log that is being read end: messages, and blocks of the
    /// last one. A line that follows an earlier one than the last begins a
    /// branch there.
    pub(crate) ends: HashMap<String, (usize, usize)>,
    /// The ids of all calls there ever were.
    calls: HashSet<CallId>,
    /// Which results are in the next request.
    held: ResultsInContext,
    /// Which of them are only stubs.
    stubbed: HashSet<CallId>,
    /// Keeps secrets out of the log.
    pub(crate) masker: Masker,
    /// Whether it is the conversation of an agent that another one started.
    pub(crate) is_sidechain: bool,
    /// Whose the log is to the store its lines go to as well, while it is read.
    pub(crate) epoch: Option<u64>,
}

/// What a resumed session brings back beside its conversation.
#[derive(Debug, Default)]
pub struct Restored {
    /// Changes tools made, in order.
    pub changes: Vec<ContextChange>,
    /// What everything had cost.
    pub usage: Usage,
    /// And in money.
    pub usd: f64,
    /// What calls left behind for the next time.
    pub meta: Vec<(CallId, Map<String, Value>)>,
    /// What outlives compactions.
    pub kept: PreservedState,
    /// What every request began with.
    pub prefix: StoredPrefix,
    /// How many requests were answered.
    pub requests: u64,
    /// The answer whose blocks were read last.
    last_answer: Option<String>,
    /// The last of them.
    pub asked: Option<Box<RequestLine>>,
    /// Answers that a killed process did not write down the cost of.
    unpaid: UnpaidAnswers,
    pub(crate) calls: CallsInLog,
    /// Whether the last answer is there as a whole.
    pub(crate) answer_is_whole: bool,
    /// Whether results follow their calls and not the line before them.
    results_branch: bool,
    /// Lines of the conversation that no request could hold any more.
    pub left_out: usize,
    /// What reading the log found.
    pub report: ReadReport,
}

impl Restored {
    /// Counts an answer. The sum is written when a prompt ends, and the last one may
    /// not have.
    fn count(&mut self, asked: &RequestLine) {
        self.usage += asked.usage;
        self.usd += asked.usd.unwrap_or_default();
    }
}

/// A line to be written.
pub(crate) struct NewLogLine {
    pub(crate) uuid: String,
    pub(crate) message: Message,
    pub(crate) origin: MessageOrigin,
    pub(crate) tool_use_result: Option<Value>,
}

/// Who a line comes from.
pub(crate) enum MessageOrigin {
    /// The person, or a tool.
    User,
    /// The program, in the person's place.
    Meta,
    /// The program, about something that ended or was sent; says what that was.
    Reported(Value),
    /// The model.
    Model { model: String, id: String, usage: Usage },
}

impl Conversation {
    /// An empty one; without a log nothing is kept.
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

    /// One that goes on from a log. With `until` only up to the line of that
    /// name.
    pub fn resume(
        session_id: SessionId,
        cwd: &Path,
        from: &Path,
        until: Option<&str>,
    ) -> std::io::Result<(Self, Restored)> {
        Self::resume_with(session_id, cwd, from, until, &|_: &CallId| None)
    }

    /// The same. Calls at the end that have no result get one, which the log
    /// gets too: a call that was said to start may have had its effect, and one
    /// that was not has none. `seen` says what is known about the effects of such
    /// a call, in words for the model without a full stop.
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
            // The line may be anywhere.
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

    /// Tells others which results are in the next request.
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

    /// Every line from now on says this about itself too.
    pub fn stamp(&mut self, fields: Map<String, Value>) {
        self.stamp = fields;
    }

    /// Masks secrets in what is written from now on. What is sent stays as it
    /// is, until the session is resumed.
    pub fn mask(&mut self, masker: Masker) {
        self.masker = masker;
    }

    /// Starts from these messages instead of nothing; they are not logged.
    pub fn begin_with(&mut self, messages: Vec<Message>) {
        self.messages = messages.into_iter().map(Arc::new).collect();
    }

    /// Goes on writing to this log.
    pub fn set_log(&mut self, log: LogFile) {
        self.log_path = Some(log.path().to_owned());
        let owner = log.fence().map(crate::log::RemoteLogHandle::owner);
        let writer = WriterLine::of_this_process(self.session_id.as_str(), owner);
        self.log.attach(log, LogEntry::Haft(LogState::Writer(writer)));
        if !std::mem::replace(&mut self.settled_is_logged, true) {
            // What cannot be written waits, and the person hears of it with the next line.
            self.log.write_down(&self.settled);
        }
    }

    /// Writes down calls that act before they run, in this log. Without a log it
    /// lets them run.
    pub fn witness(&self) -> Arc<dyn CallLog> {
        Arc::new(CallLogWriter { log: self.log.downgrade() })
    }

    /// Says once that a log that could not be written is written again.
    pub(crate) fn take_recovery(&self) -> Option<String> {
        self.log.take_recovery()
    }

    /// The calls that did not run because the log could not be written, in words.
    pub(crate) fn take_refused(&self) -> Option<String> {
        self.log.take_refused()
    }

    /// Keeps what is written from now on for [`Conversation::take_mirrored`].
    pub fn mirror(&mut self) {
        self.log.mirror(&self.settled);
    }

    /// Whether what is written is kept for somebody.
    pub fn is_mirrored(&self) -> bool {
        self.log.is_mirrored()
    }

    /// What was written since the last time.
    pub fn take_mirrored(&mut self) -> Vec<LogEntry> {
        self.log.take_mirrored()
    }

    /// The session.
    pub fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// Where the log is.
    pub fn log_path(&self) -> Option<&Path> {
        self.log_path.as_deref()
    }

    /// Whether a call with this id was ever made here.
    pub(crate) fn has_call(&self, id: &CallId) -> bool {
        self.calls.contains(id)
    }

    /// What the next request holds.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The beginning is too long to be sent: the person's first words and a note
    /// stand for it.
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
                // Others attach other things; what those said is not known here.
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

    /// Lines of the same speaker are one message: a block each for the model,
    /// a result each for tools.
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
                    // A call that was taken up again has one result: the later.
                    match content.iter_mut().find(|it| answers_the_same(it, &block)) {
                        Some(earlier) => *earlier = block,
                        None => content.push(block),
                    }
                }
            }
            _ => self.messages.push(Arc::new(message)),
        }
    }

    /// Adds lines to conversation and log. A log that cannot be written is
    /// reported once; the conversation goes on, and the lines wait.
    pub(crate) fn add(&mut self, lines: Vec<NewLogLine>) -> std::io::Result<()> {
        self.add_with(lines, Vec::new())
    }

    /// The same, and state that goes with them, in one write.
    pub(crate) fn add_with(&mut self, lines: Vec<NewLogLine>, states: Vec<LogState>) -> std::io::Result<()> {
        let mut entries = self.entries(lines);
        entries.extend(states.into_iter().map(LogEntry::Haft));
        self.write(entries)
    }

    /// Adds lines to the conversation; the entries are for the log.
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

    /// Shows what a prompt named; the log says what that was.
    pub(crate) fn attach(&mut self, attachment: &Attachment) -> std::io::Result<()> {
        let head = self.head(uuid());
        let mut shown = json!(attachment);
        self.masker.mask_value(&mut shown);
        self.join(attachment.message());
        let rest = self.stamp.clone();
        self.write(vec![LogEntry::Attachment(AttachmentLine { head, attachment: shown, rest })])
    }

    /// Keeps state that is not part of the conversation.
    pub(crate) fn note(&mut self, state: LogState) -> std::io::Result<()> {
        if matches!(state, LogState::Prompt { .. } | LogState::Told { .. }) && self.has_secrets(&state) {
            // Masked it would be another prompt: the next process makes its own.
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

    /// Gives the session a name.
    pub(crate) fn name(&mut self, title: &str) -> std::io::Result<()> {
        let session_id = self.session_id.to_string();
        self.write(vec![LogEntry::CustomTitle { custom_title: title.to_owned(), session_id }])
    }

    /// Results become shorter; the log says which, and keeps the long ones.
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

    /// Everything so far is replaced by these messages.
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
        // A result that became a stub is not in the request any more.
        self.held.set(stays);
        added
    }

    /// The text of the last thing the model said.
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

/// A fresh name for a line.
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

/// Facts about a compaction, in their public shape.
pub(crate) fn compact_metadata(trigger: &str, tokens_before: u64) -> Value {
    json!({"trigger": trigger, "preTokens": tokens_before})
}
