//! Agents for embedding programs.

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

/// An agent: a model, tools, and their conversation.
///
/// Created with [`Agent::builder`]. It is a session of the same engine as the `haft` program and the
/// Agent SDKs: calls pass the same pipeline, background commands are reported to the model, session
/// hooks run. Calls that would ask are denied, unless [`AgentBuilder::ask`] sets an approver.
///
/// The session runs in its own task and closes when the agent is dropped.
pub struct Agent {
    handle: SessionHandle,
    events: EventStream,
    spending: RunUsage,
}

impl Agent {
    /// Starts building an agent with a provider: [`crate::model::HttpProvider`],
    /// [`crate::model::ScriptedProvider`], or an own implementation.
    pub fn builder(provider: impl haft_model::Provider + 'static) -> AgentBuilder {
        AgentBuilder::new(std::sync::Arc::new(provider))
    }

    /// Opens a session from a spec, which must have a model. Must be called inside a tokio runtime.
    pub fn of(spec: SessionSpec) -> Result<Self, BuildError> {
        tokio::runtime::Handle::try_current().map_err(|_| BuildError::Runtime)?;
        let (handle, events) = Session::open(spec)?;
        Ok(Self { handle, events, spending: RunUsage::default() })
    }

    /// Runs a prompt until the model is done or a limit is reached, and discards the events on the way.
    pub async fn run(&mut self, prompt: impl Into<String>) -> TurnEnd {
        self.start(prompt).end().await
    }

    /// Starts a prompt and returns its event stream.
    pub fn start(&mut self, prompt: impl Into<String>) -> AgentRun<'_> {
        self.start_with(Prompt::text(prompt), CancellationToken::new())
    }

    /// Like [`Agent::start`], with any kind of prompt and an own cancellation token.
    pub fn start_with(&mut self, prompt: Prompt, cancel: CancellationToken) -> AgentRun<'_> {
        AgentRun::new(self, prompt, cancel)
    }

    /// The session. Prompts sent through it while the agent runs go into the next request; all other
    /// commands work too.
    pub fn session(&self) -> &SessionHandle {
        &self.handle
    }

    /// The messages of the next request.
    pub async fn messages(&self) -> Vec<Message> {
        self.handle.ask(Command::Messages).await.unwrap_or_default()
    }

    /// Usage and cost so far.
    pub fn spending(&self) -> &RunUsage {
        &self.spending
    }

    /// Path of the session's log; `None` if no log is written.
    pub fn log_path(&self) -> Option<PathBuf> {
        self.handle.log_path().map(std::path::Path::to_owned)
    }

    /// Closes the session with everything it started, and waits for that.
    pub async fn close(self) {
        self.handle.close().await;
    }
}
