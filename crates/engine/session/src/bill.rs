//! What a session has used, model by model.

use std::collections::BTreeMap;

use haft_types::Usage;

/// What a session has used so far.
#[derive(Clone, Debug, Default)]
pub struct Bill {
    /// Tokens by model.
    pub models: BTreeMap<String, Usage>,
    /// Money in all.
    pub usd: f64,
}

impl Bill {
    /// An answer of this model is complete.
    pub fn add(&mut self, model: &str, usage: Usage) {
        *self.models.entry(model.to_owned()).or_default() += usage;
    }
}
