use std::sync::OnceLock;

use bytes::Bytes;
use futures_util::StreamExt as _;
use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Response, header::HeaderValue};
use tokio::sync::Mutex;

use crate::{KeySource, ModelError, SecretString, StreamTimeouts};

/// An HTTP client built on first use, because loading root certificates takes longer than the rest of
/// the start-up.
#[derive(Debug)]
pub(crate) struct LazyClient {
    kind: ClientKind,
    patience: StreamTimeouts,
    client: OnceLock<Client>,
    proxy_login: Option<ProxyLogin>,
}

/// Source of the `Proxy-Authorization` value, and the client built for its last value.
#[derive(Debug)]
struct ProxyLogin {
    words: KeySource,
    last: Mutex<Option<(SecretString, Client)>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ClientKind {
    /// TLS and proxies supported.
    Full,
    /// Plain HTTP to loopback: no root certificates, no proxy.
    Loopback,
}

impl LazyClient {
    pub(crate) fn new(base: &str, patience: StreamTimeouts) -> Self {
        let kind = if is_plain_loopback(base) { ClientKind::Loopback } else { ClientKind::Full };
        Self { kind, patience, client: OnceLock::new(), proxy_login: None }
    }

    /// Adds a source of `Proxy-Authorization` values. Ignored when the environment names no proxy or the
    /// server is on loopback.
    pub(crate) fn with_proxy_login(mut self, words: Option<KeySource>) -> Self {
        let is_used = self.kind == ClientKind::Full && !proxies().is_empty();
        let words = words.filter(|_| is_used);
        self.proxy_login = words.map(|words| ProxyLogin { words, last: Mutex::new(None) });
        self
    }

    /// Returns a client with the current `Proxy-Authorization` value; builds a new one when the value
    /// has changed.
    pub(crate) async fn current(&self) -> Result<Client, ModelError> {
        let Some(login) = &self.proxy_login else { return self.get().cloned() };
        let words = login.words.get().await;
        let words = words.map_err(|err| ModelError::Auth { message: format!("proxyAuthHelper: {err}") })?;
        let mut last = login.last.lock().await;
        if let Some((known, client)) = &*last
            && known.expose() == words.expose()
        {
            return Ok(client.clone());
        }
        let mut value = HeaderValue::from_str(words.expose().trim())
            .map_err(|_| ModelError::config("what proxyAuthHelper prints is no value of a header"))?;
        value.set_sensitive(true);
        let mut builder = self.builder();
        for proxy in proxies() {
            builder = builder.proxy(proxy.custom_http_auth(value.clone()).no_proxy(NoProxy::from_env()));
        }
        let client = built(builder)?;
        *last = Some((words, client.clone()));
        Ok(client)
    }

    /// Whether requests carry a `Proxy-Authorization` header.
    pub(crate) fn has_proxy_login(&self) -> bool {
        self.proxy_login.is_some()
    }

    /// Drops the cached proxy credentials after the proxy rejected them. Returns whether a retry may get
    /// other ones.
    pub(crate) async fn forget_proxy_login(&self) -> bool {
        match &self.proxy_login {
            Some(login) => login.words.forget().await,
            None => false,
        }
    }

    pub(crate) fn get(&self) -> Result<&Client, ModelError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = built(self.builder())?;
        Ok(self.client.get_or_init(|| client))
    }

    fn builder(&self) -> ClientBuilder {
        let builder = Client::builder()
            .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.patience.connect)
            // Following a redirect could send the key to another host.
            .redirect(reqwest::redirect::Policy::none());
        match self.kind {
            ClientKind::Full => builder,
            ClientKind::Loopback => builder.no_proxy().tls_certs_only([]),
        }
    }
}

fn built(builder: ClientBuilder) -> Result<Client, ModelError> {
    builder.build().map_err(|err| {
        let mut why = err.to_string();
        let mut inner = std::error::Error::source(&err);
        while let Some(cause) = inner {
            why.push_str(&format!(": {cause}"));
            inner = cause.source();
        }
        ModelError::config(format!(
            "no HTTP client: {why}. Where a system has no certificates, install ca-certificates or set SSL_CERT_FILE"
        ))
    })
}

/// Reads the usual proxy variables (`HTTPS_PROXY`, …) from the environment.
fn proxies() -> Vec<Proxy> {
    let named =
        |names: [&str; 2]| names.iter().find_map(|name| std::env::var(name).ok()).filter(|it| !it.is_empty());
    let https = named(["HTTPS_PROXY", "https_proxy"]).and_then(|url| Proxy::https(url).ok());
    let http = named(["HTTP_PROXY", "http_proxy"]).and_then(|url| Proxy::http(url).ok());
    let all = named(["ALL_PROXY", "all_proxy"]).and_then(|url| Proxy::all(url).ok());
    https.into_iter().chain(http).chain(all).collect()
}

fn is_plain_loopback(base: &str) -> bool {
    let Some(rest) = base.strip_prefix("http://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// How long to wait for the end of a response body, so that the connection can be reused.
const DRAIN: std::time::Duration = std::time::Duration::from_millis(25);

/// Reads the beginning of an error body, enough for a message.
pub(crate) async fn body_head(response: Response) -> Vec<u8> {
    let mut out = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(Ok(piece)) = body.next().await {
        out.extend_from_slice(&piece);
        if out.len() > 64 * 1024 {
            break;
        }
    }
    out
}

/// Discards the rest of a body for at most [`DRAIN`], so that the connection can be reused.
pub(crate) async fn drain(body: &mut (impl futures_util::Stream<Item = reqwest::Result<Bytes>> + Unpin)) {
    let rest = async { while let Some(Ok(_)) = body.next().await {} };
    let _ = tokio::time::timeout(DRAIN, rest).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_loopback_url_gets_loopback_client() {
        for (base, want) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://localhost", true),
            ("http://[::1]:1/x", true),
            ("https://127.0.0.1", false),
            ("http://10.0.0.1", false),
            ("http://localhost.example", false),
            ("http://127.0.0.1@example", false),
        ] {
            assert_eq!(is_plain_loopback(base), want, "{base}");
        }
        assert!(LazyClient::new("http://127.0.0.1:1", StreamTimeouts::default()).get().is_ok());
        assert!(LazyClient::new("https://example.invalid", StreamTimeouts::default()).get().is_ok());
    }
}
