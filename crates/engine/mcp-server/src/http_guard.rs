//! Access control of the HTTP server.

use std::{net::Ipv6Addr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use haft_tool::BoxFuture;
use reqwest::Url;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Authentication.
#[derive(Clone)]
pub enum HttpAuth {
    /// None; for loopback addresses only.
    Anyone,
    /// This bearer token.
    Token(String),
    /// Tokens of an OAuth authorization server.
    Resource {
        /// Content of `/.well-known/oauth-protected-resource`.
        metadata: Value,
        /// Validates tokens.
        check: Arc<dyn TokenCheck>,
    },
}

/// Validates tokens of an authorization server.
pub trait TokenCheck: Send + Sync {
    /// Whether a token is valid and issued for this server.
    fn judge<'a>(&'a self, token: &'a str) -> BoxFuture<'a, TokenVerdict>;
}

/// Result of validating a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TokenVerdict {
    /// Valid.
    Good,
    /// Invalid, expired, or issued for another server.
    Bad,
    /// Valid, but lacks some of these required scopes.
    ForLess(Vec<String>),
    /// The authorization server could not be reached; the request is rejected.
    Unknown,
}

/// Path of the metadata that names the authorization server.
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

impl HttpAuth {
    /// Returns the host name in the resource's URL.
    pub(super) fn host(&self) -> Option<String> {
        let Self::Resource { metadata, .. } = self else { return None };
        let url = Url::parse(metadata["resource"].as_str()?).ok()?;
        url.host_str().map(str::to_owned)
    }

    async fn verdict(&self, token: Option<&str>) -> TokenVerdict {
        match (self, token) {
            (Self::Anyone, _) => TokenVerdict::Good,
            (_, None) => TokenVerdict::Bad,
            (Self::Token(wanted), Some(token)) if same(token, wanted) => TokenVerdict::Good,
            (Self::Token(_), Some(_)) => TokenVerdict::Bad,
            (Self::Resource { check, .. }, Some(token)) => check.judge(token).await,
        }
    }

    /// Builds the `WWW-Authenticate` header of a rejection.
    fn challenge(&self, verdict: &TokenVerdict, shown: bool) -> String {
        let mut parts = Vec::new();
        if let Self::Resource { metadata, .. } = self {
            parts.push(format!("resource_metadata=\"{}\"", description(&metadata["resource"])));
            let scopes = match verdict {
                TokenVerdict::ForLess(scopes) => scopes.clone(),
                _ => strings(&metadata["scopes_supported"]),
            };
            if !scopes.is_empty() {
                parts.push(format!("scope=\"{}\"", scopes.join(" ")));
            }
        }
        // A request without a token gets no error code (RFC 6750, 3.1).
        match verdict {
            TokenVerdict::ForLess(_) => parts.insert(0, String::from("error=\"insufficient_scope\"")),
            TokenVerdict::Bad if shown => parts.insert(0, String::from("error=\"invalid_token\"")),
            _ => (),
        }
        format!("Bearer {}", parts.join(", ")).trim_end().to_owned()
    }
}

/// Returns the metadata URL of a resource (RFC 9728, 3.1): its path is appended to the well-known one.
fn description(resource: &Value) -> String {
    let resource = resource.as_str().unwrap_or_default();
    let Ok(mut url) = Url::parse(resource) else { return format!("{WELL_KNOWN}/mcp") };
    let path = format!("{WELL_KNOWN}{}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_query(None);
    url.to_string()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Rejects requests that are not authorised or ambiguous.
pub(super) async fn guard(State(auth): State<HttpAuth>, request: Request, next: Next) -> Response {
    if !is_plain(&request) {
        return (StatusCode::BAD_REQUEST, [(header::CONNECTION, "close")]).into_response();
    }
    let token = bearer(request.headers());
    let verdict = auth.verdict(token).await;
    let status = match verdict {
        TokenVerdict::Good => return next.run(request).await,
        TokenVerdict::Bad => StatusCode::UNAUTHORIZED,
        TokenVerdict::ForLess(_) => StatusCode::FORBIDDEN,
        TokenVerdict::Unknown => {
            let words = "tokens cannot be checked now; try again later";
            return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], words).into_response();
        }
    };
    let mut refusal = status.into_response();
    if let Ok(challenge) = HeaderValue::try_from(auth.challenge(&verdict, token.is_some())) {
        refusal.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    refusal
}

/// Whether all intermediaries interpret the request in the same way: one valid host, at most one origin
/// and one token.
fn is_plain(request: &Request) -> bool {
    let headers = request.headers();
    let count = |name| headers.get_all(name).iter().count();
    let text = |name| headers.get(name).map(|it| it.to_str().unwrap_or_default());
    let host = text(header::HOST);
    let named = request.uri().authority().map(Authority::as_str);
    let origin = text(header::ORIGIN).and_then(|it| it.split_once("://"));
    count(header::HOST) <= 1
        && count(header::ORIGIN) <= 1
        && count(header::AUTHORIZATION) <= 1
        && (named.is_none() || named == host)
        && host.is_none_or(is_authority)
        && origin.is_none_or(|(_, rest)| is_authority(rest))
}

/// Whether a text is a host with an optional port. Own parser, because the URL parser accepts
/// `[::1].evil.test` as `[::1]`.
fn is_authority(text: &str) -> bool {
    let (name, rest) = match text.strip_prefix('[') {
        Some(inside) => match inside.split_once(']') {
            Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => ("address", rest),
            _ => return false,
        },
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_name =
        !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-._".contains(&it));
    let is_port = |it: &str| it.bytes().all(|it| it.is_ascii_digit()) && it.parse::<u16>().is_ok();
    is_name && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Compares hashes, so that timing reveals nothing about the token.
fn same(a: &str, b: &str) -> bool {
    Sha256::digest(a) == Sha256::digest(b)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resource_metadata_is_at_well_known_path() {
        for (resource, want) in [
            ("https://x.test/mcp", "https://x.test/.well-known/oauth-protected-resource/mcp"),
            ("https://x.test/a/mcp?b=c", "https://x.test/.well-known/oauth-protected-resource/a/mcp"),
            ("https://x.test", "https://x.test/.well-known/oauth-protected-resource"),
            ("nonsense", "/.well-known/oauth-protected-resource/mcp"),
        ] {
            assert_eq!(description(&json!(resource)), want);
        }
    }

    #[test]
    fn host_header_is_validated() {
        for (text, want) in [
            ("localhost", true),
            ("LOCALHOST:80", true),
            ("a-b.c_d.test.", true),
            ("127.0.0.1:65535", true),
            ("[::1]", true),
            ("[::1]:8080", true),
            ("", false),
            (":80", false),
            ("localhost:", false),
            ("localhost:80:80", false),
            ("localhost:65536", false),
            ("localhost:+80", false),
            ("[::1].evil.test", false),
            ("[::1", false),
            ("[localhost]", false),
            ("a@b", false),
            ("a b", false),
            ("a,b", false),
            ("a/b", false),
        ] {
            assert_eq!(is_authority(text), want, "{text}");
        }
    }
}
