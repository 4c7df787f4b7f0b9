//! Who is answered, and what every answer says about itself.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sha2::{Digest as _, Sha256};

use super::ViewerState;

/// What pages may load: nothing but from here, and no script but ours.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src \
                      'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Answers only whoever reached us by a name of this machine, from a page of ours,
/// and with the token where there is data.
pub(super) async fn guard(State(shared): State<Arc<ViewerState>>, request: Request, next: Next) -> Response {
    let mut response = match judge(&shared, &request) {
        Ok(()) => {
            shared.touch();
            next.run(request).await
        }
        Err(why) => (StatusCode::FORBIDDEN, why).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn judge(shared: &ViewerState, request: &Request) -> Result<(), &'static str> {
    let headers = request.headers();
    let host = only(headers, &header::HOST)?.ok_or("no host")?;
    if !hosts(shared).iter().any(|it| it == host) {
        return Err("another host is meant");
    }
    // A proxy's way of asking names the host twice.
    if request.uri().authority().is_some_and(|it| it.as_str() != host) {
        return Err("another host is meant");
    }
    let origin = only(headers, &header::ORIGIN)?;
    if origin.is_some_and(|it| it != format!("http://{host}")) {
        return Err("another page asks");
    }
    if origin.is_none() && request.method() != Method::GET && request.method() != Method::HEAD {
        return Err("nobody says which page asks");
    }
    let site = only(headers, &HeaderName::from_static("sec-fetch-site"))?;
    if site.is_some_and(|it| it != "same-origin" && it != "none") {
        return Err("another page asks");
    }
    if request.uri().path().starts_with("/api/") {
        let token = only(headers, &header::AUTHORIZATION)?.and_then(|it| it.strip_prefix("Bearer "));
        // Compared by digests: the time it takes tells nothing.
        let is_right = token.is_some_and(|it| Sha256::digest(it) == Sha256::digest(&shared.token));
        if !is_right {
            return Err("the token is missing or wrong");
        }
    }
    Ok(())
}

/// The one value of a header.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, &'static str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err("a header comes twice");
    }
    first.map(|it| it.to_str().map_err(|_| "a header is not text")).transpose()
}

/// The names we are reached by.
fn hosts(shared: &ViewerState) -> Vec<String> {
    let port = shared.port;
    if shared.listen.ip().is_loopback() {
        ["127.0.0.1", "localhost", "[::1]"].map(|it| format!("{it}:{port}")).to_vec()
    } else {
        vec![shared.listen.to_string()]
    }
}
