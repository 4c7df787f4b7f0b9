//! What all transports to an address share: the client, its headers, logins.

use std::{sync::Arc, time::Duration};

use haft_mcp_auth::{AuthChallenge, AuthHeader, HttpEndpoint, RenewalOutcome, TokenSource, explain};
use haft_net::{BodyError, RedirectPolicy};
use haft_types::{EnvVars, text};
use reqwest::{
    Client, RequestBuilder, Response, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE},
    redirect,
};
use serde_json::Value;
use tokio::process::Command;

use super::TransportError;
use crate::jsonrpc::CallError;

/// An address with everything needed to send requests to it.
#[derive(Clone)]
pub(super) struct HttpSite {
    pub(super) client: Client,
    pub(super) url: Url,
    headers: HeaderMap,
    login: Arc<dyn TokenSource>,
}

const CONNECT_LIMIT: Duration = Duration::from_secs(20);
const MAX_REDIRECTS: usize = 5;

/// A body that explains an error is short.
const MAX_EXPLANATION_BYTES: usize = 8 << 10;

impl HttpSite {
    /// Reads the headers, runs the helper, makes a client.
    pub(super) async fn open(
        server: &str,
        endpoint: &HttpEndpoint,
        login: Arc<dyn TokenSource>,
        protocol: Protocol,
    ) -> Result<Self, TransportError> {
        let failed = |reason: String| TransportError::Failed(reason);
        let url = parse_url(&endpoint.url).map_err(failed)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &endpoint.headers {
            add(&mut headers, name, value).map_err(failed)?;
        }
        if let Some(helper) = &endpoint.headers_helper {
            for (name, value) in run_helper(server, &endpoint.url, helper).await.map_err(failed)? {
                add(&mut headers, &name, &value).map_err(failed)?;
            }
        }
        let client = client(protocol).map_err(|err| failed(explain(&err)))?;
        Ok(Self { client, url, headers, login })
    }

    /// Sends a request, with a token if there is one. A refused token is
    /// renewed once.
    pub(super) async fn send(&self, request: impl Fn() -> RequestBuilder) -> Result<Response, CallError> {
        // A header of the configuration is the user's own login.
        let own = self.headers.contains_key(reqwest::header::AUTHORIZATION);
        let (mut renewed, mut proven_again) = (false, false);
        loop {
            let (client, built) = request().headers(self.headers.clone()).build_split();
            let mut built = built.map_err(|err| not_sent(&err))?;
            let pass = if own { None } else { self.login.pass(built.method(), built.url()).await };
            if let Some(pass) = &pass {
                show(built.headers_mut(), pass).map_err(CallError::HeldBack)?;
            }
            let response = client.execute(built).await.map_err(|err| not_sent(&err))?;
            let lacked_something = self.login.heard(response.url(), response.headers());
            let token = pass.as_ref().map(|it| it.token.as_str());
            let challenge = challenge(&response);
            let refused = match (response.status(), token) {
                (StatusCode::UNAUTHORIZED, token) => AuthChallenge::Token { token, challenge: &challenge },
                (StatusCode::FORBIDDEN, Some(token)) if challenge.contains("insufficient_scope") => {
                    AuthChallenge::Scope { token, challenge: &challenge }
                }
                _ => return Ok(response),
            };
            if lacked_something && !proven_again && challenge.contains("use_dpop_nonce") {
                proven_again = true;
                continue;
            }
            let renewal =
                if renewed || own { RenewalOutcome::Impossible } else { self.login.renew(refused).await };
            renewed = true;
            let no_use = self.login.no_use().filter(|_| !own);
            match (renewal, refused, no_use) {
                (RenewalOutcome::Done, _, _) => (),
                (RenewalOutcome::Later(reason), _, _) | (RenewalOutcome::Impossible, _, Some(reason)) => {
                    return Err(CallError::HeldBack(reason));
                }
                (RenewalOutcome::Impossible, AuthChallenge::Scope { .. }, None) => return Ok(response),
                (RenewalOutcome::Impossible, AuthChallenge::Token { .. }, None) => {
                    return Err(CallError::Unauthorized { challenge });
                }
            }
        }
    }
}

/// Puts a token, and what shows that it is ours, on a request.
fn show(headers: &mut HeaderMap, pass: &AuthHeader) -> Result<(), String> {
    let scheme = if pass.proof.is_some() { "DPoP" } else { "Bearer" };
    add(headers, "authorization", &format!("{scheme} {}", pass.token))?;
    match &pass.proof {
        Some(proof) => add(headers, "dpop", proof),
        None => Ok(()),
    }
}

/// Which HTTP a transport can live with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    /// Whatever both sides know.
    Any,
    /// One connection becomes something else.
    Upgradable,
}

fn client(protocol: Protocol) -> reqwest::Result<Client> {
    let mut builder = Client::builder()
        .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_LIMIT)
        .tcp_nodelay(true)
        .redirect(same_place());
    if protocol == Protocol::Upgradable {
        builder = builder.http1_only();
    }
    builder.build()
}

/// Redirects stay with the server the user agreed to: anywhere else, also at
/// another port of the same host, the request would go to a stranger with all
/// it says and every header it carries.
fn same_place() -> redirect::Policy {
    RedirectPolicy { limit: MAX_REDIRECTS, too_many: "too many redirects" }.policy(|hop| {
        if hop.stays_in_place() {
            return Ok(());
        }
        let (mut to, query) = (hop.to.clone(), hop.to.query().is_some());
        to.set_query(query.then_some("…"));
        Err(format!("redirected to another host or port: {to}"))
    })
}

/// Where an answer leads that leads to no address.
pub(super) fn elsewhere(response: &Response) -> String {
    let to = response.headers().get(reqwest::header::LOCATION).and_then(|it| it.to_str().ok());
    let to = to.map(|it| text::one_line(it.split('?').next().unwrap_or_default(), 200));
    let status = response.status().as_u16();
    match to {
        Some(to) => format!("HTTP {status}: it redirects to {to}, which is no address to go to"),
        None => format!("HTTP {status}: it redirects, but does not say where to"),
    }
}

fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|err| format!("`{text}` is not an address: {err}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        // The upgrade of a plain request; it has the same address otherwise.
        "ws" => with_scheme(&url, "http"),
        "wss" => with_scheme(&url, "https"),
        other => Err(format!("`{other}:` is not a way to reach a server")),
    }
}

fn with_scheme(url: &Url, scheme: &str) -> Result<Url, String> {
    let rest = url.as_str().split_once(':').map_or("", |(_, rest)| rest);
    Url::parse(&format!("{scheme}:{rest}")).map_err(|err| err.to_string())
}

fn add(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let header = HeaderName::try_from(name).map_err(|_| format!("`{name}` is not a header name"))?;
    let mut value =
        HeaderValue::try_from(value).map_err(|_| format!("the value of the header `{name}` is not valid"))?;
    value.set_sensitive(true);
    headers.insert(header, value);
    Ok(())
}

const HELPER_LIMIT: Duration = Duration::from_secs(10);

/// Runs the user's command for fresh headers.
async fn run_helper(server: &str, url: &str, helper: &str) -> Result<Vec<(String, String)>, String> {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", helper])
        .env_clear()
        .envs(EnvVars::of_process().inherited())
        .env("CLAUDE_CODE_MCP_SERVER_NAME", server)
        .env("CLAUDE_CODE_MCP_SERVER_URL", url)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    let output = match tokio::time::timeout(HELPER_LIMIT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(err)) => return Err(format!("the headers helper could not be started: {err}")),
        Err(_) => return Err(format!("the headers helper took longer than {} s", HELPER_LIMIT.as_secs())),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the headers helper failed: {}", text::one_line(&said, 200)));
    }
    let headers: Value = serde_json::from_slice(&output.stdout)
        .map_err(|err| format!("the headers helper did not print a JSON object: {err}"))?;
    let headers = headers.as_object().ok_or("the headers helper did not print a JSON object")?;
    let header = |(name, value): (&String, &Value)| {
        let value = value.as_str().ok_or_else(|| format!("the header `{name}` of the helper is not text"))?;
        Ok((name.clone(), value.to_owned()))
    };
    headers.iter().map(header).collect()
}

fn not_sent(err: &reqwest::Error) -> CallError {
    if err.is_connect() || err.is_builder() {
        if err.is_redirect() { CallError::Elsewhere(explain(err)) } else { CallError::NotSent(explain(err)) }
    } else if err.is_redirect() {
        CallError::Elsewhere(explain(err))
    } else {
        CallError::Closed(explain(err))
    }
}

pub(super) fn challenge(response: &Response) -> String {
    let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
    values.filter_map(|it| it.to_str().ok()).collect::<Vec<_>>().join(", ")
}

/// The whole body, if it is not larger than allowed.
pub(super) async fn body(response: Response, max: usize) -> Result<Vec<u8>, String> {
    haft_net::read_body(response, max).await.map_err(|err| match err {
        BodyError::TooLarge => format!("the answer is larger than {} MiB", max >> 20),
        BodyError::Broken(err) => explain(&err),
    })
}

/// The beginning of a body that explains an error.
pub(super) async fn explanation(response: Response) -> Vec<u8> {
    haft_net::read_beginning(response, MAX_EXPLANATION_BYTES).await
}

/// An answer that is no message.
pub(super) fn http_error(status: StatusCode, body: &[u8]) -> CallError {
    let said = String::from_utf8_lossy(body);
    let said = text::one_line(&said, 200);
    let name = status.canonical_reason().unwrap_or("no reason");
    let message = if said.is_empty() { name.to_owned() } else { format!("{name}: {said}") };
    CallError::Http { status: status.as_u16(), message }
}
