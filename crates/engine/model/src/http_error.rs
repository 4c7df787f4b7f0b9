//! What an HTTP error means.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use regex::Regex;
use serde_json::Value;

use crate::{ModelError, endpoint::is_this_machine};

/// Most of an error body that is read and shown.
pub(crate) const SHOWN: usize = 2000;

/// The error of a status and its body, in any provider's form.
pub(crate) fn of_status(status: u16, body: &[u8]) -> ModelError {
    let message = message_of(body);
    // Google says of a wrong key that the request is wrong.
    let status = if status == 400 && message.starts_with("API key ") { 401 } else { status };
    match status {
        401 => {
            let help = "look at the variable that holds it, or keep another with `haft login`";
            ModelError::Auth { message: format!("the provider refused the key (401): {message}; {help}") }
        }
        403 => ModelError::Auth { message: format!("the provider refused the key (403): {message}") },
        404 => ModelError::UnknownModel { message: format!("no such model or address (404): {message}") },
        413 => ModelError::TooLong { message, tokens: None, window: None },
        // No money is left: waiting does not help.
        402 => ModelError::Auth { message: format!("the provider wants to be paid (402): {message}") },
        429 if code_of(body).as_deref() == Some("insufficient_quota") => {
            ModelError::Auth { message: format!("the account has nothing left (429): {message}") }
        }
        429 => ModelError::RateLimited { message, retry_after: None },
        408 | 409 | 425 | 500.. => ModelError::Server { status, message },
        _ if code_of(body).as_deref() == Some("context_length_exceeded") => {
            let TooLong { tokens, window } =
                too_long(&message).unwrap_or(TooLong { tokens: None, window: None });
            ModelError::TooLong { message, tokens, window }
        }
        _ => of_refusal(message),
    }
}

/// The code of an error body, where it has one.
fn code_of(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    [&value["error"]["code"], &value["code"]].into_iter().find_map(Value::as_str).map(str::to_owned)
}

/// How long a body says to wait: as Google's errors do (`"retryDelay": "34.5s"`),
/// or as OpenRouter's do, with the time from which on it answers again, in
/// milliseconds since 1970.
pub(crate) fn retry_delay(body: &[u8], now: SystemTime) -> Option<Duration> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let details = value["error"]["details"].as_array().into_iter().flatten();
    if let Some(text) = details.filter_map(|it| it["retryDelay"].as_str()).next() {
        let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let reset = &value["error"]["metadata"]["headers"]["X-RateLimit-Reset"];
    let reset = reset.as_u64().or_else(|| reset.as_str()?.trim().parse().ok())?;
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(reset))?;
    Some(at.duration_since(now).unwrap_or_default())
}

/// A transport error in words, with the server and without the rest of the address.
/// An address that is none is a mistake of settings, which no patience cures.
pub(crate) fn of_transport(err: reqwest::Error) -> ModelError {
    if err.is_builder() {
        let said = haft_net::with_causes(&err.without_url());
        return ModelError::config(format!(
            "the address of the provider cannot be used ({said}): it begins with http:// or https:// and names a host; \
             look at --base-url, ANTHROPIC_BASE_URL or the variable of your provider"
        ));
    }
    let server = err.url().and_then(|url| {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("{}{port}: ", url.host_str()?))
    });
    let is_ours = err.is_connect() && err.url().is_some_and(|url| is_this_machine(url.as_str()));
    let help = if is_ours { ". Is a server running there? `haft models` shows those that are" } else { "" };
    let said = haft_net::with_causes(&err.without_url());
    ModelError::Network { message: format!("{}{said}{help}", server.unwrap_or_default()) }
}

/// A refusal of the request itself.
pub(crate) fn of_refusal(message: String) -> ModelError {
    if let Some(TooLong { tokens, window }) = too_long(&message) {
        return ModelError::TooLong { message, tokens, window };
    }
    ModelError::Invalid { message }
}

/// What a refusal says about a conversation that does not fit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct TooLong {
    tokens: Option<u64>,
    window: Option<u64>,
}

/// What the services say of a conversation that does not fit, in lower case.
/// None of them is said of a single field that is too long.
const TOO_LONG: [&str; 13] = [
    "prompt is too long",
    "input is too long",
    "request is too long",
    "maximum context length",
    "context_length_exceeded",
    "exceeds the context window",
    "exceed the context window",
    "exceed context limit",
    "context size",
    "context length of",
    "reduce the length of",
    "exceeds the maximum number of tokens",
    "exceed_context_size",
];

struct TooLongPatterns {
    /// Input and answer together: a shorter answer would do.
    together: [Regex; 2],
    window: Regex,
    tokens: Regex,
}

static NUMBERS: LazyLock<Option<TooLongPatterns>> = LazyLock::new(|| {
    Some(TooLongPatterns {
        together: [
            Regex::new(r"exceed context limit: (?<input>\d+) \+ \d+ > (?<window>\d+)").ok()?,
            Regex::new(
                r"(?i)context length is (?<window>\d+) tokens.*\((?<input>\d+) in the (?:messages|prompt)[^)]*in the completion\)",
            )
            .ok()?,
        ],
        window: Regex::new(
            r"(?i)> (\d+) maximum|context (?:length|window|size)(?: is| of(?: only)?|:)? ?\(?(\d+)|allowed \((\d+)\)|with (\d+) maximum context",
        )
        .ok()?,
        tokens: Regex::new(
            r"(?i)too long: (\d+)|requested (\d+)|resulted in (\d+)|count \((\d+)\)|contains (\d+) tokens|request \((\d+) tokens",
        )
        .ok()?,
    })
});

/// An answer that must be shorter than this is not worth a request.
const WORTH_ASKING: u64 = 1_024;

/// Where input and answer together do not fit although the input does: how long
/// the answer may be, and the window.
pub(crate) fn room_left(message: &str) -> Option<(u64, u64)> {
    let found = NUMBERS.as_ref()?.together.iter().find_map(|pattern| pattern.captures(message))?;
    let (input, window): (u64, u64) = (found["input"].parse().ok()?, found["window"].parse().ok()?);
    let room = window.checked_sub(input).filter(|room| WORTH_ASKING.min(window / 4) <= *room && 0 < *room)?;
    Some((room, window))
}

/// Whether a refusal says that the conversation does not fit, and the numbers.
fn too_long(message: &str) -> Option<TooLong> {
    let lower = message.to_lowercase();
    if !TOO_LONG.iter().any(|words| lower.contains(words)) || room_left(message).is_some() {
        return None;
    }
    let numbers = NUMBERS.as_ref()?;
    let number = |pattern: &Regex, name: &str| {
        let found = pattern.captures(message)?;
        let group = found.name(name).or_else(|| found.iter().skip(1).flatten().next())?;
        group.as_str().parse().ok()
    };
    let together = numbers.together.iter().find(|pattern| pattern.is_match(message));
    Some(match together {
        Some(pattern) => TooLong { tokens: number(pattern, "input"), window: number(pattern, "window") },
        None => {
            TooLong { tokens: number(&numbers.tokens, "tokens"), window: number(&numbers.window, "window") }
        }
    })
}

/// The words of an error body.
pub(crate) fn message_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned();
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return match text.trim() {
            "" => String::from("no message"),
            text => page_in_words(text).unwrap_or_else(|| text.to_owned()),
        };
    };
    let places =
        [&value["error"]["message"], &value["message"], &value["Message"], &value["error"], &value["detail"]];
    let found = places.into_iter().find_map(Value::as_str);
    let found = found.map_or(text, str::to_owned);
    haft_types::text::head(&found, SHOWN).to_owned()
}

/// What a page for browsers says: its title, and that no model answers so.
fn page_in_words(text: &str) -> Option<String> {
    let small = text.to_ascii_lowercase();
    if !["<!doctype html", "<html"].iter().any(|it| small.starts_with(it)) {
        return None;
    }
    let title = small.find("<title>").map(|at| at + "<title>".len()).and_then(|begin| {
        let end = begin + small[begin..].find("</title>")?;
        Some(text[begin..end].split_whitespace().collect::<Vec<_>>().join(" "))
    });
    let title = title.filter(|it| !it.is_empty()).map(|it| format!(" ({it})")).unwrap_or_default();
    Some(format!(
        "a page for browsers{title}. Does a model answer at this address? \
         Look at --base-url or the variable of your provider"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_for_browsers_is_said_in_words() {
        let page =
            b"<!DOCTYPE HTML>\n<html lang=\"en\"><head>\n<title>Error\n response</title></head></html>";
        for (body, says) in [
            (&page[..], "a page for browsers (Error response). Does"),
            (b"<html><body>no", "a page for browsers. Does"),
            (b"<html><title></title>", "a page for browsers. Does"),
            (b"<error>overloaded</error>", "<error>overloaded</error>"),
            (b"upstream gone", "upstream gone"),
            (b"", "no message"),
        ] {
            let said = message_of(body);
            assert!(said.starts_with(says), "{said}");
        }
    }

    #[test]
    fn a_conversation_that_does_not_fit_is_told_from_other_refusals() {
        let long = |tokens, window| Some(TooLong { tokens, window });
        for (message, want) in [
            ("prompt is too long: 211539 tokens > 200000 maximum", long(Some(211_539), Some(200_000))),
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
                long(Some(9_000), Some(8_192)),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8100 in the messages, 900 in the completion).",
                long(Some(8_100), Some(8_192)),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (4000 in the messages, 5000 in the completion).",
                None,
            ),
            ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease", None),
            (
                "input length and `max_tokens` exceed context limit: 199900 + 21333 > 200000, decrease",
                long(Some(199_900), Some(200_000)),
            ),
            ("Your input exceeds the context window of this model. Please adjust", long(None, None)),
            ("Input is too long for requested model.", long(None, None)),
            (
                "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
                long(Some(40_000), Some(32_768)),
            ),
            (
                "Prompt contains 9000 tokens and 0 draft tokens, too large for model with 8192 maximum context length",
                long(Some(9_000), Some(8_192)),
            ),
            (
                "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                long(Some(9_000), Some(4_096)),
            ),
            (
                "the model is loaded with context length of only 4096 tokens, which is not enough",
                long(None, Some(4_096)),
            ),
            ("tools.0.custom.name: String should have at most 64 characters", None),
            ("Invalid 'messages[0].name': string too long. Expected at most 64", None),
        ] {
            assert_eq!(too_long(message), want, "{message}");
        }
        assert_eq!(room_left("exceed context limit: 188240 + 21333 > 200000"), Some((11_760, 200_000)));
    }

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
        let google =
            br#"{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}"#;
        assert!(matches!(of_status(400, google), ModelError::Auth { .. }));
        let busy = br#"{"error": {"code": 429, "details": [{"@type": "q"}, {"retryDelay": "34.5s"}]}}"#;
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        assert_eq!(retry_delay(busy, now), Some(Duration::from_millis(34_500)));
        for (body, want) in [
            (r#"{"error": {"details": [{"retryDelay": "-1s"}]}}"#, None),
            (r#"{"error": {"code": 429}}"#, None),
            (r#"{"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1007500"}}}}"#, Some(7_500)),
            (r#"{"error": {"metadata": {"headers": {"X-RateLimit-Reset": 1007500}}}}"#, Some(7_500)),
            (r#"{"error": {"metadata": {"headers": {"X-RateLimit-Reset": "3"}}}}"#, Some(0)),
            (r#"{"error": {"metadata": {"headers": {"X-RateLimit-Reset": "soon"}}}}"#, None),
        ] {
            assert_eq!(retry_delay(body.as_bytes(), now), want.map(Duration::from_millis), "{body}");
        }
        let empty =
            br#"{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}"#;
        assert!(!of_status(429, empty).is_transient() && of_status(429, b"{}").is_transient());
        assert!(matches!(of_status(402, br#"{"error": {"code": 402}}"#), ModelError::Auth { .. }));
    }
}
