//! Validation rules of the real services, with their error texts.

mod blocks;
mod forced_refusals;
mod gemini;
mod media;
mod messages;
mod openai;
mod pairing;
mod schema;
mod server_tools;
mod text;
mod thinking;
mod tools;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

use crate::{MockForm, Script, token_counter};

pub(crate) use forced_refusals::ForceCounts;
pub(crate) use thinking::prefix;

/// A rejection, with the service's error text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MockRefusal {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

impl MockRefusal {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, kind: "invalid_request_error", message: message.into() }
    }
}

pub(crate) type RuleVerdict = Result<(), MockRefusal>;

/// Creates a rejection that names a path.
pub(crate) fn refuse<T>(path: &str, what: &str) -> Result<T, MockRefusal> {
    Err(MockRefusal::invalid(format!("{path}: {what}")))
}

/// Thinking blocks issued by this server: signature, and hash of the conversation before it.
#[derive(Debug, Default)]
pub(crate) struct IssuedThinking(Mutex<HashMap<String, String>>);

impl IssuedThinking {
    pub(crate) fn add(&self, signature: String, prefix: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(signature, prefix);
    }

    fn prefix(&self, signature: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(signature).cloned()
    }
}

/// Context for validating a request.
pub(crate) struct RequestJudge<'a> {
    pub(crate) script: &'a Script,
    /// Context window: maximum tokens of request and answer together.
    pub(crate) window: u64,
    pub(crate) issued: &'a IssuedThinking,
    pub(crate) forced: &'a ForceCounts,
}

impl RequestJudge<'_> {
    /// Rejects a request that exceeds the window, with the script's error text or the API's.
    fn too_long<T>(&self, usual: String) -> Result<T, MockRefusal> {
        Err(MockRefusal::invalid(self.script.window_words.clone().unwrap_or(usual)))
    }

    /// Validates a JSON body and returns its token count. `model` is the requested model, wherever the
    /// request names it.
    pub(crate) fn judge(&self, form: MockForm, model: &str, body: &Value) -> Result<u64, MockRefusal> {
        let per_token = self.script.bytes_per_token;
        match form {
            MockForm::Messages | MockForm::Bedrock => {
                let count = token_counter::of_messages_request(body, per_token);
                if self.script.strict {
                    messages::check(self, model, body, count)?;
                }
                self.forced.check(self.script, body)?;
                Ok(count)
            }
            MockForm::Chat => {
                let count = token_counter::of_request(body, per_token);
                if self.script.strict {
                    openai::check_chat(self, body, count)?;
                }
                Ok(count)
            }
            MockForm::Gemini => {
                let count = token_counter::of_request(body, per_token);
                if self.script.strict {
                    gemini::check(self, model, body, count)?;
                }
                Ok(count)
            }
            MockForm::Responses => {
                let count = token_counter::of_request(body, per_token);
                if self.script.strict {
                    openai::check_responses(self, body, count)?;
                }
                Ok(count)
            }
        }
    }
}

/// Parses a body as strictly as the services do.
pub(crate) fn parse(script: &Script, raw: &[u8]) -> Result<Value, MockRefusal> {
    if script.strict && raw.len() > script.limits.body_bytes {
        let message = "Request exceeds the maximum size".to_owned();
        return Err(MockRefusal { status: 413, kind: "request_too_large", message });
    }
    if script.strict {
        text::check(raw)?;
    }
    serde_json::from_slice(raw)
        .map_err(|err| MockRefusal::invalid(format!("The request body is not valid JSON: {err}")))
}

/// Returns the blocks of a message; a plain string counts as one text block.
pub(crate) fn blocks(content: &Value) -> &[Value] {
    content.as_array().map_or(&[], Vec::as_slice)
}
