use std::sync::OnceLock;

use reqwest::Client;

use crate::{ModelError, Patience};

/// An HTTP client that is built when it is first needed: loading the roots of
/// trust takes longer than the rest of a start.
#[derive(Debug)]
pub(crate) struct LazyClient {
    kind: ClientKind,
    patience: Patience,
    client: OnceLock<Client>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ClientKind {
    /// Encrypted, or through a proxy.
    Full,
    /// Plain, to this machine: no roots, no proxy.
    Loopback,
}

impl LazyClient {
    pub(crate) fn new(base: &str, patience: Patience) -> Self {
        let kind = if is_plain_loopback(base) { ClientKind::Loopback } else { ClientKind::Full };
        Self { kind, patience, client: OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Result<&Client, ModelError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let builder = Client::builder()
            .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.patience.connect)
            // Redirects would carry keys to places nobody named.
            .redirect(reqwest::redirect::Policy::none());
        let builder = match self.kind {
            ClientKind::Full => builder,
            ClientKind::Loopback => builder.no_proxy().tls_certs_only([]),
        };
        let client = builder.build().map_err(|err| ModelError::config(format!("no HTTP client: {err}")))?;
        Ok(self.client.get_or_init(|| client))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_recognised() {
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
        assert!(LazyClient::new("http://127.0.0.1:1", Patience::default()).get().is_ok());
        assert!(LazyClient::new("https://example.invalid", Patience::default()).get().is_ok());
    }
}
