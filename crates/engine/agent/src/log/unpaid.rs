//! Finds answers whose process was killed before it logged their cost.

use haft_model::{Catalog, Speed};
use haft_types::{MessageBlock, Usage};

use super::{LogEntry, LogState, LoggedMessage, RequestLine, RequestPurpose};

/// Finds answers with logged blocks but without a logged cost. Their usage is estimated: what the
/// provider had counted until the last block, with at least as many output tokens as the blocks have.
///
/// Only for logs that contain costs; those of other programs and of old versions do not.
#[derive(Debug, Default)]
pub struct UnpaidAnswers {
    says_cost: bool,
    /// Number of the last logged request.
    request: u64,
    id: Option<String>,
    open: Option<RequestLine>,
}

impl UnpaidAnswers {
    /// Processes the next line. Returns the answer before it if its cost was not logged.
    pub fn take(&mut self, entry: &LogEntry) -> Option<RequestLine> {
        match entry {
            // Versions that write this line also log costs.
            LogEntry::Haft(LogState::Prompt { .. }) => self.says_cost = true,
            LogEntry::Haft(LogState::Asked(asked)) => {
                (self.says_cost, self.request) = (true, asked.request);
                if asked.purpose == RequestPurpose::Answer {
                    self.open = None;
                }
            }
            // The total includes it.
            LogEntry::Haft(LogState::Cost { .. }) => self.open = None,
            LogEntry::Assistant(line) if self.says_cost => {
                return self.block(&line.message, &line.head.timestamp);
            }
            _ => (),
        }
        None
    }

    /// Returns the last answer if its cost was not logged.
    pub fn end(&mut self) -> Option<RequestLine> {
        self.open.take().map(priced)
    }

    fn block(&mut self, message: &LoggedMessage, timestamp: &str) -> Option<RequestLine> {
        let id = message.id.as_ref().filter(|id| !id.is_empty())?;
        let (model, usage) = (message.model.as_ref()?, message.usage?);
        let is_same = self.id.as_ref() == Some(id);
        if is_same && self.open.is_none() {
            return None;
        }
        let before = if is_same { None } else { self.end() };
        if !is_same {
            self.request += 1;
            self.id = Some(id.clone());
        }
        let written = self.open.take().map_or(0, |it| it.usage.output_tokens);
        let tokens = written + message.message.content.iter().map(tokens_of).sum::<u64>();
        self.open = Some(RequestLine {
            request: self.request,
            timestamp: timestamp.to_owned(),
            model: model.clone(),
            usage: Usage { output_tokens: usage.output_tokens.max(tokens), ..usage },
            is_estimate: true,
            ..RequestLine::default()
        });
        before
    }
}

fn priced(asked: RequestLine) -> RequestLine {
    let price = Catalog::built_in().get(&asked.model).price;
    RequestLine { usd: price.map(|price| price.of(&asked.usage, Speed::Normal)), ..asked }
}

/// Estimated tokens of a block.
fn tokens_of(block: &MessageBlock) -> u64 {
    let chars = match block {
        MessageBlock::Text { text } => text.len(),
        MessageBlock::Thinking { thinking, .. } => thinking.len(),
        MessageBlock::ToolUse(call) => call.name.len() + call.input.to_string().len(),
        _ => 0,
    };
    chars as u64 * 10 / 33
}
