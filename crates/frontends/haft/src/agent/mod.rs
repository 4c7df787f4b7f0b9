//! An agent that a program runs.

mod builder;
mod closures;
mod run;

use std::path::PathBuf;

use haft_agent::{RunUsage, TurnEnd};
use haft_session::{Command, EventStream, Prompt, Session, SessionHandle, SessionSpec};
use haft_types::Message;
use tokio_util::sync::CancellationToken;

use crate::BuildError;

pub(crate) use self::builder::program_spec;
pub use self::{builder::AgentBuilder, closures::HookReply, run::AgentRun};

/// An agent: a model, tools, and the conversation between them.
///
/// Made with [`Agent::builder`]. It is a session of the one engine under the
/// program `haft`, the Agent SDKs and everything else: every call goes through
/// the same stages, background commands are reported to the model, session hooks
/// run. What would ask somebody is denied, until [`AgentBuilder::ask`] says who
/// answers.
///
/// The session lives on a task of its own and closes when the agent is dropped.
pub struct Agent {
    handle: SessionHandle,
    events: EventStream,
    spending: RunUsage,
}

impl Agent {
    /// Starts with who answers: [`crate::model::HttpProvider`],
    /// [`crate::model::ScriptedProvider`], or a provider of your own.
    pub fn builder(provider: impl haft_model::Provider + 'static) -> AgentBuilder {
        AgentBuilder::new(std::sync::Arc::new(provider))
    }

    /// Opens a session of any spec that has a model. Must be called inside a
    /// tokio runtime.
    pub fn of(spec: SessionSpec) -> Result<Self, BuildError> {
        tokio::runtime::Handle::try_current().map_err(|_| BuildError::Runtime)?;
        let (handle, events) = Session::open(spec)?;
        Ok(Self { handle, events, spending: RunUsage::default() })
    }

    /// Works on a prompt until the model is done, a bound is reached, or the
    /// run is cancelled; tells what happens on the way to nobody.
    pub async fn run(&mut self, prompt: impl Into<String>) -> TurnEnd {
        self.start(prompt).end().await
    }

    /// Works on a prompt and hands out events as they happen.
    pub fn start(&mut self, prompt: impl Into<String>) -> AgentRun<'_> {
        self.start_with(Prompt::text(prompt), CancellationToken::new())
    }

    /// The same for any prompt, and with a token of your own.
    pub fn start_with(&mut self, prompt: Prompt, cancel: CancellationToken) -> AgentRun<'_> {
        AgentRun::new(self, prompt, cancel)
    }

    /// The session: what is said through this while the agent works goes into its
    /// next request, and every other command reaches it too.
    pub fn session(&self) -> &SessionHandle {
        &self.handle
    }

    /// The conversation as the next request holds it.
    pub async fn messages(&self) -> Vec<Message> {
        self.handle.ask(Command::Messages).await.unwrap_or_default()
    }

    /// Tokens and money so far.
    pub fn spending(&self) -> &RunUsage {
        &self.spending
    }

    /// Where the session is logged, if it is.
    pub fn log_path(&self) -> Option<PathBuf> {
        self.handle.log_path().map(std::path::Path::to_owned)
    }

    /// Ends the session and everything it started, and waits for that.
    pub async fn close(self) {
        self.handle.close().await;
    }
}
