//! A deterministic token counter; not that of any real model.

use base64::Engine as _;
use serde_json::Value;

use crate::pdf;

/// Tokens of a PDF page.
const PDF_PAGE: u64 = 1500;
/// Maximum tokens of an image, also used if its size is unknown.
const IMAGE: u64 = 1600;

/// Counts the input tokens of a Messages request.
pub(crate) fn of_messages_request(body: &Value, bytes_per_token: f64) -> u64 {
    let mut total = TokenCount::default();
    for key in ["system", "messages"] {
        total.add(&body[key]);
    }
    for tool in body["tools"].as_array().into_iter().flatten() {
        if tool["defer_loading"] != true {
            total.add(tool);
        }
    }
    total.tokens(bytes_per_token)
}

/// Counts the tokens of a request of any other API: all of its text.
pub(crate) fn of_request(body: &Value, bytes_per_token: f64) -> u64 {
    let mut total = TokenCount::default();
    for key in ["instructions", "input", "messages", "systemInstruction", "contents", "tools"] {
        total.add(&body[key]);
    }
    total.tokens(bytes_per_token)
}

/// Counts the tokens of a text.
pub(crate) fn of_text(text: &str, bytes_per_token: f64) -> u64 {
    TokenCount { bytes: text.len() as u64, extra: 0 }.tokens(bytes_per_token)
}

#[derive(Default)]
struct TokenCount {
    bytes: u64,
    extra: u64,
}

impl TokenCount {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a count of bytes is far below 2^52"
    )]
    fn tokens(&self, bytes_per_token: f64) -> u64 {
        (self.bytes as f64 / bytes_per_token.max(0.1)).ceil() as u64 + self.extra
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) => self.bytes += 4,
            Value::String(text) if text.starts_with("data:") => self.extra += IMAGE,
            Value::String(text) => self.bytes += text.len() as u64 + 2,
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(fields) if fields.contains_key("inlineData") => {
                self.extra += media_tokens(&fields["inlineData"])
            }
            Value::Object(fields) if fields.get("type").is_some_and(|it| it == "base64") => {
                self.extra += media_tokens(value);
            }
            Value::Object(fields) => {
                for (key, item) in fields {
                    if key != "cache_control" && key != "thoughtSignature" {
                        self.bytes += key.len() as u64 + 3;
                        self.add(item);
                    }
                }
            }
        }
    }
}

fn media_tokens(source: &Value) -> u64 {
    let data = source["data"].as_str().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default();
    if let Some(pages) = pdf::pages(&bytes) {
        return PDF_PAGE * pages as u64;
    }
    match imagesize::blob_size(&bytes) {
        Ok(size) => (size.width as u64 * size.height as u64 / 750).clamp(1, IMAGE),
        Err(_) => IMAGE,
    }
}
