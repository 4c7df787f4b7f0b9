//! Keeping the conversation inside the window: stubs for old results, then a
//! summary by the model, then one by us. The last always works.

use std::sync::Arc;

use futures_util::StreamExt as _;
use haft_hooks::{CompactTrigger, HookEvent, PreCompact};
use haft_model::{Event, EventStream, Request, ToolChoice};
use haft_types::{Block, CallId, Content, Message, MessageBlock, Role, Usage, text};
use tokio_util::sync::CancellationToken;

use crate::{
    Agent, AgentEvent, CompactedEvent, Compaction,
    conversation::compact_metadata,
    log::{Purpose, Stub},
};

/// Old results up to this size are not worth a stub: a stub has that size too.
const OLD_RESULT: usize = 1_600;

/// What a stub shows of a result.
const PREVIEW_SIZE: usize = 600;

/// Messages at the end that stay as they are.
const KEPT_MESSAGES: usize = 6;

/// Longer results are shortened wherever they are.
const RECENT_RESULT: usize = 20_000;

/// How the runtime begins what it stored elsewhere.
const PREVIEW: &str = "[This result ha";

const SUMMARY: &str = "Summary of the conversation so far:";
const LAST_WORDS: &str = "The user's last message, word for word:";
const GO_ON: &str = "Go on with the next step.";

/// What the model is asked for.
pub(crate) const SUMMARY_REQUEST: &str = "\
Sum up this conversation so that you can go on working with nothing but your summary. \
Write down: what the user asked for, word for word where it matters; every rule and decision that still holds; \
the plan, with what is done and what comes next; files that were read or changed and what matters in them; \
what was tried and failed, and what was denied; commands and tasks that still run; open questions. \
Call no tool; write the summary only.";

/// How much room there has to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Room {
    /// For the next request.
    Enough,
    /// For some more after it.
    ToWorkIn,
}

impl Agent {
    /// Makes the conversation shorter when the next request would nearly fill
    /// the window.
    pub(crate) async fn make_room(&mut self, cancel: &CancellationToken) {
        if self.fits(Room::Enough) {
            return;
        }
        for step in 1..=3 {
            tracing::info!(session = %self.conversation.session_id(), step, "makes room in the window");
            // A step that helps only for a moment is not worth a changed prefix.
            if self.shorten(step, cancel).await && self.fits(Room::ToWorkIn) {
                return;
            }
        }
    }

    fn fits(&mut self, room: Room) -> bool {
        let request = self.request();
        let tokens = self.provider.estimate_tokens(&request);
        let limit = self.window() * u64::from(self.settings.compact_at_percent) / 100;
        match room {
            Room::Enough => tokens <= limit,
            Room::ToWorkIn => tokens <= limit * 4 / 5,
        }
    }

    /// What fits: what the provider said, else what is known about the model.
    pub fn window(&self) -> u64 {
        let known = self.provider.info(&self.settings.model).window;
        self.told_window.map_or(known, |told| told.min(known))
    }

    /// One step of the ladder; whether anything became shorter.
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
                let summary = if step == 2 { self.summarised(cancel).await } else { None };
                let (messages, how) = match summary {
                    Some(messages) => (messages, Compaction::Summary),
                    None => (self.summed_up(), Compaction::Mechanical),
                };
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

    /// Old results, and huge ones, as previews with a path to the whole.
    async fn stubs(&self) -> Vec<Stub> {
        let messages = self.conversation.messages();
        let old = messages.len().saturating_sub(KEPT_MESSAGES);
        let mut stubs = Vec::new();
        for (idx, message) in messages.iter().enumerate() {
            let limit = if idx < old { OLD_RESULT } else { RECENT_RESULT };
            for block in &message.content {
                let MessageBlock::ToolResult { content, tool_use_id, .. } = block else { continue };
                let is_media = |it: &Block| matches!(it, Block::Image { .. } | Block::Document { .. });
                if limit < content.chars() || (idx < old && content.0.iter().any(is_media)) {
                    stubs.push(Stub {
                        call: tool_use_id.clone(),
                        text: self.stub(tool_use_id, content).await,
                    });
                }
            }
        }
        stubs
    }

    async fn stub(&self, call: &CallId, content: &Content) -> String {
        let is_media = |it: &&Block| matches!(it, Block::Image { .. } | Block::Document { .. });
        let pictures = content.0.iter().filter(is_media).count();
        let full = content.to_text();
        // What is a preview already says where the whole is.
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

    /// A summary by the model over as much of the conversation as fits.
    async fn summarised(&mut self, cancel: &CancellationToken) -> Option<Vec<Message>> {
        let summary = self.summary(SUMMARY_REQUEST, cancel).await?;
        Some(self.rebuilt(&format!("{SUMMARY}\n\n{summary}")))
    }

    /// What the model answers when it is asked for a summary this way.
    pub(crate) async fn summary(&mut self, wish: &str, cancel: &CancellationToken) -> Option<String> {
        let mut request = self.request();
        request.max_tokens = 4_000;
        let ask = Message::user(wish);
        request.messages.push(Arc::new(ask));
        let room = self.window().saturating_sub(u64::from(request.max_tokens)) * 9 / 10;
        while room < self.provider.estimate_tokens(&request) && 2 < request.messages.len() {
            // An eighth at a time: the end matters most.
            let over = request.messages.len() / 8;
            request.messages.drain(..over.max(1));
        }
        // As every request is asked: one that forbids calls could not go on from what
        // the provider has cached, and would bill the whole conversation again.
        for choice in [ToolChoice::Auto, ToolChoice::None] {
            let mut used = Usage::default();
            tracing::debug!(session = %self.conversation.session_id(), "waits for a summary");
            let stream = self.provider.stream(Request { tool_choice: choice, ..request.clone() });
            let said = tokio::select! {
                said = said_in(stream, &mut used) => said,
                () = cancel.cancelled() => Said::Nothing,
            };
            if used != Usage::default() {
                self.charge(used);
                self.settle(None, used, Purpose::Summary);
            }
            match said {
                Said::Words(summary) => return Some(summary),
                Said::Called => (),
                Said::Nothing => return None,
            }
        }
        None
    }

    /// A summary without a model: what was asked, what was done, line by line.
    fn summed_up(&self) -> Vec<Message> {
        let mut lines = Vec::new();
        for message in self.conversation.messages() {
            for block in &message.content {
                lines.extend(line_of(message.role, block));
            }
        }
        // The beginning says what it is about, the end where it is.
        const MOST: usize = 120;
        if MOST < lines.len() {
            let left_out = lines.len() - MOST;
            let tail = lines.split_off(lines.len() - MOST * 3 / 4);
            lines.truncate(MOST / 4);
            lines.push(format!("[… {left_out} steps left out …]"));
            lines.extend(tail);
        }
        let facts =
            format!("The conversation so far, shortened (one line per step):\n\n{}", lines.join("\n"));
        self.rebuilt(text::head(&facts, 24_000))
    }

    /// A conversation that begins with a summary and ends with what the person
    /// said last, word for word.
    fn rebuilt(&self, summary: &str) -> Vec<Message> {
        let mut content = vec![MessageBlock::Text { text: summary.to_owned() }];
        content.extend(self.kept.text().map(|text| MessageBlock::Text { text }));
        if let Some(last) = self.last_words() {
            content.push(MessageBlock::Text { text: format!("{LAST_WORDS}\n\n{last}") });
        }
        content.push(MessageBlock::Text { text: String::from(GO_ON) });
        vec![Message { role: Role::User, content }]
    }

    fn last_words(&self) -> Option<String> {
        if !self.kept.last_words.is_empty() {
            return Some(text::head(&self.kept.last_words, 20_000).to_owned());
        }
        // A log of a version that did not keep them.
        let said = self.conversation.messages().iter().rev().filter(|message| message.role == Role::User);
        said.flat_map(|message| message.content.iter().rev()).find_map(|block| match block {
            MessageBlock::Text { text } if text != GO_ON && !text.starts_with(SUMMARY) => {
                let words = text.strip_prefix(LAST_WORDS).unwrap_or(text).trim_start();
                Some(text::head(words, 20_000).to_owned())
            }
            _ => None,
        })
    }
}

/// What a model answers when it is asked for words.
enum Said {
    Words(String),
    /// It wants to do something first.
    Called,
    Nothing,
}

async fn said_in(mut stream: EventStream, used: &mut Usage) -> Said {
    let (mut text, mut called) = (String::new(), false);
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Text(piece)) => text.push_str(&piece),
            Ok(Event::Retrying(_)) => text.clear(),
            Ok(Event::Usage(usage)) => *used = usage,
            Ok(Event::ToolStarted { .. }) => called = true,
            Ok(_) => (),
            Err(_) => return Said::Nothing,
        }
    }
    match (called, text.trim().is_empty()) {
        (true, _) => Said::Called,
        (false, true) => Said::Nothing,
        (false, false) => Said::Words(text),
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
