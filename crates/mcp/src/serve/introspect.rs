use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use haft_tool::BoxFuture;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::http::TokenCheck;

/// Asks the authorization server about tokens (RFC 7662).
///
/// What it says counts for a moment, so that not every request costs another
/// one; a token that was taken back is refused after that moment. If it cannot
/// be asked, nobody comes in.
pub struct Introspection {
    endpoint: String,
    /// How we show who we are there.
    client: Option<(String, String)>,
    /// What a token must be meant for.
    resource: String,
    http: reqwest::Client,
    known: Mutex<HashMap<[u8; 32], (Instant, bool)>>,
}

const KNOWN_FOR: Duration = Duration::from_secs(10);
const MOST_KNOWN: usize = 1024;
const LIMIT: Duration = Duration::from_secs(5);

impl Introspection {
    /// Asks at `endpoint`, as `client` (id and secret) if one is given, whether
    /// tokens are good and meant for `resource`.
    pub fn new(
        endpoint: impl Into<String>,
        client: Option<(String, String)>,
        resource: impl Into<String>,
    ) -> Self {
        let http = reqwest::Client::builder().timeout(LIMIT).build().unwrap_or_default();
        Self { endpoint: endpoint.into(), client, resource: resource.into(), http, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Instant, bool)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, token: &str) -> Option<bool> {
        let mut form = reqwest::Url::parse("form:").ok()?;
        form.query_pairs_mut().append_pair("token", token);
        let body = form.query().unwrap_or_default().to_owned();
        let request = self.http.post(&self.endpoint).body(body);
        let mut request = request.header("content-type", "application/x-www-form-urlencoded");
        if let Some((id, secret)) = &self.client {
            request = request.basic_auth(id, Some(secret));
        }
        let answer = request.send().await.ok()?.error_for_status().ok()?;
        let answer: Value = answer.json().await.ok()?;
        Some(answer["active"] == true && is_for(&answer["aud"], &self.resource))
    }
}

/// A token for somebody else is no token for us: whoever it was given to could
/// pass it on.
fn is_for(audience: &Value, resource: &str) -> bool {
    let same =
        |it: &Value| it.as_str().is_some_and(|it| it.trim_end_matches('/') == resource.trim_end_matches('/'));
    match audience {
        Value::Array(list) => list.iter().any(same),
        one => same(one),
    }
}

impl TokenCheck for Introspection {
    fn is_good<'a>(&'a self, token: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let key: [u8; 32] = Sha256::digest(token).into();
            let known = self.known().get(&key).copied();
            if let Some((_, good)) = known.filter(|(at, _)| at.elapsed() < KNOWN_FOR) {
                return good;
            }
            let Some(good) = self.ask(token).await else { return false };
            let mut known = self.known();
            known.retain(|_, (at, _)| at.elapsed() < KNOWN_FOR);
            if known.len() < MOST_KNOWN {
                known.insert(key, (Instant::now(), good));
            }
            good
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_for;

    #[test]
    fn a_token_must_be_meant_for_us() {
        let us = "https://tools.test/mcp";
        for (audience, want) in [
            (json!(us), true),
            (json!("https://tools.test/mcp/"), true),
            (json!(["x", us]), true),
            (json!("https://tools.test"), false),
            (json!(["x"]), false),
            (json!(null), false),
        ] {
            assert_eq!(is_for(&audience, us), want, "{audience}");
        }
    }
}
