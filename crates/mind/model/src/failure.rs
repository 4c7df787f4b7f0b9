//! What an HTTP error means.

use serde_json::Value;

use crate::ModelError;

/// Most of an error body that is read and shown.
pub(crate) const SHOWN: usize = 2000;

/// The error of a status and its body, in any provider's form.
pub(crate) fn of_status(status: u16, body: &[u8]) -> ModelError {
    let message = message_of(body);
    match status {
        401 | 403 => {
            ModelError::Auth { message: format!("the provider refused the key ({status}): {message}") }
        }
        404 => ModelError::UnknownModel { message: format!("no such model or address (404): {message}") },
        413 => ModelError::TooLong { message, tokens: None, window: None },
        429 => ModelError::RateLimited { message, retry_after: None },
        408 | 409 | 425 | 500.. => ModelError::Server { status, message },
        _ => of_refusal(message),
    }
}

/// A refusal of the request itself.
fn of_refusal(message: String) -> ModelError {
    if let Some((tokens, window)) = too_long(&message) {
        return ModelError::TooLong { message, tokens, window };
    }
    ModelError::Invalid { message }
}

/// Whether a refusal says that the conversation does not fit, and the numbers.
fn too_long(message: &str) -> Option<(Option<u64>, Option<u64>)> {
    let numbers: Vec<u64> = message
        .split(|it: char| !it.is_ascii_digit())
        .filter(|text| text.len() > 2)
        .filter_map(|text| text.parse().ok())
        .collect();
    let number = |at: usize| numbers.get(at).copied();
    if message.contains("prompt is too long") {
        return Some((number(0), number(1)));
    }
    let says_so =
        ["maximum context length", "context_length_exceeded", "exceeds the context window", "context size"];
    if says_so.iter().any(|words| message.contains(words)) {
        return Some((number(1), number(0)));
    }
    None
}

/// The words of an error body.
pub(crate) fn message_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned();
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        let text = text.trim();
        return if text.is_empty() { "no message".to_owned() } else { text.to_owned() };
    };
    let places =
        [&value["error"]["message"], &value["message"], &value["Message"], &value["error"], &value["detail"]];
    let found = places.into_iter().find_map(Value::as_str);
    let found = found.map_or(text, str::to_owned);
    haft_types::text::head(&found, SHOWN).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_words_are_understood() {
        let body =
            |message: &str| format!(r#"{{"type":"error","error":{{"type":"x","message":"{message}"}}}}"#);
        let long = of_status(400, body("prompt is too long: 211539 tokens > 200000 maximum").as_bytes());
        assert!(
            matches!(long, ModelError::TooLong { tokens: Some(211_539), window: Some(200_000), .. }),
            "{long:?}"
        );
        let openai =
            body("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens");
        let long = of_status(400, openai.as_bytes());
        assert!(
            matches!(long, ModelError::TooLong { tokens: Some(9000), window: Some(8192), .. }),
            "{long:?}"
        );
        assert!(
            matches!(of_status(400, body("no").as_bytes()), ModelError::Invalid { message } if message == "no")
        );
        assert!(matches!(of_status(529, b""), ModelError::Server { status: 529, .. }));
        assert!(matches!(of_status(401, b"<html>"), ModelError::Auth { .. }));
        assert_eq!(message_of(br#"{"message":"aws"}"#), "aws");
        assert_eq!(message_of(b"plain"), "plain");
        assert_eq!(message_of(b""), "no message");
    }
}
