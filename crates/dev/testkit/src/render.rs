use crate::{
    MockForm, Script, Turn,
    stream_steps::StreamStep,
    wire::{self, ReplyContext},
};

impl Turn {
    /// Returns the bytes of this turn's stream without faults, for tests of decoders without a network.
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
            MockForm::Messages => wire::messages::stream(self, &asked),
            MockForm::Bedrock => wire::bedrock::stream(self, &asked),
            MockForm::Chat => wire::chat::stream(self, &asked),
            MockForm::Responses => wire::responses::stream(self, &asked),
            MockForm::Gemini => wire::gemini::stream(self, &asked),
        };
        let bytes = steps.into_iter().filter_map(|step| match step {
            StreamStep::Bytes(bytes) => Some(bytes),
            StreamStep::Stall(_) | StreamStep::Cut(_) => None,
        });
        bytes.flatten().collect()
    }
}
