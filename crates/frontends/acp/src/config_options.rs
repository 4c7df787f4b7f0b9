//! Options the user can set in a session: mode, model, effort.

use std::sync::Arc;

use haft_model::{Catalog, Effort};
use haft_types::PermissionMode;
use serde_json::{Value, json};

/// Ids of the options in the protocol.
pub(crate) const MODE: &str = "mode";
pub(crate) const MODEL: &str = "model";
pub(crate) const EFFORT: &str = "effort";

/// Value that leaves the effort to the model.
const UNSAID: &str = "default";

/// Current and available values of the options.
#[derive(Clone)]
pub(crate) struct SessionChoices {
    pub(crate) mode: PermissionMode,
    pub(crate) may_bypass: bool,
    /// Models by the names a user may use; the first is the initial one.
    pub(crate) models: Vec<(String, String)>,
    /// Full name of the current model.
    pub(crate) model: String,
    pub(crate) effort: Option<Effort>,
    pub(crate) catalog: Arc<Catalog>,
}

impl SessionChoices {
    /// Returns the context window of the current model in tokens.
    pub(crate) fn window(&self) -> u64 {
        self.catalog.get(&self.model).window
    }

    fn offered_modes(&self) -> impl Iterator<Item = PermissionMode> {
        let (may_bypass, now) = (self.may_bypass, self.mode);
        PermissionMode::ALL
            .into_iter()
            .filter(move |it| *it != PermissionMode::BypassPermissions || may_bypass || now == *it)
    }

    /// Returns the mode with this name, if it is offered.
    pub(crate) fn read_mode(&self, name: &str) -> Option<PermissionMode> {
        self.offered_modes().find(|it| it.name() == name)
    }

    /// Whether a model with this name is offered.
    pub(crate) fn offers_model(&self, name: &str) -> bool {
        name == self.model || self.models.iter().any(|(short, _)| short == name)
    }

    /// Parses an effort: a level, or `Some(None)` for the model's default. `None` if invalid.
    pub(crate) fn read_effort(&self, name: &str) -> Option<Option<Effort>> {
        if name == UNSAID {
            return Some(None);
        }
        let offered = self.efforts().iter().any(|it| it == name);
        EFFORTS.into_iter().find(|it| offered && it.as_str() == name).map(Some)
    }

    fn efforts(&self) -> Vec<String> {
        self.catalog.get(&self.model).efforts
    }

    /// Returns the modes in the older format, for editors that do not know options.
    pub(crate) fn modes(&self) -> Value {
        let modes: Vec<Value> = self
            .offered_modes()
            .map(|it| json!({"id": it.name(), "name": mode_name(it), "description": mode_about(it)}))
            .collect();
        json!({"currentModeId": self.mode.name(), "availableModes": modes})
    }

    /// Returns all options.
    pub(crate) fn options(&self) -> Value {
        let modes: Vec<Value> = self
            .offered_modes()
            .map(|it| json!({"value": it.name(), "name": mode_name(it), "description": mode_about(it)}))
            .collect();
        let mut options = vec![json!({
            "type": "select", "id": MODE, "name": "Mode", "category": "mode",
            "description": "What happens to calls no rule speaks about",
            "currentValue": self.mode.name(), "options": modes,
        })];
        options.push(self.model_option());
        let efforts = self.efforts();
        if !efforts.is_empty() {
            let mut values = vec![json!({"value": UNSAID, "name": "Default"})];
            values.extend(efforts.iter().map(|it| json!({"value": it, "name": capitalised(it)})));
            options.push(json!({
                "type": "select", "id": EFFORT, "name": "Effort", "category": "thought_level",
                "description": "How hard the model tries",
                "currentValue": self.effort.map_or(UNSAID, Effort::as_str), "options": values,
            }));
        }
        Value::Array(options)
    }

    fn model_option(&self) -> Value {
        let mut values: Vec<Value> = Vec::new();
        for (short, id) in &self.models {
            let name = if short == UNSAID { format!("Default ({id})") } else { capitalised(short) };
            values.push(json!({"value": short, "name": name, "description": id}));
        }
        let known = self.models.iter().find(|(_, id)| *id == self.model).map(|(short, _)| short.clone());
        let current = known.unwrap_or_else(|| {
            values.push(json!({"value": self.model, "name": self.model}));
            self.model.clone()
        });
        json!({
            "type": "select", "id": MODEL, "name": "Model", "category": "model",
            "currentValue": current, "options": values,
        })
    }
}

const EFFORTS: [Effort; 5] = [Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max];

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn mode_name(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "Ask",
        PermissionMode::AcceptEdits => "Accept edits",
        PermissionMode::Plan => "Plan",
        PermissionMode::Auto => "Auto",
        PermissionMode::DontAsk => "Don't ask",
        PermissionMode::BypassPermissions => "Bypass permissions",
    }
}

fn mode_about(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "Reads inside the workspace run, everything else asks",
        PermissionMode::AcceptEdits => "Edits of files inside the workspace run too",
        PermissionMode::Plan => "Only reads run",
        PermissionMode::Auto => "A classifier answers instead of you",
        PermissionMode::DontAsk => "What would ask is denied",
        PermissionMode::BypassPermissions => "What would ask runs, except what always asks",
    }
}
