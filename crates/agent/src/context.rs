//! Keeping the conversation inside the window: stubs for old results, then a
//! summary by the model, then one by us. The last always works.

use std::sync::Arc;

use futures_util::StreamExt as _;
use haft_hooks::{CompactTrigger, HookEvent, PreCompact};
use haft_model::{Event, Request, ToolChoice};
use haft_types::{Block, Content, Message, MessageBlock, Role, text};
use tokio_util::sync::CancellationToken;

use crate::{Agent, AgentEvent, CompactedEvent, Compaction, conversation::compact_metadata};

/// Results up to this size are not worth a stub.
const SMALL_RESULT: usize = 600;

/// Messages at the end that stay as they are.
const KEPT_MESSAGES: usize = 6;

/// What the model is asked for.
pub(crate) const SUMMARY_REQUEST: &str = "\
Sum up this conversation so that you can go on working with nothing but your summary. \
Write down: what the user asked for, word for word where it matters; every rule and decision that still holds; \
the plan, with what is done and what comes next; files that were read or changed and what matters in them; \
what was tried and failed, and what was denied; commands and tasks that still run; open questions. \
Write the summary only.";

impl Agent {
    /// Makes the conversation shorter when the next request would nearly fill
    /// the window.
    pub(crate) async fn make_room(&mut self, cancel: &CancellationToken) {
        for step in 1..=3 {
            if self.fits() {
                return;
            }
            if !self.shorten(step, cancel).await {
                return;
            }
        }
    }

    fn fits(&mut self) -> bool {
        let request = self.request();
        let info = self.provider.info(&self.settings.model);
        let tokens = request.estimate_tokens();
        let limit = info.window * u64::from(self.settings.compact_at_percent) / 100;
        tokens <= limit
    }

    /// One step of the ladder; whether anything became shorter.
    pub(crate) async fn shorten(&mut self, step: u32, cancel: &CancellationToken) -> bool {
        let request = self.request();
        let before = request.estimate_tokens();
        let (messages, how) = match step {
            1 => (self.with_stubs(), Compaction::Stubs),
            2 => match self.summarised(cancel).await {
                Some(messages) => (messages, Compaction::Summary),
                None => (self.summed_up(), Compaction::Mechanical),
            },
            _ => (self.summed_up(), Compaction::Mechanical),
        };
        if how != Compaction::Stubs {
            let event = PreCompact { trigger: CompactTrigger::Auto, custom_instructions: None };
            self.hooks(HookEvent::PreCompact, event).await;
        }
        if let Err(err) = self.conversation.replace(messages, compact_metadata("auto", before)) {
            self.tell(AgentEvent::Notice(format!("the session log could not be written: {err}")));
        }
        let request = self.request();
        let after = request.estimate_tokens();
        let trigger = CompactTrigger::Auto;
        self.tell(AgentEvent::Compacted(CompactedEvent {
            tokens_before: before,
            tokens_after: after,
            how,
            trigger,
        }));
        after < before
    }

    /// Old results become their first line; the newest messages stay.
    fn with_stubs(&self) -> Vec<Message> {
        let messages = self.conversation.messages();
        let old = messages.len().saturating_sub(KEPT_MESSAGES);
        messages
            .iter()
            .enumerate()
            .map(|(idx, message)| {
                let mut message = Message::clone(message);
                let limit = if idx < old { SMALL_RESULT } else { 20_000 };
                message.content.iter_mut().for_each(|block| stub(block, limit));
                message
            })
            .collect()
    }

    /// A summary by the model over as much of the conversation as fits.
    async fn summarised(&mut self, cancel: &CancellationToken) -> Option<Vec<Message>> {
        let summary = self.summary(SUMMARY_REQUEST, cancel).await?;
        Some(self.rebuilt(&format!("Summary of the conversation so far:\n\n{summary}")))
    }

    /// What the model answers when it is asked for a summary this way.
    pub(crate) async fn summary(&mut self, wish: &str, cancel: &CancellationToken) -> Option<String> {
        let info = self.provider.info(&self.settings.model);
        let mut request = self.request();
        request.tool_choice = ToolChoice::None;
        request.max_tokens = 4_000;
        let ask = Message::user(wish);
        request.messages = self.with_stubs().into_iter().map(Arc::new).collect();
        request.messages.push(Arc::new(ask));
        while info.window * 9 / 10 < request.estimate_tokens() && 2 < request.messages.len() {
            request.messages.remove(0);
        }
        tokio::select! {
            summary = self.text_of(request) => summary,
            () = cancel.cancelled() => None,
        }
    }

    async fn text_of(&self, request: Request) -> Option<String> {
        let mut stream = self.provider.stream(request);
        let mut text = String::new();
        while let Some(event) = stream.next().await {
            match event.ok()? {
                Event::Text(piece) => text.push_str(&piece),
                Event::Retrying(_) => text.clear(),
                _ => (),
            }
        }
        (!text.trim().is_empty()).then_some(text)
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
        if let Some(last) = self.last_words() {
            content.push(MessageBlock::Text {
                text: format!("The user's last message, word for word:\n\n{last}"),
            });
        }
        content.push(MessageBlock::Text { text: String::from("Go on with the next step.") });
        vec![Message { role: Role::User, content }]
    }

    fn last_words(&self) -> Option<String> {
        let said = self.conversation.messages().iter().rev().filter(|message| message.role == Role::User);
        said.flat_map(|message| message.content.iter().rev()).find_map(|block| match block {
            MessageBlock::Text { text } if !text.starts_with("Summary of the conversation") => {
                Some(text::head(text, 20_000).to_owned())
            }
            _ => None,
        })
    }
}

fn stub(block: &mut MessageBlock, limit: usize) {
    let MessageBlock::ToolResult { content, .. } = block else { return };
    if content.chars() <= limit
        && !content.0.iter().any(|it| matches!(it, Block::Image { .. } | Block::Document { .. }))
    {
        return;
    }
    let full = content.to_text();
    let pictures = content.0.iter().filter(|it| it.as_text().is_none()).count();
    let mut short = text::head(&full, limit.min(SMALL_RESULT)).to_owned();
    short.push_str(&format!("\n[… the rest of this result ({} characters) was dropped to save room; call the tool again if you need it]", full.chars().count()));
    if 0 < pictures {
        short.push_str(&format!("\n[{pictures} pictures were dropped too]"));
    }
    *content = Content::text(short);
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
