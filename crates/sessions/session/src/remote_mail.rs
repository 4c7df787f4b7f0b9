//! Messages to other sessions: `run:ID` as an address of SendMessage.

use std::sync::Arc;

use haft_builtin_tools::send_message::{AgentMailer, DeliveryReceipt, LetterText, ListedAgent};
use haft_tool::{BoxFuture, CallContext};

use crate::agents::SubagentRegistry;

/// Prefix of addresses of other sessions.
const ELSEWHERE: &str = "run:";

/// Sends messages to other sessions. Implemented by programs that know them, such as a fleet worker.
pub trait RemoteMail: Send + Sync {
    /// Sends a text on behalf of a call. Sending again for the same call has no effect. Returns a text
    /// about the delivery; the error says why the text was not sent.
    fn send<'a>(
        &'a self,
        run: &'a str,
        text: String,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<String, String>>;
}

/// Mailer of a session that can reach others.
pub(crate) struct RemoteMailer {
    pub(crate) near: Arc<SubagentRegistry>,
    pub(crate) far: Arc<dyn RemoteMail>,
}

impl AgentMailer for RemoteMailer {
    fn is_open(&self) -> bool {
        self.near.is_open()
    }

    fn send<'a>(
        &'a self,
        to: &'a str,
        letter: LetterText,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, DeliveryReceipt> {
        let Some(run) = to.strip_prefix(ELSEWHERE).map(str::trim) else {
            return self.near.send(to, letter, cx);
        };
        let text = match letter {
            LetterText::Text(text) => text,
            LetterText::Answer(answer) => answer.words(),
            LetterText::Request(_) => {
                return Box::pin(async {
                    DeliveryReceipt::refused("a run elsewhere is asked to end by whoever started it")
                });
            }
        };
        Box::pin(async move {
            match self.far.send(run, text, cx).await {
                Ok(message) => DeliveryReceipt { success: true, message, resumed: None },
                Err(why) => DeliveryReceipt::refused(why),
            }
        })
    }

    fn list(&self, cx: &CallContext) -> (String, Vec<ListedAgent>) {
        self.near.list(cx)
    }
}
