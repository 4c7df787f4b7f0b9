//! Every request of a login to an authorization server goes through here.
//!
//! **Invariant:** bounded in time and size, never to an address the server may
//! not name, and what comes back holds nothing secret that was sent.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use axum::http::{self, HeaderMap, StatusCode, header};
use haft_net::{AddressRule as _, BodyError, CheckedResolver, RedirectPolicy, read_body};
use reqwest::{Client, Method, Request, Url, redirect};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use serde_json::{Value, json};

use super::{
    allowed_hosts::LoginHostPolicy,
    dpop::{Dpop, PROOF},
    server_clock::Clock,
    token_response::{readable, without_secrets},
};
use crate::{HttpEndpoint, OAuthGrant, ProviderAddress, explain};

/// An answer, read to its end.
pub(super) type OAuthAnswer = http::Response<Vec<u8>>;

/// A person or a call waits for it.
const LIMIT: Duration = Duration::from_secs(15);
const MAX_ANSWER_BYTES: usize = 1 << 20;
const MAX_REDIRECTS: usize = 5;

/// Where people would log in, of authorization servers that know no people. The
/// SDK cannot read a description without it.
pub(super) const NO_PAGE: &str = "https://no-page.invalid/";

/// The way to authorization servers, for one login or renewal.
pub(super) struct OAuthHttp {
    follow: Client,
    stop: Client,
    reach: LoginHostPolicy,
    /// Once it is there, tokens are bound to its key.
    pub(super) bound: OnceLock<Arc<Dpop>>,
    /// What the authorization server thinks the time is.
    pub(super) clock: Clock,
    notes: Mutex<RequestNotes>,
}

/// What became of the last request.
#[derive(Clone, Default)]
struct RequestNotes {
    trouble: Option<String>,
    refusal: Option<OAuthRefusal>,
}

/// What an authorization server says instead of giving a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct OAuthRefusal {
    /// The code, as registered for OAuth.
    pub(super) code: String,
    /// Code and explanation, in one line.
    pub(super) text: String,
}

impl OAuthHttp {
    /// The way for a login to this server.
    pub(super) async fn new(endpoint: &HttpEndpoint) -> Result<Arc<Self>, String> {
        let url = Url::parse(&endpoint.url).map_err(|err| format!("`{}`: {err}", endpoint.url))?;
        let mut named: Vec<&str> = endpoint.oauth.auth_server_metadata_url.as_deref().into_iter().collect();
        if let OAuthGrant::Enterprise(provider) = &endpoint.oauth.grant {
            let (ProviderAddress::Issuer(it) | ProviderAddress::TokenUrl(it)) = &provider.address;
            named.push(it);
        }
        let reach = LoginHostPolicy::new(&url, &named).await;
        let build = |policy| {
            let client = Client::builder()
                .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
                .timeout(LIMIT)
                .redirect(policy)
                .dns_resolver(CheckedResolver::new(Arc::new(reach.clone())));
            client.build().map_err(|err| explain(&err))
        };
        Ok(Arc::new(Self {
            follow: build(same_origin())?,
            stop: build(redirect::Policy::none())?,
            reach: reach.clone(),
            bound: OnceLock::new(),
            clock: Clock::default(),
            notes: Mutex::default(),
        }))
    }

    fn notes(&self) -> MutexGuard<'_, RequestNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the authorization server said instead of a token, in the last
    /// request.
    pub(super) fn refusal(&self) -> Option<OAuthRefusal> {
        self.notes().refusal.clone()
    }

    /// Why the last request failed, better than `other` knows it: in one line,
    /// and not long.
    pub(super) fn reason(&self, other: &str) -> String {
        let notes = self.notes().clone();
        let refusal = notes.refusal.map(|it| it.text);
        let reason = notes.trouble.or(refusal).unwrap_or_else(|| other.to_owned());
        let words: Vec<&str> = reason.split_whitespace().collect();
        haft_types::text::one_line(&words.join(" "), 300)
    }

    /// A document, if there is one.
    pub(super) async fn get(&self, url: &str) -> Result<Value, String> {
        let url = Url::parse(url).map_err(|err| format!("`{url}` is not an address: {err}"))?;
        let answer = self.carry(Request::new(Method::GET, url.clone()), &self.stop).await?;
        match answer.status() {
            StatusCode::OK => serde_json::from_slice(answer.body())
                .map_err(|_| format!("{url} is not what an authorization server says about itself")),
            status => Err(format!("{url} cannot be read: {status}")),
        }
    }

    /// Asks for a token.
    pub(super) async fn post(
        &self,
        url: &str,
        fields: &[(&str, &str)],
        basic: Option<(&str, &str)>,
    ) -> Result<Value, String> {
        let url = Url::parse(url).map_err(|err| format!("`{url}` is not an address: {err}"))?;
        let form = [(header::CONTENT_TYPE, FORM), (header::ACCEPT, "application/json")];
        let mut request = self.stop.post(url.clone()).body(encoded(fields));
        for (name, value) in form {
            request = request.header(name, value);
        }
        if let Some((name, password)) = basic {
            // Both are encoded before they are joined (RFC 6749, 2.3.1).
            request = request.basic_auth(one(name), Some(one(password)));
        }
        let request = request.build().map_err(|err| explain(&err))?;
        let answer = self.carry(request, &self.stop).await?;
        let body: Option<Value> = serde_json::from_slice(answer.body()).ok();
        match body {
            Some(body) if answer.status().is_success() => Ok(body),
            _ => {
                let said = format!("{} answered {} without a token", place(&url), answer.status());
                Err(self.reason(&said))
            }
        }
    }

    /// One request and its answer; a token request is proven, if tokens are
    /// bound, and a proof that lacks the server's number is made again.
    async fn carry(&self, mut request: Request, client: &Client) -> Result<OAuthAnswer, String> {
        *self.notes() = RequestNotes::default();
        let asks_for_token = is_form(&request);
        let bound = self.bound.get().filter(|_| asks_for_token);
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default().to_vec();
        let mut attempt = 0;
        let answer = loop {
            if let Some(bound) = bound {
                let proof = bound.proof("POST", request.url(), None)?;
                let proof = proof.try_into().map_err(|_| String::from("a proof could not be sent"))?;
                request.headers_mut().insert(PROOF, proof);
            }
            let again = request.try_clone().filter(|_| attempt == 0);
            let url = request.url().clone();
            let answer = self.once(request, client).await;
            let answer = answer.inspect_err(|err| self.notes().trouble = Some(err.clone()))?;
            let has_number = bound.is_some_and(|it| it.heard(&url, answer.headers()));
            match again {
                Some(again) if has_number && wants_number(&answer) => request = again,
                _ => break answer,
            }
            attempt += 1;
        };
        if !asks_for_token {
            return Ok(described(answer));
        }
        let answer = without_secrets(readable(answer), &body);
        self.notes().refusal = refusal(&answer);
        Ok(answer)
    }

    async fn once(&self, request: Request, client: &Client) -> Result<OAuthAnswer, String> {
        let url = request.url().clone();
        if !self.reach.allows_url(&url) {
            return Err(format!("{} is nearer to this machine than the server that names it", place(&url)));
        }
        let failed = |err: reqwest::Error| {
            if err.is_timeout() {
                format!("{} did not answer within {} s", place(&url), LIMIT.as_secs())
            } else {
                format!("{} cannot be reached: {}", place(&url), explain(&err))
            }
        };
        let response = client.execute(request).await.map_err(failed)?;
        self.clock.heard(response.headers());
        let (status, headers) = (response.status(), response.headers().clone());
        let body = read_body(response, MAX_ANSWER_BYTES).await.map_err(|err| match err {
            BodyError::TooLarge => format!("{} answered with more than a megabyte", place(&url)),
            BodyError::Broken(err) => failed(err),
        })?;
        Ok(answer(status, headers, body))
    }
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let OAuthHttpRequest { request, redirect_policy, .. } = request;
            let client = match redirect_policy {
                OAuthHttpRedirectPolicy::Follow => &self.follow,
                _ => &self.stop,
            };
            Ok(self.carry(Request::try_from(request)?, client).await?)
        })
    }
}

/// The way of one login, shared with the SDK.
pub(super) struct SharedOAuthHttp(pub(super) Arc<OAuthHttp>);

impl OAuthHttpClient for SharedOAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        self.0.execute(request)
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

fn is_form(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    request.method() == Method::POST && kind.is_some_and(|it| it.starts_with(FORM))
}

fn encoded(fields: &[(&str, &str)]) -> String {
    let Ok(mut form) = Url::parse("form:") else { return String::new() };
    form.query_pairs_mut().extend_pairs(fields);
    form.query().unwrap_or_default().to_owned()
}

fn one(value: &str) -> String {
    encoded(&[("", value)]).trim_start_matches('=').to_owned()
}

/// An address as people are told it: nothing behind the host may matter.
fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

pub(super) fn answer(status: StatusCode, headers: HeaderMap, body: Vec<u8>) -> OAuthAnswer {
    let mut answer = http::Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

fn same_origin() -> redirect::Policy {
    const ELSEWHERE: &str = "the authorization server sends us elsewhere";
    let hops = RedirectPolicy { limit: MAX_REDIRECTS, too_many: ELSEWHERE };
    hops.policy(|hop| if hop.keeps_origin() { Ok(()) } else { Err(ELSEWHERE.to_owned()) })
}

fn wants_number(answer: &OAuthAnswer) -> bool {
    let body: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    body["error"] == "use_dpop_nonce"
}

fn refusal(answer: &OAuthAnswer) -> Option<OAuthRefusal> {
    let body: Value = serde_json::from_slice(answer.body()).ok()?;
    let code = body["error"].as_str().filter(|_| !answer.status().is_success())?;
    let why = body["error_description"].as_str().map(|it| format!(": {it}")).unwrap_or_default();
    let text = haft_types::text::one_line(&format!("{code}{why}"), 250);
    Some(OAuthRefusal { code: haft_types::text::one_line(code, 60), text })
}

/// A description of an authorization server that logs nobody in is one too.
fn described(given: OAuthAnswer) -> OAuthAnswer {
    let Ok(Value::Object(mut body)) = serde_json::from_slice(given.body()) else { return given };
    if !body.contains_key("token_endpoint") || body.contains_key("authorization_endpoint") {
        return given;
    }
    body.insert(String::from("authorization_endpoint"), json!(NO_PAGE));
    answer(given.status(), given.headers().clone(), Value::Object(body).to_string().into_bytes())
}
