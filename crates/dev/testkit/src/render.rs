use crate::{
    MockForm, Script, Turn,
    forms::{self, ReplyContext},
    steps::StreamStep,
};

impl Turn {
    /// The bytes this turn streams in a form, faults left out: for tests of
    /// decoders without a network.
    pub fn bytes(&self, form: MockForm, model: &str) -> Vec<u8> {
        let defaults = Script::default();
        let asked = ReplyContext {
            index: 0,
            model,
            input_tokens: 10,
            bytes_per_token: defaults.bytes_per_token,
            delta_chars: defaults.delta_chars,
            routed: false,
        };
        let steps = match form {
            MockForm::Messages => forms::messages::stream(self, &asked),
            MockForm::Bedrock => forms::bedrock::stream(self, &asked),
            MockForm::Chat => forms::chat::stream(self, &asked),
            MockForm::Responses => forms::responses::stream(self, &asked),
            MockForm::Gemini => forms::gemini::stream(self, &asked),
        };
        let bytes = steps.into_iter().filter_map(|step| match step {
            StreamStep::Bytes(bytes) => Some(bytes),
            StreamStep::Stall(_) | StreamStep::Cut(_) => None,
        });
        bytes.flatten().collect()
    }
}
