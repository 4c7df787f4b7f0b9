//! What refusals say about models, remembered for the life of a provider.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::lint::RefusalFix;

/// What a provider said about a model that the list does not know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ModelLimits {
    /// Maximum tokens of an answer.
    pub(crate) answer: Option<u64>,
    /// Maximum tokens of input and answer together.
    pub(crate) window: Option<u64>,
    /// The model has no tool calls of its own.
    pub(crate) no_calls: bool,
    /// The server takes tools for this model only in the Responses form.
    pub(crate) only_responses: bool,
}

/// What was learnt from refusals, by model.
#[derive(Default)]
pub(crate) struct ReportedLimits(Mutex<HashMap<String, ModelLimits>>);

impl ReportedLimits {
    pub(crate) fn get(&self, model: &str) -> ModelLimits {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(model).copied().unwrap_or_default()
    }

    /// Remembers what a refusal says about the model, so that no later request
    /// is refused for the same reason.
    pub(crate) fn learn(&self, model: &str, cure: &RefusalFix) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limits = told.entry(model.to_owned()).or_default();
        match *cure {
            RefusalFix::MaxTokens(limit) => limits.answer = Some(limit),
            RefusalFix::Room { window, .. } => limits.window = Some(window),
            RefusalFix::PromptTools => limits.no_calls = true,
            RefusalFix::Responses => limits.only_responses = true,
            _ => (),
        }
    }
}
