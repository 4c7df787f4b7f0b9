//! Restricts the addresses a login may contact.
//!
//! An MCP server names its authorization server, which this machine then contacts. It must not be able
//! to direct requests to internal addresses (SSRF): the addresses it names may be no closer to this
//! machine than the server itself. Own implementation, because the SDK's filter judges the server's URL,
//! which rules out logins inside a company's network.

use std::{net::IpAddr, sync::Arc};

use haft_net::{AddressClass, AddressRule, host_of, literal_address, look_up};
use reqwest::Url;

/// Decides which addresses a login may contact.
#[derive(Clone, Debug)]
pub(super) struct LoginHostPolicy {
    nearest: AddressClass,
    /// Hosts named by the user; always allowed.
    named: Arc<[String]>,
}

const PROXY_VARIABLES: &[&str] =
    &["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

impl LoginHostPolicy {
    /// Allows addresses of the same class as the server at `url`, and the `named` hosts.
    pub(super) async fn new(url: &Url, named: &[&str]) -> Self {
        let mut hosts: Vec<String> = named.iter().filter_map(|it| host_of(&Url::parse(it).ok()?)).collect();
        // A proxy gets the host name and resolves it itself.
        let proxies = PROXY_VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
        hosts.extend(proxies.filter_map(|proxy| {
            let proxy = if proxy.contains("://") { proxy } else { format!("http://{proxy}") };
            host_of(&Url::parse(&proxy).ok()?)
        }));
        Self { nearest: nearest(url).await, named: hosts.into() }
    }
}

impl AddressRule for LoginHostPolicy {
    fn allows(&self, host: &str, address: IpAddr) -> bool {
        // Reserved ranges are not internal networks, so they are always allowed.
        let nearest = self.nearest.max(AddressClass::Reserved);
        AddressClass::classify(address) <= nearest || self.named.iter().any(|it| it == host)
    }

    fn refusal(&self, host: &str) -> String {
        format!("{host} is nearer to this machine than the server that names it")
    }
}

/// Returns the most distant class among the server's addresses, so that an additional address allows
/// nothing more.
async fn nearest(url: &Url) -> AddressClass {
    let Some(host) = host_of(url) else { return AddressClass::Public };
    if let Some(address) = literal_address(url) {
        return limited(AddressClass::classify(address));
    }
    match look_up(&host).await {
        Ok(found) => found
            .into_iter()
            .map(|it| limited(AddressClass::classify(it)))
            .min()
            .unwrap_or(AddressClass::Public),
        // Behind a proxy, names need not be resolvable here.
        Err(_) => AddressClass::Public,
    }
}

/// Maps an implausible class to one that allows nothing more.
fn limited(class: AddressClass) -> AddressClass {
    if class == AddressClass::Machine { AddressClass::Public } else { class }
}

#[cfg(test)]
mod tests {
    use reqwest::dns::Resolve;

    use super::*;

    #[tokio::test]
    async fn login_may_not_reach_closer_addresses_than_server() {
        let public = "https://93.184.216.34/mcp";
        let private = "http://10.1.2.3/mcp";
        let local = "http://localhost:80/mcp";
        for (server, target, allowed) in [
            (public, "https://1.1.1.1/token", true),
            (public, "https://10.0.0.1/token", false),
            (public, "http://127.0.0.1/token", false),
            (public, "http://[::1]/token", false),
            (public, "http://[::ffff:127.0.0.1]/token", false),
            (public, "http://[64:ff9b::a00:1]/token", false),
            (public, "http://169.254.169.254/latest", false),
            (public, "http://192.168.7.7/token", true),
            (private, "https://10.0.0.9/token", true),
            (private, "https://1.1.1.1/token", true),
            (private, "http://127.0.0.1/token", false),
            (private, "http://169.254.169.254/latest", false),
            (local, "http://127.0.0.1:9/token", true),
            (local, "http://10.0.0.9/token", true),
            (local, "http://169.254.169.254/latest", false),
            (local, "http://[fd00:ec2::254]/latest", false),
            ("http://169.254.169.254/mcp", "http://169.254.169.254/token", false),
        ] {
            let named = if target.contains("192.168") { target } else { "https://elsewhere.test" };
            let reach = LoginHostPolicy::new(&Url::parse(server).unwrap(), &[named]).await;
            assert_eq!(reach.allows_url(&Url::parse(target).unwrap()), allowed, "{server} names {target}");
        }
    }

    #[tokio::test]
    async fn host_names_are_judged_by_resolved_address() {
        let resolve = |server: &'static str, named: &'static str| async move {
            let reach = LoginHostPolicy::new(&Url::parse(server).unwrap(), &[named]).await;
            let resolver = haft_net::CheckedResolver::new(Arc::new(reach));
            resolver.resolve("localhost".parse().unwrap()).await.is_ok()
        };
        assert!(!resolve("https://93.184.216.34/mcp", "https://x.test").await);
        assert!(resolve("http://127.0.0.1/mcp", "https://x.test").await);
        assert!(resolve("https://93.184.216.34/mcp", "http://localhost/as").await);
    }
}
