//! Which addresses may be reached.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use reqwest::dns::{Name, Resolve, Resolving};

/// Whether a feed may come from this machine or its neighbourhood.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Neighbourhood {
    /// Only public addresses.
    #[default]
    Refused,
    /// Any address.
    Allowed,
}

impl Neighbourhood {
    pub(crate) fn admits(self, ip: IpAddr) -> bool {
        self == Self::Allowed || is_public(ip)
    }
}

/// Looks names up and leaves out what may not be reached: the address that was
/// checked is the one that is connected to.
#[derive(Clone, Debug)]
pub(crate) struct Resolver(pub(crate) Neighbourhood);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rule = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> = found.into_iter().filter(|it| rule.admits(it.ip())).collect();
            if allowed.is_empty() {
                return Err(format!("{} has no public address", name.as_str()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

pub(crate) fn resolver(rule: Neighbourhood) -> Arc<Resolver> {
    Arc::new(Resolver(rule))
}

fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || 240 <= a
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19));
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let part = ip.segments();
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match part {
        // Translated and tunnelled addresses lead where the inner one does.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        [0x2002, high, low, ..] => inner(high, low),
        [0x2001, 0, ..] | [0x2001, 0xdb8, ..] | [0x64, 0xff9b, ..] => false,
        [0, 0, 0, 0, 0, 0, ..] => false,
        [first, ..] => !ip.is_multicast() && first & 0xfe00 != 0xfc00 && first & 0xffc0 != 0xfe80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_or_not() {
        for (text, want) in [
            ("8.8.8.8", true),
            ("2606:4700::1", true),
            ("64:ff9b::8.8.8.8", true),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("169.254.169.254", false),
            ("100.100.0.1", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::", false),
            ("::ffff:10.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("2001::1", false),
        ] {
            assert_eq!(is_public(text.parse().expect("an address")), want, "{text}");
        }
    }
}
