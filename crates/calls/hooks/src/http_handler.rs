//! HTTP hooks: the input is posted, a JSON object in a successful answer
//! decides, everything else is a failure.

use std::{sync::OnceLock, time::Duration};

use haft_net::{BodyError, innermost, is_this_machine, read_body};
use reqwest::{
    Client, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};

use crate::{HookCall, HookEnvironment, HookFailure, HttpHandler, HttpPolicy};

/// The most of an answer that is read.
const BODY_LIMIT: usize = 8 * 1024 * 1024;

/// Asks a server, and returns its body.
pub(crate) async fn ask(
    handler: &HttpHandler,
    policy: &HttpPolicy,
    environment: &HookEnvironment,
    call: &HookCall,
) -> Result<String, HookFailure> {
    let url = Url::parse(&handler.url)
        .map_err(|error| HookFailure::Unusable(format!("{}: {error}", handler.url)))?;
    if !is_allowed(&url, policy) {
        return Err(HookFailure::Unusable(format!(
            "{url} is not among the allowedHttpHookUrls of the settings"
        )));
    }
    let headers = headers(handler, policy, environment)?;
    let client = client(&url)?;
    let request = client.post(url).headers(headers).body(call.bytes.clone());
    let response = request.send().await.map_err(http_failure)?;
    if !response.status().is_success() {
        return Err(HookFailure::Http(format!("it answered {}", response.status())));
    }
    let body = read_body(response, BODY_LIMIT).await.map_err(|error| match error {
        BodyError::TooLarge => HookFailure::BadAnswer("it is longer than 8 MiB".to_owned()),
        BodyError::Broken(error) => http_failure(error),
    })?;
    String::from_utf8(body).map_err(|_| HookFailure::BadAnswer("it is not UTF-8".to_owned()))
}

fn http_failure(error: reqwest::Error) -> HookFailure {
    HookFailure::Http(innermost(&error.without_url()))
}

/// The client for an address. Loopback addresses never go through a proxy, and
/// nobody is followed elsewhere: the headers were meant for this server.
fn client(url: &Url) -> Result<&'static Client, HookFailure> {
    static DIRECT: OnceLock<Option<Client>> = OnceLock::new();
    static PROXIED: OnceLock<Option<Client>> = OnceLock::new();
    let builder = || Client::builder().redirect(Policy::none()).connect_timeout(Duration::from_secs(10));
    let client = if is_this_machine(url) {
        DIRECT.get_or_init(|| builder().no_proxy().build().ok())
    } else {
        PROXIED.get_or_init(|| builder().build().ok())
    };
    client.as_ref().ok_or_else(|| HookFailure::Http("the HTTP client cannot be built".to_owned()))
}

fn headers(
    handler: &HttpHandler,
    policy: &HttpPolicy,
    environment: &HookEnvironment,
) -> Result<HeaderMap, HookFailure> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let is_allowed = |name: &str| {
        let contains = |list: &Vec<String>| list.iter().any(|it| it == name);
        contains(&handler.allowed_env_vars) && policy.allowed_env_vars.as_ref().is_none_or(contains)
    };
    for (name, value) in &handler.headers {
        let bad =
            |part: &str| HookFailure::Unusable(format!("the {part} of the header {name:?} is not valid"));
        let value = filled(value, &|variable| {
            let value = is_allowed(variable).then(|| variable_of(variable, environment)).flatten();
            value.unwrap_or_default()
        });
        let name = HeaderName::try_from(name).map_err(|_| bad("name"))?;
        headers.insert(name, HeaderValue::try_from(value).map_err(|_| bad("value"))?);
    }
    Ok(headers)
}

fn variable_of(name: &str, environment: &HookEnvironment) -> Option<String> {
    let set = environment.set.iter().rev().find(|(it, _)| it == name).map(|(_, value)| value.clone());
    set.or_else(|| match &environment.inherited {
        Some(inherited) => inherited.text(name),
        None => std::env::var(name).ok(),
    })
}

/// Replaces `$NAME` and `${NAME}`.
fn filled(text: &str, variable: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{').and_then(|it| it.split_once('}'));
        let (name, remaining) = match braced {
            Some((name, remaining)) => (name, remaining),
            None => after.split_at(after.find(|it: char| !is_name(it)).unwrap_or(after.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            out.push('$');
            rest = after;
            continue;
        }
        out.push_str(&variable(name));
        rest = remaining;
    }
    out.push_str(rest);
    out
}

fn is_name(it: char) -> bool {
    it.is_ascii_alphanumeric() || it == '_'
}

fn is_allowed(url: &Url, policy: &HttpPolicy) -> bool {
    let is_http = matches!(url.scheme(), "http" | "https");
    is_http && policy.allowed_urls.as_ref().is_none_or(|list| list.iter().any(|it| url_matches(it, url)))
}

/// Whether a pattern with `*` covers an address. A star in the part before the
/// path stays in that part: `https://*.example.com/*` must not be satisfied by
/// a path that merely contains the name.
fn url_matches(pattern: &str, url: &Url) -> bool {
    let split = |text: &str| -> (String, String) {
        let after_scheme = text.find("://").map_or(0, |at| at + 3);
        let end = text[after_scheme..].find(['/', '?', '#']).map_or(text.len(), |at| after_scheme + at);
        (text[..end].to_owned(), text[end..].to_owned())
    };
    let (pattern_origin, pattern_path) = split(pattern);
    let (origin, path) = split(url.as_str());
    let pattern_path = match (&*pattern_path, pattern_origin.ends_with('*')) {
        ("", true) => "*",
        ("", false) => "/",
        (path, _) => path,
    };
    wildcard(&pattern_origin.to_ascii_lowercase(), &origin) && wildcard(pattern_path, &path)
}

/// Whether `text` is `pattern` with every `*` replaced by something.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_does_not_leave_its_part() {
        for (pattern, url, want) in [
            ("https://a.example/x", "https://a.example/x", true),
            ("https://a.example/x", "https://a.example/xy", false),
            ("https://a.example/*", "https://a.example/x?y=1", true),
            ("https://a.example", "https://a.example/", true),
            ("https://*.example.com/*", "https://h.example.com/x", true),
            ("https://*.example.com/*", "https://evil.org/.example.com/x", false),
            ("https://*.example.com/*", "https://evil.org/?.example.com/x", false),
            ("https://a.example/*", "http://a.example/x", false),
            ("http://localhost:*/h", "http://localhost:80801/h", false),
            ("http://localhost:*/h", "http://localhost:8080/h", true),
            ("*", "https://a.example/x", true),
            ("https://a.example/*/b*", "https://a.example/1/b/2", true),
        ] {
            let matches = Url::parse(url).is_ok_and(|url| url_matches(pattern, &url));
            assert_eq!(matches, want, "{pattern} {url}");
        }
    }

    #[test]
    fn variables_in_headers() {
        let variable = |name: &str| format!("<{name}>");
        for (text, want) in [
            ("Bearer $T", "Bearer <T>"),
            ("${T}x", "<T>x"),
            ("$ {T} $", "$ {T} $"),
            ("${a-b} $A$B", "${a-b} <A><B>"),
            ("", ""),
        ] {
            assert_eq!(filled(text, &variable), want);
        }
    }
}
