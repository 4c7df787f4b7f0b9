use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Url;

use crate::{host_of, literal_address};

/// Policy of one user of this crate: which addresses may be connected to.
pub trait AddressRule: Send + Sync + 'static {
    /// Whether a connection to `address`, one of the addresses of `host`, is allowed. `host` is in lower
    /// case.
    fn allows(&self, host: &str, address: IpAddr) -> bool;

    /// Error text for a host that has no allowed address.
    fn refusal(&self, host: &str) -> String;

    /// Checks what can be decided without DNS: an IP literal must be allowed. A host name passes here
    /// and is checked when it is resolved. A URL without a host is refused.
    fn allows_url(&self, url: &Url) -> bool {
        match (host_of(url), literal_address(url)) {
            (Some(host), Some(address)) => self.allows(&host, address),
            (host, None) => host.is_some(),
            (None, Some(_)) => false,
        }
    }
}

/// DNS resolver for `reqwest` that returns only the addresses its rule allows, so the checked address is
/// the one that is connected to. `reqwest` does not resolve IP literals; check
/// [`AddressRule::allows_url`] before every request.
pub struct CheckedResolver(Arc<dyn AddressRule>);

impl CheckedResolver {
    pub fn new(rule: Arc<dyn AddressRule>) -> Arc<Self> {
        Arc::new(Self(rule))
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rule = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str().to_ascii_lowercase();
            let found = look_up(&host).await?;
            let allowed: Vec<SocketAddr> = found
                .into_iter()
                .filter(|it| rule.allows(&host, *it))
                .map(|it| SocketAddr::new(it, 0))
                .collect();
            if allowed.is_empty() {
                return Err(rule.refusal(&host).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Resolves a host with the system resolver. Waits without a timeout.
pub async fn look_up(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok(tokio::net::lookup_host((host, 0)).await?.map(|it| it.ip()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_public;

    struct OnlyPublic;

    impl AddressRule for OnlyPublic {
        fn allows(&self, host: &str, address: IpAddr) -> bool {
            is_public(address) || host == "named.test"
        }

        fn refusal(&self, host: &str) -> String {
            format!("{host} is too near")
        }
    }

    #[test]
    fn allows_url_checks_ip_literals_and_defers_names() {
        for (url, want) in [
            ("https://8.8.8.8/x", true),
            ("https://10.0.0.1/x", false),
            ("http://[::ffff:127.0.0.1]/x", false),
            ("http://2130706433/x", false),
            ("https://a.test/x", true),
            ("data:text/plain,x", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(OnlyPublic.allows_url(&Url::parse(url).expect("a URL")), want, "{url}");
        }
    }

    #[tokio::test]
    async fn checked_resolver_drops_addresses_the_rule_refuses() {
        let resolver = CheckedResolver::new(Arc::new(OnlyPublic));
        let name = "LOCALHOST".parse().expect("a name");
        let refused = resolver.resolve(name).await.err().expect("this machine is not public");
        assert_eq!(refused.to_string(), "localhost is too near");
    }
}
