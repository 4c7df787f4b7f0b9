use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Network distance class of an IP address. Ordered from far (`Public`) to near (`Machine`).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum AddressClass {
    Public,
    /// Reserved ranges (documentation, benchmarking, tunnels): neither public nor part of the local
    /// network.
    Reserved,
    /// A private network, including carrier-grade NAT (100.64.0.0/10).
    Private,
    Loopback,
    /// Link-local, cloud metadata, multicast and unspecified addresses: never a service that a URL
    /// should name.
    Machine,
}

impl AddressClass {
    /// Classifies `address`. An IPv6 address that embeds an IPv4 address (mapped, NAT64, 6to4, ISATAP,
    /// …) gets the class of the embedded address.
    pub fn classify(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(it) => of_v4(it),
            IpAddr::V6(it) => embedded(it).map_or_else(|| of_v6(it), of_v4),
        }
    }
}

/// Whether `address` is on the public internet (not loopback, private, link-local or reserved).
pub fn is_public(address: IpAddr) -> bool {
    AddressClass::classify(address) == AddressClass::Public
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [127, ..] => AddressClass::Loopback,
        [0 | 224..=255, ..] | [169, 254, ..] => AddressClass::Machine,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => AddressClass::Private,
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            AddressClass::Reserved
        }
        _ => AddressClass::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    /// IPv6 address of the EC2 metadata service.
    const CLOUD: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    match address.segments() {
        _ if address.is_loopback() => AddressClass::Loopback,
        _ if address.is_unspecified() || address == CLOUD => AddressClass::Machine,
        [0xfe80..=0xfebf | 0xff00..=0xffff, ..] => AddressClass::Machine,
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => AddressClass::Private,
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Reserved,
    }
}

/// The IPv4 address embedded in a transition form of an IPv6 address, if any.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        [0x2002, high, low, ..] => Some(from(high, low)),
        // ISATAP: the IPv4 address is in the last 32 bits.
        [.., 0 | 0x200, 0x5efe, high, low] => Some(from(high, low)),
        _ => None,
    }
}

/// The URL's host in lower case, without the brackets of an IPv6 literal.
pub fn host_of(url: &Url) -> Option<String> {
    Some(url.host_str()?.trim_matches(['[', ']']).to_ascii_lowercase())
}

/// The IP address if the URL's host is an IP literal. HTTP clients do not pass literals to the resolver,
/// so an [`AddressRule`](crate::AddressRule) must check them before every request.
pub fn literal_address(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(it) => Some(it.into()),
        Host::Ipv6(it) => Some(it.into()),
        Host::Domain(name) => name.parse().ok(),
    }
}

/// Whether the URL's host is a loopback address or `localhost`. Such requests never use a proxy.
pub fn is_this_machine(url: &Url) -> bool {
    match literal_address(url) {
        Some(address) => address.is_loopback(),
        None => url.host_str() == Some("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_class_of_embedded_ipv4_equals_that_of_the_ipv4_address() {
        use AddressClass::{Loopback, Machine, Private, Public, Reserved};
        for (text, want) in [
            ("8.8.8.8", Public),
            ("93.184.216.34", Public),
            ("172.32.0.1", Public),
            ("100.128.0.1", Public),
            ("2606:4700::1", Public),
            ("64:ff9b::8.8.8.8", Public),
            ("2002:808:808::1", Public),
            ("192.0.2.1", Reserved),
            ("192.0.0.8", Reserved),
            ("198.18.0.1", Reserved),
            ("198.51.100.7", Reserved),
            ("203.0.113.9", Reserved),
            ("2001::1", Reserved),
            ("2001:2::1", Reserved),
            ("2001:20::1", Reserved),
            ("2001:4860::1", Public),
            ("3fff::1", Reserved),
            ("100::1", Reserved),
            ("5f00::1", Reserved),
            ("192.88.99.1", Reserved),
            ("fec0::1", Private),
            ("2001:db8::1", Reserved),
            ("64:ff9b:1::1", Reserved),
            ("::10.0.0.1", Reserved),
            ("10.1.2.3", Private),
            ("172.16.0.1", Private),
            ("192.168.7.7", Private),
            ("100.100.0.1", Private),
            ("fd00::1", Private),
            ("::ffff:10.0.0.1", Private),
            ("64:ff9b::a00:1", Private),
            ("127.0.0.1", Loopback),
            ("127.9.9.9", Loopback),
            ("::1", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("64:ff9b::7f00:1", Loopback),
            ("2002:7f00:1::", Loopback),
            ("0.0.0.0", Machine),
            ("169.254.169.254", Machine),
            ("224.0.0.1", Machine),
            ("240.0.0.1", Machine),
            ("255.255.255.255", Machine),
            ("::", Machine),
            ("::ffff:169.254.169.254", Machine),
            ("fe80::1", Machine),
            ("ff02::1", Machine),
            ("fd00:ec2::254", Machine),
            ("2606:4700::5efe:10.0.0.1", Private),
            ("2606:4700::200:5efe:127.0.0.1", Loopback),
            ("fe80::5efe:169.254.169.254", Machine),
            ("2002:a9fe:a9fe::1", Machine),
            ("2002:c0a8:101::", Private),
            ("64:ff9b::169.254.169.254", Machine),
            ("::ffff:0:127.0.0.1", Reserved),
            ("0.1.2.3", Machine),
            ("100.64.0.1", Private),
            ("100.127.255.255", Private),
            ("192.0.0.192", Reserved),
            ("198.19.255.255", Reserved),
            ("239.255.255.250", Machine),
            ("febf::1", Machine),
            ("fdff:ffff::1", Private),
            ("ff05::1:3", Machine),
            ("4000::1", Reserved),
        ] {
            let address = text.parse().expect("an address");
            assert_eq!(AddressClass::classify(address), want, "{text}");
            assert_eq!(is_public(address), want == Public, "{text}");
        }
    }

    #[test]
    fn host_of_url_is_lower_case_without_brackets() {
        for (text, host, literal, here) in [
            ("http://LocalHost:80/x", "localhost", false, true),
            ("http://127.1/x", "127.0.0.1", true, true),
            ("http://0x7f000001/", "127.0.0.1", true, true),
            ("http://[::1]:9/x", "::1", true, true),
            ("ws://[::1]:9/x", "::1", true, true),
            ("ws://127.0.0.1/", "127.0.0.1", true, true),
            ("http://127.evil.test/", "127.evil.test", false, false),
            ("https://a.test/", "a.test", false, false),
            ("http://10.0.0.1/", "10.0.0.1", true, false),
        ] {
            let url = Url::parse(text).expect("a URL");
            assert_eq!(host_of(&url).as_deref(), Some(host), "{text}");
            assert_eq!(literal_address(&url).is_some(), literal, "{text}");
            assert_eq!(is_this_machine(&url), here, "{text}");
        }
    }
}
