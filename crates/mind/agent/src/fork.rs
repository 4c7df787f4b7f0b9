//! Going on from another agent's requests: the same beginning, byte for byte.

use std::sync::{Arc, Mutex, PoisonError};

use haft_model::{ToolDef, ToolOrigin, ToolSet};
use haft_types::Message;

use crate::{
    Agent, AgentSettings, Conversation, Prompt, StoredPrefix,
    conversation::{NewLine, Origin, uuid},
    log::State,
    structured::STRUCTURED_OUTPUT,
};

/// What the last request of an agent was made of. Clones share it.
#[derive(Clone, Default)]
pub struct ForkPoint(Arc<Mutex<Option<Arc<ForkBasis>>>>);

/// What a request was made of, for an agent that goes on from it.
pub struct ForkBasis {
    /// How it was asked.
    pub settings: AgentSettings,
    /// What the agent is told first, as it is wanted now.
    pub prompt: Prompt,
    /// What it was told first.
    sent: Prompt,
    /// The same with what was told since.
    known: Prompt,
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
            prompt: Some(Box::new(self.sent.clone())),
            told: Some(Box::new(self.known.clone())),
            tools: of_servers.cloned().collect(),
        }
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
        self.fork_point.set(ForkBasis {
            settings: self.settings.clone(),
            prompt: self.prompt.clone(),
            sent: sent.clone(),
            known: known.clone(),
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
        self.note(State::Prompt { prompt: Box::new(basis.sent.clone()) });
        if basis.known != basis.sent {
            self.note(State::Told { prompt: Box::new(basis.known.clone()) });
        }
        if !self.stored.tools.is_empty() {
            let tools = self.stored.tools.clone();
            self.note(State::Tools { tools });
        }
        self.declared_only = basis.structured();
        self.tools.state.loaded.clone_from(&basis.loaded);
    }
}

impl Conversation {
    /// Begins with messages of another conversation, which the log holds too.
    pub fn inherit(&mut self, messages: &[Arc<Message>]) -> std::io::Result<()> {
        let lines = messages.iter().map(|message| NewLine {
            uuid: uuid(),
            message: Message::clone(message),
            origin: Origin::Meta,
            tool_use_result: None,
        });
        let added = self.add(lines.collect());
        // They are the same, and others hold them as well.
        self.messages = messages.to_vec();
        added
    }
}
