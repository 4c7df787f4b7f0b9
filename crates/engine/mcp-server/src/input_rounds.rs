//! Questions to clients of the modern protocol: the call ends with the questions and is repeated with
//! the answers.
//!
//! The server keeps no state in between. Previous questions and answers are sent to the client in sealed
//! form and come back with the repeated call.

use std::{collections::BTreeMap, time::Duration};

use haft_tool::check_input;
use rmcp::{
    ErrorData,
    model::{CallToolRequestParams, InputRequest, InputRequiredResult, RequestStateCodec, SealOptions},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::call_clients::{ClientInput, InputKind};
use haft_types::text::hex;

/// How long a user may take to answer.
const VALID_FOR: Duration = Duration::from_secs(30 * 60);

/// Seals the state that clients carry, with a key that lives as long as the process.
pub(super) struct StateSealer {
    codec: RequestStateCodec,
    key: Vec<u8>,
}

impl StateSealer {
    pub(super) fn fresh() -> Self {
        let mut key = Vec::new();
        for _ in 0..2 {
            key.extend_from_slice(uuid::Uuid::new_v4().as_bytes());
        }
        // The key is long enough by construction.
        Self { codec: RequestStateCodec::new_unchecked(key.clone()), key }
    }

    /// Returns a MAC of a text.
    pub(super) fn mark(&self, text: &str) -> String {
        let inner = Sha256::digest([self.key.as_slice(), text.as_bytes()].concat());
        hex(&Sha256::digest([self.key.as_slice(), inner.as_slice()].concat()))[..32].to_owned()
    }
}

/// One round of a call.
pub(super) struct InputRound<'a> {
    seal: &'a StateSealer,
    /// Binds the state to this tool and these arguments.
    binding: Vec<u8>,
    carried: SealedState,
}

/// The state that travels with the client.
#[derive(Default, Deserialize, Serialize)]
struct SealedState {
    /// Hash of every question, by key.
    asked: BTreeMap<String, String>,
    answers: BTreeMap<String, Value>,
}

impl<'a> InputRound<'a> {
    /// Opens the state in a request.
    pub(super) fn open(seal: &'a StateSealer, params: &CallToolRequestParams) -> Result<Self, ErrorData> {
        let call = serde_json::to_vec(&(&params.name, &params.arguments))
            .map_err(|err| ErrorData::internal_error(err.to_string(), None))?;
        let binding = Sha256::digest(call).to_vec();
        let mut carried: SealedState = match &params.request_state {
            Some(state) => seal.codec.open_json_with(state, &binding).map_err(|_| {
                let reason = "requestState was not made for this call, was changed, or is too old";
                ErrorData::invalid_params(reason, None)
            })?,
            None => SealedState::default(),
        };
        carried.answers.extend(params.input_responses.clone().unwrap_or_default());
        Ok(Self { seal, binding, carried })
    }

    /// Returns the answers to these questions, if all are present and valid.
    pub(super) fn answers(&self, inputs: &[ClientInput]) -> Option<Vec<Value>> {
        inputs.iter().map(|input| self.answer(input)).collect()
    }

    fn answer(&self, input: &ClientInput) -> Option<Value> {
        let answer = self.carried.answers.get(&input.key)?;
        let was_asked = self.carried.asked.get(&input.key) == Some(&fingerprint(input));
        let counts = was_asked || !input.must_be_asked;
        (counts && makes_sense(input, answer)).then(|| answer.clone())
    }

    /// Builds the result that asks for the missing answers.
    pub(super) fn request(&mut self, inputs: &[ClientInput]) -> Result<InputRequiredResult, ErrorData> {
        let mut requests = BTreeMap::new();
        for input in inputs.iter().filter(|input| self.answer(input).is_none()) {
            requests.insert(input.key.clone(), to_request(input)?);
        }
        for input in inputs {
            self.carried.asked.insert(input.key.clone(), fingerprint(input));
        }
        self.carried.answers.retain(|key, _| !requests.contains_key(key));
        let options = SealOptions::new().associated_data(&self.binding).ttl(VALID_FOR);
        let state = self.seal.codec.seal_json_with(&self.carried, &options);
        let state = state.map_err(|err| ErrorData::internal_error(err.to_string(), None))?;
        Ok(InputRequiredResult::new(Some(requests), Some(state)))
    }
}

fn fingerprint(input: &ClientInput) -> String {
    hex(&Sha256::digest(json!([input.key, input.kind.method(), input.params]).to_string()))
}

/// Converts a question to the SDK's type.
pub(super) fn to_request(input: &ClientInput) -> Result<InputRequest, ErrorData> {
    let request = json!({"method": input.kind.method(), "params": input.params});
    serde_json::from_value(request).map_err(|err| ErrorData::internal_error(err.to_string(), None))
}

/// Whether an answer has the expected form.
fn makes_sense(input: &ClientInput, answer: &Value) -> bool {
    match input.kind {
        InputKind::Elicit => match answer["action"].as_str() {
            Some("decline" | "cancel") => true,
            Some("accept") => match input.params.get("requestedSchema") {
                Some(schema) => check_input("elicitation", schema, &mut answer["content"].clone()).is_ok(),
                None => true,
            },
            _ => false,
        },
        InputKind::Sample => answer["content"].is_object() || answer["content"].is_array(),
        InputKind::Roots => answer["roots"].is_array(),
    }
}
