use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Turn;

/// Script of a [`MockModel`](crate::MockModel): answers, and validation settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Whether requests are validated. If not, any JSON is answered.
    pub strict: bool,
    /// Context window: maximum tokens of input and output together.
    pub window: u64,
    /// Error text for a request that exceeds the window, in place of the API's usual one. Services
    /// differ in whether it contains numbers.
    pub window_words: Option<String>,
    /// Maximum output tokens.
    pub max_output: u64,
    /// Bytes of text per token.
    pub bytes_per_token: f64,
    /// Characters of text per streamed delta.
    pub delta_chars: usize,
    /// Limits on requests.
    pub limits: MockLimits,
    /// Whether a thinking block is bound to everything before it, as with the newest models.
    pub bind_thinking: bool,
    /// Required key (`x-api-key`, `api-key` or bearer); others are rejected.
    pub api_key: Option<String>,
    /// Key for validating AWS signatures of Bedrock requests.
    pub aws: Option<AwsKey>,
    /// Additional rejections.
    pub force: Vec<Forced>,
    /// Maximum number of recorded requests, for long runs; older ones are dropped.
    pub keep_requests: Option<usize>,
    /// Answers, in order.
    pub turns: Vec<Turn>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            strict: true,
            window: 200_000,
            window_words: None,
            max_output: 64_000,
            bytes_per_token: 4.0,
            delta_chars: 24,
            limits: MockLimits::default(),
            bind_thinking: false,
            api_key: None,
            aws: None,
            force: Vec::new(),
            keep_requests: None,
            turns: Vec::new(),
        }
    }
}

impl Script {
    /// Creates a strict script with these answers.
    pub fn from_turns(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { turns: turns.into_iter().collect(), ..Self::default() }
    }

    /// Loads a script file.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Read { path: path.display().to_string(), source })?;
        serde_json::from_str(&text)
            .map_err(|source| ScriptError::Parse { path: path.display().to_string(), source })
    }
}

/// Why a script file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    Read { path: String, source: std::io::Error },
    /// The file is not a valid script.
    #[error("{path}: {source}")]
    Parse { path: String, source: serde_json::Error },
}

/// Limits on requests.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockLimits {
    /// Maximum bytes of the body.
    pub body_bytes: usize,
    /// Maximum base64 bytes of an image.
    pub image_bytes: usize,
    /// Maximum pixels of an image's longer side.
    pub image_px: usize,
    /// Number of images above which `many_image_px` applies.
    pub many_images: usize,
    /// Maximum pixels of the longer side with many images.
    pub many_image_px: usize,
    /// Maximum images.
    pub images: usize,
    /// Maximum PDF pages.
    pub pdf_pages: usize,
    /// Maximum characters of a tool name.
    pub tool_name: usize,
}

impl Default for MockLimits {
    fn default() -> Self {
        Self {
            body_bytes: 32 * 1024 * 1024,
            image_bytes: 5 * 1024 * 1024,
            image_px: 8000,
            many_images: 20,
            many_image_px: 2000,
            images: 100,
            pdf_pages: 100,
            tool_name: 64,
        }
    }
}

/// The AWS key whose signatures are valid.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AwsKey {
    pub access_key: String,
    pub secret_key: String,
    /// Region in the credential scope.
    pub region: String,
}

/// A forced rejection, as services produce them occasionally.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Forced {
    /// Rejects requests whose body contains this text.
    pub body_contains: Option<String>,
    /// Rejects requests that contain an image or document with this index (counted over the whole
    /// request), naming its path.
    pub media: Option<usize>,
    /// Rejects requests that contain thinking, naming the first block.
    pub thinking: bool,
    /// Error text after the path.
    pub message: String,
    /// Number of rejections; unlimited by default.
    pub times: Option<usize>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ReplyPiece, StreamStall, Times};

    #[test]
    fn script_file_parses() {
        let script: Script = serde_json::from_value(json!({
            "window": 20_000,
            "turns": [
                {"error": {"status": 529, "type": "overloaded_error", "message": "Overloaded",
                           "headers": {"retry-after": "1"}}},
                {"when": {"last_user": "hello", "model": {"regex": "^claude-"}}, "times": "always",
                 "reply": [{"text": "hi"}, {"tool": {"name": "Read", "input": {"file_path": "/x"}}},
                           {"stall": 5}, {"stall": "forever"}, {"cut": "reset"}]},
                {"times": 3, "reply": [{"thinking": "hm"}], "cut": {"byte": 100, "what": "end"}},
            ],
        }))
        .unwrap();
        assert_eq!(script.window, 20_000);
        assert!(script.strict);
        assert_eq!(script.turns[1].times, Times::Always);
        assert!(matches!(script.turns[1].reply[2], ReplyPiece::Stall(StreamStall::Ms(5))));
        assert!(matches!(script.turns[1].reply[3], ReplyPiece::Stall(StreamStall::Forever)));
        assert_eq!(script.turns[2].times, Times::Count(3));
        assert!(script.turns[1].when.last_user.as_ref().unwrap().fits("well hello"));
        let again: Script = serde_json::from_value(serde_json::to_value(&script).unwrap()).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&script).unwrap());
    }

    #[test]
    fn unknown_script_field_is_an_error() {
        for wrong in
            [json!({"turn": []}), json!({"turns": [{"replies": []}]}), json!({"turns": [{"times": "ever"}]})]
        {
            assert!(serde_json::from_value::<Script>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
