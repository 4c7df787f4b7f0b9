use serde_json::{Value, json};

use crate::fail;

/// Why a control request was not carried out, as text for the host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestProblem {
    text: String,
    code: Option<&'static str>,
}

impl RequestProblem {
    /// The request type is not supported.
    pub fn unsupported(subtype: &str) -> Self {
        let text = format!("Unsupported control request subtype: {subtype}");
        Self::coded("unsupported_request", text)
    }

    /// The request was understood but refused.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: None }
    }

    /// Like [`RequestProblem::refused`], with an error code for programs.
    pub fn coded(code: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), code: Some(code) }
    }

    /// The message, one sentence.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The error code, if there is one.
    pub fn code(&self) -> Option<&'static str> {
        self.code
    }

    /// The control response with this error.
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
