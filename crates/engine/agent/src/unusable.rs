//! Detects unusable last answers of a prompt: empty ones, and calls written as text in an unreadable
//! format.

use haft_model::{ToolCalls, unread_call};
use haft_types::{Message, MessageBlock, Role};
use serde_json::json;

use crate::{Agent, EndReason, InjectionReason, prompt_run::TurnProgress};

/// The demand for a text answer after tool results.
const ANSWER_IN_WORDS: &str = "The result is above. Answer the request in words now, without a call.";

/// What was already demanded in this prompt; each demand is made once.
#[derive(Debug, Default)]
pub(crate) struct Demanded {
    words: bool,
    readable_call: bool,
}

/// Assessment of an answer without calls.
#[derive(Debug)]
pub(crate) enum LastAnswer {
    /// It can end the prompt.
    Usable,
    /// A demand was added; ask the model again.
    AskAgain,
    /// The prompt ends without an answer.
    End(EndReason),
}

impl Agent {
    /// Assesses an answer without calls that would end the prompt.
    pub(crate) fn judge_last(&mut self, run: &mut TurnProgress) -> LastAnswer {
        let Some(text) = self.words_of_last() else { return self.judge_empty(run) };
        let info = self.provider.info(&self.settings.model);
        if !info.dialects && info.tool_calls != ToolCalls::Prompted {
            return LastAnswer::Usable;
        }
        let tools = self.request().tools;
        let Some(unread) = unread_call(&text, &tools) else { return LastAnswer::Usable };
        if std::mem::replace(&mut run.demanded.readable_call, true) {
            return LastAnswer::End(EndReason::Incomplete(format!(
                "the model wrote a call of {} as text that could not be read, twice, so nothing ran; \
                 try again, or use another model (--model)",
                unread.tool
            )));
        }
        let call = unread.call.unwrap_or_else(|| json!({"name": unread.tool, "arguments": {}}));
        self.demand(
            run,
            format!(
                "Nothing ran: your answer holds a call of {} in a form that cannot be read. \
                 If you want it to run, write exactly this as your whole answer, with the right arguments \
                 and without a code block or other words:\n\n<tool_call>\n{call}\n</tool_call>\n\n\
                 If not, answer without a call.",
                unread.tool
            ),
        )
    }

    fn judge_empty(&mut self, run: &mut TurnProgress) -> LastAnswer {
        if self.tools.agent_id.child().is_some() {
            // The parent of a sub-agent requests a missing report itself, and accepts earlier text.
            return LastAnswer::Usable;
        }
        if run.has_result && !std::mem::replace(&mut run.demanded.words, true) {
            return self.demand(run, ANSWER_IN_WORDS.to_owned());
        }
        if !run.has_called && !run.is_asked {
            return LastAnswer::Usable;
        }
        let again = if run.demanded.words { ", even when it was asked again" } else { "" };
        LastAnswer::End(EndReason::Incomplete(format!(
            "the model gave an empty answer{again}; try again, or use another model (--model)"
        )))
    }

    fn demand(&mut self, run: &mut TurnProgress, text: String) -> LastAnswer {
        self.say(Message::user(text), InjectionReason::Demand);
        run.messages += 1;
        LastAnswer::AskAgain
    }

    /// The text of the last answer; `None` if it is empty. Provider-specific blocks, such as built-in
    /// search results, count as text.
    fn words_of_last(&self) -> Option<String> {
        let last = self.conversation.messages().last().filter(|it| it.role == Role::Assistant)?;
        let mut text = String::new();
        let mut has_other = false;
        for block in &last.content {
            match block {
                MessageBlock::Text { text: words } => text.push_str(words),
                MessageBlock::Thinking { .. } | MessageBlock::RedactedThinking { .. } => {}
                _ => has_other = true,
            }
        }
        (has_other || !text.trim().is_empty()).then_some(text)
    }
}
