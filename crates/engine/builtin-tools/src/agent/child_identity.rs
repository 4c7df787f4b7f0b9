use std::path::PathBuf;

use haft_types::{AgentId, CallId};
use serde_json::{Value, json};

/// An agent that another one started.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildIdentity {
    /// The agent.
    pub id: AgentId,
    /// This run of it.
    pub run_id: String,
    /// Its kind.
    pub kind: String,
    /// The name it is reached by, if it has one.
    pub name: Option<String>,
    /// What it does, in a few words.
    pub description: String,
    /// The task.
    pub prompt: String,
    /// The call that started it.
    pub call: CallId,
    /// Who started it.
    pub parent: AgentId,
    /// How far below the main agent it is.
    pub depth: u32,
    /// Whether nobody waits for it.
    pub in_background: bool,
    /// What the call that started it said about that, if it said something.
    pub wanted_background: Option<bool>,
    /// Its model.
    pub model: String,
    /// Who chose its model, in words.
    pub model_from: String,
    /// Its log, if there is one.
    pub log: Option<PathBuf>,
    /// The skill it carries out, if one started it.
    pub skill: Option<String>,
    /// The team it belongs to, if it belongs to one: no other team has this word.
    pub team: Option<String>,
}

impl ChildIdentity {
    /// What programs read of a call that started it in the background.
    pub(crate) fn launched_json(&self) -> Value {
        json!({
            "status": "async_launched", "isAsync": true, "agentId": self.id.to_string(), "agentType": self.kind,
            "description": self.description, "prompt": self.prompt, "runId": self.run_id,
            "outputFile": self.log.as_ref().map(|it| it.display().to_string()).unwrap_or_default(),
            "resolvedModel": self.model, "modelFrom": self.model_from,
            "canReadOutputFile": false,
        })
    }

    /// What the model reads of a call that started it in the background.
    pub(crate) fn launched_text(&self) -> String {
        let name = self.name.as_ref().map(|it| format!(", name {it}")).unwrap_or_default();
        format!(
            "The agent {} ({}{name}) works in the background. Its report comes by itself when it ends: do not wait or poll for it, and go on with other work or end your turn.",
            self.id, self.kind
        )
    }
}
