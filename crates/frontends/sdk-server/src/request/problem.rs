use serde_json::{Value, json};

use crate::fail;

/// Why a control request was not carried out, in words for the host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestProblem {
    text: String,
    code: Option<&'static str>,
}

impl RequestProblem {
    /// A request that this version does not answer.
    pub fn unsupported(subtype: &str) -> Self {
        let text = format!("Unsupported control request subtype: {subtype}");
        Self::coded("unsupported_request", text)
    }

    /// A request that was understood and is not carried out.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: None }
    }

    /// The same, with a word for programs.
    pub fn coded(code: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), code: Some(code) }
    }

    /// What is wrong, in a sentence.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The word for programs, if there is one.
    pub fn code(&self) -> Option<&'static str> {
        self.code
    }

    /// The control response that tells the host.
    pub fn frame(&self, request_id: &str) -> Value {
        let mut refusal = fail(request_id, &self.text);
        if let Some(code) = self.code {
            refusal["response"]["error_code"] = json!(code);
        }
        refusal
    }
}

impl From<String> for RequestProblem {
    fn from(text: String) -> Self {
        Self::refused(text)
    }
}

impl std::fmt::Display for RequestProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for RequestProblem {}
