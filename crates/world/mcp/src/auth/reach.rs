//! Which addresses a login may lead to.
//!
//! A server names its authorization server, and we go there. It must not be able
//! to send us where only we can go: what a server names may be no nearer to us
//! than the server itself. Own code: the SDK's own filter goes by how the server's
//! address is written, so that no login inside a company's network works.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

/// How near an address is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Nearness {
    Public,
    Private,
    Loopback,
    /// The machine's own affairs: nobody's authorization server is there.
    Never,
}

/// Decides where a login may lead.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    nearest: Nearness,
    /// Hosts the user named: they may be anywhere.
    named: Arc<[String]>,
}

const PROXY_VARIABLES: &[&str] =
    &["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

impl Reach {
    /// As near as the server at `url` itself, and wherever the user says.
    pub(super) async fn of(url: &Url, named: &[&str]) -> Self {
        let mut hosts: Vec<String> = named.iter().filter_map(|it| host(&Url::parse(it).ok()?)).collect();
        // A proxy is asked by name, and finds the way itself.
        let proxies = PROXY_VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
        hosts.extend(proxies.filter_map(|proxy| {
            let proxy = if proxy.contains("://") { proxy } else { format!("http://{proxy}") };
            host(&Url::parse(&proxy).ok()?)
        }));
        Self { nearest: nearest(url).await, named: hosts.into() }
    }

    /// Whether a request may go there, as far as the address itself tells.
    pub(super) fn allows(&self, url: &Url) -> bool {
        let Some(host) = host(url) else { return false };
        match literal(&host) {
            Some(address) => self.allows_address(&host, address),
            None => true,
        }
    }

    fn allows_address(&self, host: &str, address: IpAddr) -> bool {
        nearness(address) <= self.nearest || self.named.iter().any(|it| it == host)
    }
}

impl Resolve for Reach {
    fn resolve(&self, name: Name) -> Resolving {
        let me = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_ascii_lowercase();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|it| me.allows_address(&host, it.ip())).collect();
            if allowed.is_empty() {
                return Err(format!("{host} is nearer to this machine than the server that names it").into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

fn host(url: &Url) -> Option<String> {
    Some(url.host_str()?.trim_matches(['[', ']']).to_ascii_lowercase())
}

fn literal(host: &str) -> Option<IpAddr> {
    host.parse().ok()
}

/// The least near of the server's addresses: one more that it could add does
/// not open anything.
async fn nearest(url: &Url) -> Nearness {
    let Some(host) = host(url) else { return Nearness::Public };
    if let Some(address) = literal(&host) {
        return limited(nearness(address));
    }
    match tokio::net::lookup_host((host.as_str(), 0)).await {
        Ok(found) => found.map(|it| limited(nearness(it.ip()))).min().unwrap_or(Nearness::Public),
        // Behind a proxy names need not mean anything here.
        Err(_) => Nearness::Public,
    }
}

/// A server that is where none can be opens nothing.
fn limited(nearness: Nearness) -> Nearness {
    if nearness == Nearness::Never { Nearness::Public } else { nearness }
}

fn nearness(address: IpAddr) -> Nearness {
    match address {
        IpAddr::V4(it) => of_v4(it),
        IpAddr::V6(it) => embedded(it).map_or_else(|| of_v6(it), of_v4),
    }
}

fn of_v4(address: Ipv4Addr) -> Nearness {
    let [a, b, ..] = address.octets();
    match (a, b) {
        (127, _) => Nearness::Loopback,
        (0 | 224..=255, _) | (169, 254) => Nearness::Never,
        (10, _) | (172, 16..=31) | (192, 168) | (100, 64..=127) => Nearness::Private,
        _ => Nearness::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Nearness {
    // The address under which a cloud tells machines their own secrets.
    const CLOUD: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    let first = address.segments()[0];
    match first {
        _ if address.is_loopback() => Nearness::Loopback,
        _ if address.is_unspecified() || address == CLOUD => Nearness::Never,
        0xfe80..=0xfebf | 0xff00..=0xffff => Nearness::Never,
        0xfc00..=0xfdff => Nearness::Private,
        _ => Nearness::Public,
    }
}

/// The older address within one of the ways to write it as a newer one.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let from = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_nearer_than_the_server_is_reached() {
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
            let reach = Reach::of(&Url::parse(server).unwrap(), &[named]).await;
            assert_eq!(reach.allows(&Url::parse(target).unwrap()), allowed, "{server} names {target}");
        }
    }

    #[tokio::test]
    async fn names_are_judged_by_where_they_lead() {
        let resolve = |server: &'static str, named: &'static str| async move {
            let reach = Reach::of(&Url::parse(server).unwrap(), &[named]).await;
            reach.resolve("localhost".parse().unwrap()).await.is_ok()
        };
        assert!(!resolve("https://93.184.216.34/mcp", "https://x.test").await);
        assert!(resolve("http://127.0.0.1/mcp", "https://x.test").await);
        assert!(resolve("https://93.184.216.34/mcp", "http://localhost/as").await);
    }
}
