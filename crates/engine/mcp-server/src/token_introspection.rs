use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use haft_tool::BoxFuture;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, time::timeout};

use super::http_guard::{TokenCheck, TokenVerdict};

/// Asks the authorization server about tokens (RFC 7662).
///
/// What it says counts for a moment, so that not every request costs another
/// one; a token that was taken back is refused after that moment. If it cannot
/// be asked, nobody comes in.
pub struct TokenIntrospection {
    endpoint: String,
    /// How we show who we are there.
    client: Option<(String, String)>,
    /// What a token must be like.
    wanted: TokenRequirements,
    http: reqwest::Client,
    known: Mutex<HashMap<[u8; 32], (Instant, TokenVerdict)>>,
    /// A flood of tokens must not become a flood of questions.
    questions: Semaphore,
}

/// What a token must be like to be taken.
#[derive(Clone, Debug, Default)]
struct TokenRequirements {
    resource: String,
    issuer: Option<String>,
    scopes: Vec<String>,
}

const KNOWN_FOR: Duration = Duration::from_secs(10);
const MAX_KNOWN: usize = 1024;
const QUESTIONS_AT_ONCE: usize = 32;
const LIMIT: Duration = Duration::from_secs(5);
/// An answer about one token is short.
const MAX_ANSWER_BYTES: usize = 64 << 10;

impl TokenIntrospection {
    /// Asks at `endpoint`, as `client` (id and secret) if one is given, whether
    /// tokens are good and meant for `resource`.
    pub fn new(
        endpoint: impl Into<String>,
        client: Option<(String, String)>,
        resource: impl Into<String>,
    ) -> Self {
        let http = reqwest::Client::builder().timeout(LIMIT).build().unwrap_or_default();
        let wanted = TokenRequirements { resource: resource.into(), ..TokenRequirements::default() };
        let questions = Semaphore::new(QUESTIONS_AT_ONCE);
        Self { endpoint: endpoint.into(), client, wanted, http, known: Mutex::default(), questions }
    }

    /// Tokens of other authorization servers are not taken, where the answer
    /// tells whose they are.
    pub fn of_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.wanted.issuer = Some(issuer.into());
        self
    }

    /// Tokens must be for all of these.
    pub fn with_scopes(mut self, scopes: Vec<String>) -> Self {
        self.wanted.scopes = scopes;
        self
    }

    fn known(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Instant, TokenVerdict)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was said about a token a moment ago.
    fn remembered(&self, key: &[u8; 32]) -> Option<TokenVerdict> {
        let known = self.known();
        known.get(key).filter(|(at, _)| at.elapsed() < KNOWN_FOR).map(|(_, verdict)| verdict.clone())
    }

    async fn ask(&self, token: &str) -> Option<TokenVerdict> {
        let mut form = reqwest::Url::parse("form:").ok()?;
        form.query_pairs_mut().append_pair("token", token).append_pair("token_type_hint", "access_token");
        let body = form.query().unwrap_or_default().to_owned();
        let request = self.http.post(&self.endpoint).body(body);
        let mut request = request.header("content-type", "application/x-www-form-urlencoded");
        if let Some((id, secret)) = &self.client {
            request = request.basic_auth(id, Some(secret));
        }
        let answer = request.send().await.ok()?.error_for_status().ok()?;
        let body = haft_net::read_body(answer, MAX_ANSWER_BYTES).await.ok()?;
        let answer: Value = serde_json::from_slice(&body).ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        Some(self.wanted.judge(&answer, now))
    }
}

/// Two clocks may differ that much.
const SKEW_SECONDS: u64 = 30;

impl TokenRequirements {
    fn judge(&self, answer: &Value, now: u64) -> TokenVerdict {
        let ended = answer["exp"].as_f64().is_some_and(|it| it as u64 + SKEW_SECONDS < now);
        let not_begun = answer["nbf"].as_f64().is_some_and(|it| now + SKEW_SECONDS < it as u64);
        // A token that only works together with a key was shown without it.
        let is_bound = answer["cnf"].is_object();
        let same = |a: &str, b: &str| a.trim_end_matches('/') == b.trim_end_matches('/');
        let of_another = match (&self.issuer, answer["iss"].as_str()) {
            (Some(wanted), Some(issuer)) => !same(wanted, issuer),
            _ => false,
        };
        let is_good = answer["active"] == true && is_for(&answer["aud"], &self.resource);
        if !is_good || ended || not_begun || is_bound || of_another {
            return TokenVerdict::Bad;
        }
        let granted: Vec<&str> = answer["scope"].as_str().unwrap_or_default().split(' ').collect();
        if self.scopes.iter().all(|it| granted.contains(&it.as_str())) {
            TokenVerdict::Good
        } else {
            TokenVerdict::ForLess(self.scopes.clone())
        }
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

impl TokenCheck for TokenIntrospection {
    fn judge<'a>(&'a self, token: &'a str) -> BoxFuture<'a, TokenVerdict> {
        Box::pin(async move {
            let key: [u8; 32] = Sha256::digest(token).into();
            if let Some(verdict) = self.remembered(&key) {
                return verdict;
            }
            let Ok(Ok(_turn)) = timeout(LIMIT, self.questions.acquire()).await else {
                return TokenVerdict::Unknown;
            };
            // Somebody may have asked the same meanwhile.
            if let Some(verdict) = self.remembered(&key) {
                return verdict;
            }
            let Some(verdict) = self.ask(token).await else { return TokenVerdict::Unknown };
            let mut known = self.known();
            known.retain(|_, (at, _)| at.elapsed() < KNOWN_FOR);
            if MAX_KNOWN <= known.len() {
                // Made-up tokens must not crowd out good ones.
                known.retain(|_, (_, verdict)| *verdict != TokenVerdict::Bad);
            }
            if known.len() < MAX_KNOWN {
                known.insert(key, (Instant::now(), verdict.clone()));
            }
            verdict
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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

    #[test]
    fn a_token_must_be_all_that_is_wanted() {
        let wanted = TokenRequirements {
            resource: String::from("r"),
            issuer: Some(String::from("https://as.test")),
            scopes: vec![String::from("a"), String::from("b")],
        };
        let less = TokenVerdict::ForLess(wanted.scopes.clone());
        for (change, want) in [
            (json!({}), TokenVerdict::Good),
            (json!({"scope": "c b a"}), TokenVerdict::Good),
            (json!({"scope": "a"}), less.clone()),
            (json!({"scope": null}), less),
            (json!({"active": false}), TokenVerdict::Bad),
            (json!({"active": "true"}), TokenVerdict::Bad),
            (json!({"aud": "other"}), TokenVerdict::Bad),
            (json!({"exp": 900}), TokenVerdict::Bad),
            (json!({"exp": 980}), TokenVerdict::Good),
            (json!({"nbf": 2000}), TokenVerdict::Bad),
            (json!({"iss": "https://as.test/"}), TokenVerdict::Good),
            (json!({"iss": "https://evil.test"}), TokenVerdict::Bad),
            (json!({"cnf": {"jkt": "x"}}), TokenVerdict::Bad),
        ] {
            let mut answer = json!({"active": true, "aud": ["r"], "scope": "a b", "exp": 2000});
            answer.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert_eq!(wanted.judge(&answer, 1000), want, "{change}");
        }
    }

    #[tokio::test]
    async fn a_flood_of_tokens_is_no_flood_of_questions() {
        use std::sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        };

        #[derive(Default)]
        struct IntrospectionCounts {
            now: AtomicUsize,
            most: AtomicUsize,
            all: AtomicUsize,
        }
        let counts = Arc::<IntrospectionCounts>::default();
        let seen = Arc::clone(&counts);
        let answer = move |body: String| {
            let counts = Arc::clone(&seen);
            async move {
                counts.all.fetch_add(1, SeqCst);
                counts.most.fetch_max(counts.now.fetch_add(1, SeqCst) + 1, SeqCst);
                // An authorization server takes a moment.
                tokio::time::sleep(Duration::from_millis(5)).await;
                counts.now.fetch_sub(1, SeqCst);
                axum::Json(json!({"active": body.contains("token=good"), "aud": "r"}))
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let app = axum::Router::new().route("/", axum::routing::post(answer));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let check = TokenIntrospection::new(endpoint, None, "r");
        assert_eq!(check.judge("good").await, TokenVerdict::Good);
        let tokens: Vec<String> = (0..300).map(|number| format!("bad-{number}")).collect();
        let verdicts = futures_util::future::join_all(tokens.iter().map(|it| check.judge(it))).await;
        assert!(verdicts.iter().all(|it| *it == TokenVerdict::Bad), "{verdicts:?}");
        assert!(counts.most.load(SeqCst) <= QUESTIONS_AT_ONCE);
        let before = counts.all.load(SeqCst);
        assert_eq!(before, 301);
        assert_eq!(check.judge("bad-7").await, TokenVerdict::Bad);
        assert_eq!(counts.all.load(SeqCst), before, "what was just said is not asked again");
    }
}
