//! Repairs non-conforming token responses.

use axum::http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use reqwest::Url;
use serde_json::{Map, Value, json};

use super::oauth_http::{OAuthAnswer, answer};

/// Fixes common deviations: numbers as strings, scopes as lists, missing token type, form encoding,
/// errors with status 200.
pub(super) fn readable(given: OAuthAnswer) -> OAuthAnswer {
    if !given.status().is_success() {
        return given;
    }
    let body = match serde_json::from_slice(given.body()) {
        Ok(Value::Object(body)) => body,
        _ => match form(given.body()) {
            Some(body) => body,
            None => return given,
        },
    };
    if body.contains_key("error") && !body.contains_key("access_token") {
        let body = Value::Object(body).to_string().into_bytes();
        return answer(StatusCode::BAD_REQUEST, given.headers().clone(), body);
    }
    let body = Value::Object(body.into_iter().filter_map(repaired).collect());
    let body = with_kind(body).to_string().into_bytes();
    let mut headers = given.headers().clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer(given.status(), headers, body)
}

/// Repairs one field.
fn repaired((name, value): (String, Value)) -> Option<(String, Value)> {
    let value = match (name.as_str(), value) {
        (_, Value::Null) => return None,
        ("expires_in", Value::String(text)) => json!(text.trim().parse::<u64>().ok()?),
        ("expires_in", Value::Number(number)) => match number.as_f64() {
            // A lifetime below one second is ignored.
            Some(seconds) if 1.0 <= seconds => json!(seconds as u64),
            _ => return None,
        },
        ("scope", Value::Array(list)) => {
            json!(list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        ("refresh_token", Value::String(text)) if text.is_empty() => return None,
        (_, other) => other,
    };
    Some((name, value))
}

fn with_kind(mut body: Value) -> Value {
    if body["access_token"].is_string() && !body["token_type"].is_string() {
        body["token_type"] = json!("Bearer");
    }
    body
}

fn form(body: &[u8]) -> Option<Map<String, Value>> {
    let text = std::str::from_utf8(body).ok().filter(|it| it.contains('=') && !it.contains(['<', '{']))?;
    let url = Url::parse(&format!("form:?{}", text.trim())).ok()?;
    let fields: Map<String, Value> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), json!(value))).collect();
    (fields.contains_key("access_token") || fields.contains_key("error")).then_some(fields)
}

const SECRETS: &[&str] = &[
    "assertion",
    "client_assertion",
    "client_secret",
    "code",
    "code_verifier",
    "refresh_token",
    "subject_token",
];

/// Removes echoed secrets from an error response, because it is shown and logged.
pub(super) fn without_secrets(given: OAuthAnswer, sent: &[u8]) -> OAuthAnswer {
    if given.status().is_success() {
        return given;
    }
    let Ok(form) = Url::parse(&format!("form:?{}", String::from_utf8_lossy(sent))) else { return given };
    let mut body = String::from_utf8_lossy(given.body()).into_owned();
    for (name, value) in form.query_pairs() {
        if SECRETS.contains(&name.as_ref()) && !value.is_empty() {
            body = body.replace(value.as_ref(), "…");
        }
    }
    answer(given.status(), given.headers().clone(), body.into_bytes())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::*;

    #[test]
    fn common_token_response_mistakes_are_repaired() {
        for (status, body, want_status, want) in [
            (
                200,
                r#"{"access_token":"a","expires_in":"3600"}"#,
                200,
                json!({"access_token": "a", "expires_in": 3600, "token_type": "Bearer"}),
            ),
            (
                200,
                r#"{"access_token":"a","token_type":"DPoP","expires_in":3599.9,"scope":["x","y"],"refresh_token":""}"#,
                200,
                json!({"access_token": "a", "token_type": "DPoP", "expires_in": 3599, "scope": "x y"}),
            ),
            (
                200,
                r#"{"access_token":"a","token_type":"bearer","expires_in":0,"scope":null}"#,
                200,
                json!({"access_token": "a", "token_type": "bearer"}),
            ),
            (
                200,
                "access_token=a%20b&token_type=bearer",
                200,
                json!({"access_token": "a b", "token_type": "bearer"}),
            ),
            (200, r#"{"error":"bad_verification_code"}"#, 400, json!({"error": "bad_verification_code"})),
            (400, r#"{"error":"invalid_grant"}"#, 400, json!({"error": "invalid_grant"})),
            (200, "<html>a=b</html>", 200, Value::Null),
        ] {
            let given =
                answer(StatusCode::from_u16(status).unwrap(), HeaderMap::new(), body.as_bytes().to_vec());
            let got = readable(given);
            let value: Value = serde_json::from_slice(got.body()).unwrap_or_default();
            assert_eq!((got.status().as_u16(), value), (want_status, want), "{body}");
        }
    }

    #[test]
    fn sent_secrets_are_removed_from_errors() {
        let body = r#"{"error":"invalid_grant","error_description":"code s3cr3t of client c is used"}"#;
        let given = answer(StatusCode::BAD_REQUEST, HeaderMap::new(), body.as_bytes().to_vec());
        let got = without_secrets(given, b"grant_type=authorization_code&code=s3cr3t&client_id=c");
        let text = String::from_utf8_lossy(got.body()).into_owned();
        assert!(!text.contains("s3cr3t") && text.contains("client c"), "{text}");
    }
}
