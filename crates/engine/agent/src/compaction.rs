//! Keeps the conversation within the context window: replaces results by stubs, then asks the model for
//! a summary, then generates shorter and shorter ones. Text of the user is never lost: if it is too
//! long, the model gets its ends and the path of a file with all of it.

use std::sync::Arc;

use futures_util::StreamExt as _;
use haft_hooks::{CompactTrigger, HookEvent, PreCompact};
use haft_model::{ModelEvent, ModelStream, Request, ToolChoice};
use haft_types::{Block, CallId, Content, Message, MessageBlock, Role, Usage, text};
use tokio_util::sync::CancellationToken;

use crate::{
    Agent, AgentEvent, CompactedEvent, Compaction,
    context_window::WindowMeasure,
    conversation::compact_metadata,
    log::{RequestPurpose, ResultStub},
};

/// Maximum characters of an old result that is not worth replacing by a stub.
const OLD_RESULT: usize = 1_600;

/// Number of characters of a result that a stub shows.
const PREVIEW_SIZE: usize = 600;

/// Number of messages at the end that are not changed.
const KEPT_MESSAGES: usize = 6;

/// Maximum characters of recent results; longer ones are replaced by stubs.
const RECENT_RESULT: usize = 20_000;

/// Maximum characters of results the model has not seen, when they must be shortened.
const UNSEEN_RESULT: usize = 4_000;

/// Estimated tokens of an image.
const MEDIA_TOKENS: u64 = 1_500;

/// The beginning of a result that the runtime has stored in a file.
const PREVIEW: &str = "[This result ha";

const SUMMARY: &str = "Summary of the conversation so far:";
const LAST_WORDS: &str = "The user's last message, word for word:";
const LONG_WORDS: &str = "The user's last message, which is too long to be shown whole:";
const GO_ON: &str = "Go on with the next step.";

/// The request for a summary.
pub(crate) const SUMMARY_REQUEST: &str = "\
Sum up this conversation so that you can go on working with nothing but your summary. \
Write down: what the user asked for, word for word where it matters; every rule and decision that still holds; \
the plan, with what is done and what comes next; files that were read or changed and what matters in them; \
what was tried and failed, and what was denied; commands and tasks that still run; open questions. \
Call no tool; write the summary only.";

/// The step from which on summaries are generated without a model.
const MECHANICAL: u32 = 3;

/// The last step, which keeps only what a request cannot do without.
const LAST_RUNG: u32 = 5;

/// How much free space is required.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RequiredRoom {
    /// Enough for the next request.
    Enough,
    /// Enough for several requests.
    ToWorkIn,
}

impl Agent {
    /// Compacts the conversation if the next request would nearly fill the window.
    pub(crate) async fn make_room(&mut self, cancel: &CancellationToken) {
        if self.fits(RequiredRoom::Enough) {
            return;
        }
        for rung in 1..=LAST_RUNG {
            tracing::info!(session = %self.conversation.session_id(), rung, "makes room in the window");
            // A step that frees little is not worth a prompt cache miss.
            if self.shorten(rung, cancel).await && self.fits(RequiredRoom::ToWorkIn) {
                return;
            }
            // The rest is mostly tools and instructions, which cannot be shortened.
            if MECHANICAL <= rung && self.fits(RequiredRoom::Enough) {
                return;
            }
        }
    }

    /// Compacts after a request that did not fit: tries further steps until one shortens the
    /// conversation.
    pub(crate) async fn shorten_further(&mut self, rung: &mut u32, cancel: &CancellationToken) -> bool {
        while *rung < LAST_RUNG {
            *rung += 1;
            if self.shorten(*rung, cancel).await {
                return true;
            }
        }
        false
    }

    /// Error message when nothing can be shortened any more.
    pub(crate) fn out_of_room(&mut self) -> String {
        let request = self.request();
        let (tokens, window) = (self.provider.estimate_tokens(&request), self.window());
        format!(
            "instructions, tools and the last message need about {tokens} tokens and do not fit the window of {} ({window}); \
             use a model with a larger window (--model) or fewer tools (--tools)",
            self.settings.model
        )
    }

    fn fits(&mut self, room: RequiredRoom) -> bool {
        let room_here = self.measure();
        match room {
            RequiredRoom::Enough => room_here.tokens <= room_here.enough,
            RequiredRoom::ToWorkIn => room_here.tokens <= room_here.to_work_in,
        }
    }

    /// Performs one step. Returns whether anything became shorter.
    pub(crate) async fn shorten(&mut self, step: u32, cancel: &CancellationToken) -> bool {
        let request = self.request();
        let before = self.provider.estimate_tokens(&request);
        let (written, how) = match step {
            1 => {
                let stubs = self.stubs().await;
                if stubs.is_empty() {
                    return false;
                }
                (self.conversation.shorten_results(stubs), Compaction::Stubs)
            }
            step => {
                let event = PreCompact { trigger: CompactTrigger::Auto, custom_instructions: None };
                self.hooks(HookEvent::PreCompact, event).await;
                self.kept.idle_compactions += 1;
                let size = SummarySize::for_rung(step);
                let summary = if step == 2 { self.summary(SUMMARY_REQUEST, cancel).await } else { None };
                let (summary, how) = match summary {
                    Some(summary) => (format!("{SUMMARY}\n\n{summary}"), Compaction::Summary),
                    None => (self.summed_up(size), Compaction::Mechanical),
                };
                let messages = self.rebuilt(&summary, size).await;
                (self.conversation.replace(messages, compact_metadata("auto", before)), how)
            }
        };
        if let Err(err) = written {
            self.tell(AgentEvent::Notice(format!("the session log could not be written: {err}")));
        }
        self.note_kept();
        self.renew(how);
        let request = self.request();
        let after = self.provider.estimate_tokens(&request);
        let trigger = CompactTrigger::Auto;
        self.tell(AgentEvent::Compacted(CompactedEvent {
            tokens_before: before,
            tokens_after: after,
            how,
            trigger,
        }));
        after < before
    }

    /// Replaces results by previews with the path of the whole text: as many as necessary, oldest first,
    /// those the model has not seen last.
    async fn stubs(&mut self) -> Vec<ResultStub> {
        let WindowMeasure { tokens, enough, to_work_in } = self.measure();
        let mut left = tokens;
        // The provider rejected the request although the estimate says that it fits.
        let (roomy, enough) =
            if tokens <= enough { (tokens * 4 / 5, tokens * 9 / 10) } else { (to_work_in, enough) };
        let messages = self.conversation.messages();
        let old = messages.len().saturating_sub(KEPT_MESSAGES);
        let seen = messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or(0);
        let mut stubs = Vec::new();
        for (idx, message) in messages.iter().enumerate() {
            let (least, goal) = match idx {
                idx if seen < idx => (UNSEEN_RESULT, enough),
                idx if idx < old => (OLD_RESULT, roomy),
                _ => (RECENT_RESULT, roomy),
            };
            for block in &message.content {
                let MessageBlock::ToolResult { content, tool_use_id, .. } = block else { continue };
                let media = content.0.iter().filter(|it| is_media(it)).count() as u64;
                let chars = content.chars();
                if left <= goal || !(least < chars || (idx < old && 0 < media)) {
                    continue;
                }
                stubs.push(ResultStub {
                    call: tool_use_id.clone(),
                    text: self.stub(tool_use_id, content).await,
                });
                let saved = chars.saturating_sub(PREVIEW_SIZE) as u64 * 10 / 33 + media * MEDIA_TOKENS;
                left = left.saturating_sub(saved);
            }
        }
        stubs
    }

    async fn stub(&self, call: &CallId, content: &Content) -> String {
        let pictures = content.0.iter().filter(|it| is_media(it)).count();
        let full = content.to_text();
        // A preview already names the file with the whole text.
        let mut short = if full.starts_with(PREVIEW) || full.chars().count() <= PREVIEW_SIZE {
            text::head(&full, PREVIEW_SIZE).to_owned()
        } else {
            let results = &self.tools.pipeline.results;
            let name = format!("{call}-shortened");
            results.fit(&name, Content::text(full), Some(PREVIEW_SIZE)).await.to_text()
        };
        if 0 < pictures {
            short.push_str(&format!(
                "\n[{pictures} pictures or documents were dropped to save room; call the tool again to see them]"
            ));
        }
        short
    }

    /// Requests a summary from the model. Returns `None` without a request if a single message does not
    /// fit.
    pub(crate) async fn summary(&mut self, wish: &str, cancel: &CancellationToken) -> Option<String> {
        let mut request = self.request();
        request.max_tokens = 4_000;
        let ask = Message::user(wish);
        request.messages.push(Arc::new(ask));
        let room = self.window().saturating_sub(u64::from(request.max_tokens)) * 9 / 10;
        let has_history = 2 < request.messages.len();
        if has_history && room < self.provider.estimate_tokens(&request) {
            shorten_texts(&mut request.messages, room);
        }
        while room < self.provider.estimate_tokens(&request) && 2 < request.messages.len() {
            // Drops an eighth of the messages at a time, from the beginning: the end matters most.
            let over = request.messages.len() / 8;
            request.messages.drain(..over.max(1));
        }
        if room < self.provider.estimate_tokens(&request) {
            tracing::info!(session = %self.conversation.session_id(), room, "no summary: it does not fit");
            return None;
        }
        // With the same settings as other requests: forbidding tool calls would miss the prompt cache
        // and bill the whole conversation again.
        for choice in [ToolChoice::Auto, ToolChoice::None] {
            let mut used = Usage::default();
            tracing::debug!(session = %self.conversation.session_id(), "waits for a summary");
            let stream = self.provider.stream(Request { tool_choice: choice, ..request.clone() });
            let said = tokio::select! {
                said = said_in(stream, &mut used) => said,
                () = cancel.cancelled() => SummaryAnswer::Nothing,
            };
            if !used.is_untold() {
                let model = self.settings.model.clone();
                let used = self.charge(&model, used);
                self.settle(None, used, RequestPurpose::Summary);
            }
            match said {
                SummaryAnswer::Words(summary) => return Some(summary),
                SummaryAnswer::Called => (),
                SummaryAnswer::Nothing => return None,
            }
        }
        None
    }

    /// Generates a summary without a model: what was asked and done, line by line.
    fn summed_up(&self, size: SummarySize) -> String {
        let mut lines = Vec::new();
        for message in self.conversation.messages() {
            for block in &message.content {
                lines.extend(line_of(message.role, block));
            }
        }
        // The beginning shows the task, the end the current state.
        if size.lines < lines.len() {
            let left_out = lines.len() - size.lines;
            let tail = lines.split_off(lines.len() - size.lines * 3 / 4);
            lines.truncate(size.lines / 4);
            lines.push(format!("[… {left_out} steps left out …]"));
            lines.extend(tail);
        }
        let facts =
            format!("The conversation so far, shortened (one line per step):\n\n{}", lines.join("\n"));
        text::head(&facts, size.chars).to_owned()
    }

    /// A conversation that starts with a summary and ends with the user's last message: verbatim, or if
    /// it is too long its ends and the path of a file with all of it.
    async fn rebuilt(&self, summary: &str, size: SummarySize) -> Vec<Message> {
        let mut content = vec![MessageBlock::Text { text: summary.to_owned() }];
        content.extend(self.kept.text(size.state).map(|text| MessageBlock::Text { text }));
        if let Some(last) = self.last_words() {
            content.push(MessageBlock::Text { text: self.quoted(last, size.words).await });
        }
        content.push(MessageBlock::Text { text: String::from(GO_ON) });
        vec![Message { role: Role::User, content }]
    }

    async fn quoted(&self, words: String, most: usize) -> String {
        let length = words.chars().count();
        if length <= most {
            return format!("{LAST_WORDS}\n\n{words}");
        }
        let name = format!("message-{}", crate::conversation::uuid());
        let results = &self.tools.pipeline.results;
        let shown = results.fit(&name, Content::text(words), Some(most)).await.to_text();
        self.tell(AgentEvent::Notice(format!(
            "your last message has {length} characters and does not fit the model's window: the model sees its ends and can read the rest from a file"
        )));
        format!("{LONG_WORDS}\n\n{shown}")
    }

    fn last_words(&self) -> Option<String> {
        if !self.kept.last_words.is_empty() {
            return Some(self.kept.last_words.clone());
        }
        // Logs of old versions do not contain the user's messages separately.
        let said = self.conversation.messages().iter().rev().filter(|message| message.role == Role::User);
        said.flat_map(|message| message.content.iter().rev()).find_map(|block| match block {
            MessageBlock::Text { text } if text != GO_ON && !text.starts_with(SUMMARY) => {
                Some(text.strip_prefix(LAST_WORDS).unwrap_or(text).trim_start().to_owned())
            }
            _ => None,
        })
    }
}

/// Size of a generated summary.
#[derive(Clone, Copy, Debug)]
struct SummarySize {
    lines: usize,
    chars: usize,
    /// Maximum characters of plan, to-do list, skills and other state.
    state: usize,
    /// Maximum characters of the user's last message.
    words: usize,
}

impl SummarySize {
    /// The size at a step of the compaction.
    fn for_rung(rung: u32) -> Self {
        match rung {
            ..=MECHANICAL => Self { lines: 120, chars: 24_000, state: usize::MAX, words: 20_000 },
            4 => Self { lines: 40, chars: 4_000, state: 8_000, words: 4_000 },
            _ => Self { lines: 12, chars: 1_200, state: 1_200, words: 1_200 },
        }
    }
}

/// Keeps only the ends of texts that alone would use more than a quarter of the space.
fn shorten_texts(messages: &mut [Arc<Message>], room: u64) {
    let most = usize::try_from(room * 33 / 40).unwrap_or(usize::MAX);
    let is_long = |block: &MessageBlock| match block {
        MessageBlock::Text { text } => most < text.len() && most < text.chars().count(),
        _ => false,
    };
    for message in messages.iter_mut().filter(|it| it.content.iter().any(is_long)) {
        for block in Arc::make_mut(message).content.iter_mut().filter(|it| is_long(it)) {
            if let MessageBlock::Text { text } = block {
                let left_out = text.chars().count().saturating_sub(most);
                let (head, tail) = (text::head(text, most / 2), text::tail(text, most / 2));
                *text = format!("{head}\n[… {left_out} characters left out …]\n{tail}");
            }
        }
    }
}

fn is_media(block: &Block) -> bool {
    matches!(block, Block::Image { .. } | Block::Document { .. })
}

/// The model's reply to the request for a summary.
enum SummaryAnswer {
    Words(String),
    /// It called a tool instead.
    Called,
    Nothing,
}

async fn said_in(mut stream: ModelStream, used: &mut Usage) -> SummaryAnswer {
    let (mut text, mut called) = (String::new(), false);
    while let Some(event) = stream.next().await {
        match event {
            Ok(ModelEvent::Text(piece)) => text.push_str(&piece),
            Ok(ModelEvent::Retrying(_)) => text.clear(),
            Ok(ModelEvent::Usage(usage)) => *used = usage,
            Ok(ModelEvent::ToolStarted { .. }) => called = true,
            Ok(_) => (),
            Err(_) => return SummaryAnswer::Nothing,
        }
    }
    match (called, text.trim().is_empty()) {
        (true, _) => SummaryAnswer::Called,
        (false, true) => SummaryAnswer::Nothing,
        (false, false) => SummaryAnswer::Words(text),
    }
}

fn line_of(role: Role, block: &MessageBlock) -> Option<String> {
    let line = match block {
        MessageBlock::Text { text } => match role {
            Role::User => format!("User: {}", text::one_line(text, 400)),
            Role::Assistant => format!("You: {}", text::one_line(text, 300)),
        },
        MessageBlock::ToolUse(call) => {
            format!("You called {} {}", call.name, text::one_line(&call.input.to_string(), 200))
        }
        MessageBlock::ToolResult { content, is_error, .. } => {
            let mark = if *is_error { "failed" } else { "returned" };
            format!("  it {mark}: {}", text::one_line(&content.to_text(), 200))
        }
        _ => return None,
    };
    Some(line)
}
