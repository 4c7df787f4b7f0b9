//! An agent that a program runs.

mod builder;
mod closures;
mod run;

use std::path::PathBuf;

use haft_agent::{AgentEvent, Inbox, Spending, TurnEnd, UserInput};
use haft_types::Message;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::{
    builder::{AgentBuilder, BuildError},
    closures::{Asked, HookReply},
    run::Run,
};

/// An agent: a model, tools, and the conversation between them.
///
/// Made with [`Agent::builder`]. Every call goes through the same stages as in
/// the program `haft`: schema, hooks, permission, run, size, hooks. What would
/// ask somebody is denied, until [`AgentBuilder::ask`] says who answers.
pub struct Agent {
    inner: haft_agent::Agent,
    events: mpsc::UnboundedReceiver<AgentEvent>,
    /// Ends what commands left running when the agent goes.
    #[cfg(feature = "tools")]
    _built_in: Option<crate::BuiltIn>,
}

impl Agent {
    /// Starts with who answers: [`crate::model::HttpProvider`],
    /// [`crate::model::Scripted`], or a provider of your own.
    pub fn builder(provider: impl haft_model::Provider + 'static) -> AgentBuilder {
        AgentBuilder::new(std::sync::Arc::new(provider))
    }

    /// Works on a prompt until the model is done, a bound is reached, or the
    /// run is cancelled; tells what happens on the way to nobody.
    pub async fn run(&mut self, prompt: impl Into<String>) -> TurnEnd {
        self.start(prompt).end().await
    }

    /// Works on a prompt and hands out events as they happen. Nothing happens
    /// unless somebody waits for the next event or for the end.
    pub fn start(&mut self, prompt: impl Into<String>) -> Run<'_> {
        self.start_with(UserInput::text(prompt), CancellationToken::new())
    }

    /// The same for any input, and with a token of your own.
    pub fn start_with(&mut self, input: UserInput, cancel: CancellationToken) -> Run<'_> {
        Run::new(&mut self.inner, &mut self.events, input, cancel)
    }

    /// What is said through this while the agent works goes into its next
    /// request.
    pub fn inbox(&self) -> Inbox {
        self.inner.inbox.clone()
    }

    /// The conversation as the next request holds it.
    pub fn messages(&self) -> Vec<Message> {
        self.inner.conversation.messages().iter().map(|message| Message::clone(message)).collect()
    }

    /// Tokens and money so far.
    pub fn spending(&self) -> &Spending {
        self.inner.spending()
    }

    /// Where the session is logged, if it is.
    pub fn log_path(&self) -> Option<PathBuf> {
        self.inner.conversation.log_path().map(std::path::Path::to_owned)
    }

    /// What is underneath.
    pub fn inner(&mut self) -> &mut haft_agent::Agent {
        &mut self.inner
    }
}
