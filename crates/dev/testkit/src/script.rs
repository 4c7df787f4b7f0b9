use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Turn;

/// What a [`MockModel`](crate::MockModel) plays: a list of answers, and how
/// strict it is with who asks.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Whether requests are judged. Off, anything that is JSON is answered.
    pub strict: bool,
    /// Tokens that input and output may have together.
    pub window: u64,
    /// What a request is told that does not fit the window, instead of the words of
    /// its form: services differ in whether they name any numbers.
    pub window_words: Option<String>,
    /// Tokens an answer may have at most.
    pub max_output: u64,
    /// How many bytes of text count as one token.
    pub bytes_per_token: f64,
    /// How many characters of text one streamed piece has.
    pub delta_chars: usize,
    /// What a request may hold.
    pub limits: MockLimits,
    /// Whether a thinking block is tied to everything before it, as with the
    /// newest models.
    pub bind_thinking: bool,
    /// Refuses other keys (`x-api-key`, `api-key` or bearer).
    pub api_key: Option<String>,
    /// Checks the AWS signature of requests in the Bedrock form.
    pub aws: Option<AwsKey>,
    /// Refusals on top of the rules.
    pub force: Vec<Forced>,
    /// Keeps only the last so many requests, for long runs.
    pub keep_requests: Option<usize>,
    /// The answers, in order.
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
    /// A strict script with these answers.
    pub fn from_turns(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { turns: turns.into_iter().collect(), ..Self::default() }
    }

    /// Reads a script file.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScriptError::Read { path: path.display().to_string(), source })?;
        serde_json::from_str(&text)
            .map_err(|source| ScriptError::Parse { path: path.display().to_string(), source })
    }
}

/// Why a script file cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    Read {
        /// The file that was to be read.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a script.
    #[error("{path}: {source}")]
    Parse {
        /// The file that was to be read.
        path: String,
        /// Where and why.
        source: serde_json::Error,
    },
}

/// What a request may hold.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockLimits {
    /// Bytes of the whole body.
    pub body_bytes: usize,
    /// Bytes of one picture, as base64 text.
    pub image_bytes: usize,
    /// Pixels of the longer side of a picture.
    pub image_px: usize,
    /// With more pictures than this, `many_image_px` holds.
    pub many_images: usize,
    /// Pixels of the longer side when there are many.
    pub many_image_px: usize,
    /// Pictures in all.
    pub images: usize,
    /// PDF pages in all.
    pub pdf_pages: usize,
    /// Characters of a tool's name.
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

/// The AWS key whose signature is right.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AwsKey {
    /// Access key id.
    pub access_key: String,
    /// Secret access key.
    pub secret_key: String,
    /// Region of the scope.
    pub region: String,
}

/// A refusal that no rule asks for: what a service does on a bad day.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Forced {
    /// Refuses every request whose body holds this text.
    pub body_contains: Option<String>,
    /// Refuses every request that holds a picture or document with this index
    /// (counted over the whole request), naming its path.
    pub media: Option<usize>,
    /// Refuses every request that holds a thinking block, naming the first.
    pub thinking: bool,
    /// What the refusal says after the path.
    pub message: String,
    /// How often; without it, always.
    pub times: Option<usize>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ReplyPiece, StreamStall, Times};

    #[test]
    fn a_script_file_says_what_it_means() {
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
    fn a_misspelt_field_is_an_error() {
        for wrong in
            [json!({"turn": []}), json!({"turns": [{"replies": []}]}), json!({"turns": [{"times": "ever"}]})]
        {
            assert!(serde_json::from_value::<Script>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
