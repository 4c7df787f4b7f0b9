//! Forking an agent: continuing with requests that begin with the same bytes.

use std::sync::{Arc, Mutex, PoisonError};

use haft_model::{SystemPart, ToolDef, ToolOrigin, ToolSet};
use haft_types::Message;

use crate::{
    Agent, AgentSettings, Conversation, StoredPrefix, SystemPrompt,
    conversation::{MessageOrigin, NewLogLine, uuid},
    log::LogState,
    structured_output::STRUCTURED_OUTPUT,
};

/// Snapshot of an agent's last request. Clones share it.
#[derive(Clone, Default)]
pub struct ForkPoint(Arc<Mutex<Option<Arc<ForkBasis>>>>);

/// The parts of a request that a fork reuses.
pub struct ForkBasis {
    /// Request settings.
    pub settings: AgentSettings,
    /// The current system prompt.
    pub prompt: Arc<SystemPrompt>,
    /// The system prompt as sent with the first request.
    sent: Arc<SystemPrompt>,
    /// `sent`, with the updates the model received in messages since.
    known: Arc<SystemPrompt>,
    tools: Arc<ToolSet>,
    /// Names of deferred tools that were loaded.
    loaded: Vec<String>,
    pub messages: Vec<Arc<Message>>,
}

impl ForkPoint {
    /// The parts of the last request; `None` before the first one.
    pub fn basis(&self) -> Option<Arc<ForkBasis>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, basis: ForkBasis) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(basis));
    }
}

impl ForkBasis {
    fn prefix(&self) -> StoredPrefix {
        let of_servers = self.tools.definitions().into_iter().filter(|it| it.origin == ToolOrigin::External);
        StoredPrefix {
            prompt: Some(Box::new(SystemPrompt::clone(&self.sent))),
            told: Some(Box::new(SystemPrompt::clone(&self.known))),
            tools: of_servers.cloned().collect(),
        }
    }

    /// The system prompt parts of the request.
    pub(crate) fn system(&self) -> Vec<SystemPart> {
        crate::prefix::system(&self.sent)
    }

    /// The tools declared in the request.
    pub(crate) fn tools(&self) -> Arc<ToolSet> {
        Arc::clone(&self.tools)
    }

    /// The structured output tool, if the request declared it.
    fn structured(&self) -> Option<ToolDef> {
        self.tools.definitions().into_iter().find(|it| it.name == STRUCTURED_OUTPUT).cloned()
    }
}

impl Agent {
    /// Saves the parts of the request that is about to be sent.
    pub(crate) fn note_fork_point(&mut self) {
        let Some(declared) = &self.declared else { return };
        let (sent, known) = declared.prompts();
        // System prompts are long and rarely change, so they are shared with the previous snapshot.
        let before = self.fork_point.basis();
        let shared = |prompt: &SystemPrompt| {
            let earlier = before.iter().flat_map(|it| [&it.sent, &it.known, &it.prompt]);
            let same = earlier.into_iter().find(|it| ***it == *prompt);
            same.map_or_else(|| Arc::new(prompt.clone()), Arc::clone)
        };
        self.fork_point.set(ForkBasis {
            settings: self.settings.clone(),
            prompt: shared(&self.prompt),
            sent: shared(sent),
            known: shared(known),
            tools: declared.set(),
            loaded: self.tools.state.loaded.clone(),
            messages: self.conversation.messages().to_vec(),
        });
    }

    /// Makes this agent's requests begin with the same bytes as the given one's. The conversation must
    /// contain the same messages.
    pub fn fork_from(&mut self, basis: &ForkBasis) {
        self.stored = basis.prefix();
        // Logged too, for a process that resumes from this log.
        self.note(LogState::Prompt { prompt: Box::new(SystemPrompt::clone(&basis.sent)) });
        if basis.known != basis.sent {
            self.note(LogState::Told { prompt: Box::new(SystemPrompt::clone(&basis.known)) });
        }
        if !self.stored.tools.is_empty() {
            let tools = self.stored.tools.clone();
            self.note(LogState::Tools { tools });
        }
        self.declared_only = basis.structured();
        self.tools.state.loaded.clone_from(&basis.loaded);
    }
}

impl Conversation {
    /// Starts with copies of another conversation's messages, which are logged.
    pub fn inherit(&mut self, messages: &[Arc<Message>]) -> std::io::Result<()> {
        let lines = messages.iter().map(|message| NewLogLine {
            uuid: uuid(),
            message: Message::clone(message),
            origin: MessageOrigin::Meta,
            tool_use_result: None,
        });
        let added = self.add(lines.collect());
        // Shares the identical messages instead of copying them.
        self.messages = messages.to_vec();
        added
    }
}
