//! Going on from another agent's requests: the same beginning, byte for byte.

use std::sync::{Arc, Mutex, PoisonError};

use haft_model::{SystemPart, ToolDef, ToolOrigin, ToolSet};
use haft_types::Message;

use crate::{
    Agent, AgentSettings, Conversation, StoredPrefix, SystemPrompt,
    conversation::{MessageOrigin, NewLogLine, uuid},
    log::LogState,
    structured_output::STRUCTURED_OUTPUT,
};

/// What the last request of an agent was made of. Clones share it.
#[derive(Clone, Default)]
pub struct ForkPoint(Arc<Mutex<Option<Arc<ForkBasis>>>>);

/// What a request was made of, for an agent that goes on from it.
pub struct ForkBasis {
    /// How it was asked.
    pub settings: AgentSettings,
    /// What the agent is told first, as it is wanted now.
    pub prompt: Arc<SystemPrompt>,
    /// What it was told first.
    sent: Arc<SystemPrompt>,
    /// The same with what was told since.
    known: Arc<SystemPrompt>,
    tools: Arc<ToolSet>,
    /// Deferred tools that were loaded.
    loaded: Vec<String>,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
}

impl ForkPoint {
    /// What the last request was made of, once there was one.
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

    /// What the request began with.
    pub(crate) fn system(&self) -> Vec<SystemPart> {
        crate::prefix::system(&self.sent)
    }

    /// The tools that were declared.
    pub(crate) fn tools(&self) -> Arc<ToolSet> {
        Arc::clone(&self.tools)
    }

    /// The tool for output that must follow a schema, where the request had it.
    fn structured(&self) -> Option<ToolDef> {
        self.tools.definitions().into_iter().find(|it| it.name == STRUCTURED_OUTPUT).cloned()
    }
}

impl Agent {
    /// Notes what the request is made of that is about to be sent.
    pub(crate) fn note_fork_point(&mut self) {
        let Some(declared) = &self.declared else { return };
        let (sent, known) = declared.prompts();
        // Prompts are long and hardly ever change: those of the request before are shared.
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

    /// Goes on from the request of another agent: its own requests begin with
    /// the same bytes. The conversation must hold the same messages.
    pub fn fork_from(&mut self, basis: &ForkBasis) {
        self.stored = basis.prefix();
        // Its own log says it too, for whoever goes on from there.
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
    /// Begins with messages of another conversation, which the log holds too.
    pub fn inherit(&mut self, messages: &[Arc<Message>]) -> std::io::Result<()> {
        let lines = messages.iter().map(|message| NewLogLine {
            uuid: uuid(),
            message: Message::clone(message),
            origin: MessageOrigin::Meta,
            tool_use_result: None,
        });
        let added = self.add(lines.collect());
        // They are the same, and others hold them as well.
        self.messages = messages.to_vec();
        added
    }
}
