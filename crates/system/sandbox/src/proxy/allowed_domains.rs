//! Decides which hosts may be reached.

use std::net::IpAddr;

use crate::Domains;

/// A host and port in the form that is both checked and connected to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ProxyDestination {
    pub(crate) host: ProxyHost,
    pub(crate) port: u16,
}

/// A host to connect to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ProxyHost {
    /// Lower case, without a trailing dot.
    Name(String),
    Address(IpAddr),
}

impl std::fmt::Display for ProxyDestination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            ProxyHost::Name(name) => write!(f, "{name}:{}", self.port),
            ProxyHost::Address(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            ProxyHost::Address(ip) => write!(f, "{ip}:{}", self.port),
        }
    }
}

impl ProxyDestination {
    /// Parses `host:port` strictly; `None` for anything else.
    pub(crate) fn parse(authority: &str, usual_port: Option<u16>) -> Option<Self> {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = match port {
            Some(digits) if digits.bytes().all(|it| it.is_ascii_digit()) => digits.parse().ok()?,
            Some(_) => return None,
            None => usual_port?,
        };
        Some(Self { host: ProxyHost::parse(host)?, port })
    }
}

impl ProxyHost {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bracketed = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        if let Some(inner) = bracketed {
            return inner.parse().ok().map(|ip: std::net::Ipv6Addr| Self::Address(ip.into()));
        }
        if let Ok(ip) = text.parse::<std::net::Ipv4Addr>() {
            return Some(Self::Address(ip.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'))
        };
        let labels: Vec<&str> = name.split('.').collect();
        // A name whose last label is numeric is an IP address in some notation.
        let numeric =
            labels.last().is_none_or(|it| it.bytes().all(|it| it.is_ascii_digit()) || it.starts_with("0x"));
        (name.len() <= 253 && labels.iter().all(|it| is_label(it)) && !numeric).then_some(Self::Name(name))
    }
}

impl Domains {
    /// Checks whether a host may be reached. The error names the rule. An empty list allows nothing.
    pub(crate) fn admit(&self, to: &ProxyDestination) -> Result<(), String> {
        if let Some(rule) = self.deny.iter().find(|rule| matches(rule, to)) {
            return Err(format!("{to} is denied by {rule}"));
        }
        if self.allow.iter().any(|rule| matches(rule, to)) {
            return Ok(());
        }
        Err(format!("{to} is not an allowed domain"))
    }

    /// Whether an allow rule names the host exactly (no wildcard), which also permits a private address.
    pub(crate) fn names(&self, to: &ProxyDestination) -> bool {
        self.allow.iter().any(|rule| !rule.contains('*') && matches(rule, to))
    }
}

fn matches(rule: &str, to: &ProxyDestination) -> bool {
    let (rule, port) = match rule.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.bytes().all(|it| it.is_ascii_digit()) => {
            (host, port.parse().ok())
        }
        _ => (rule, None),
    };
    if port.is_some_and(|port: u16| port != to.port) {
        return false;
    }
    let rule = rule.strip_suffix('.').unwrap_or(rule).to_ascii_lowercase();
    match &to.host {
        ProxyHost::Address(ip) => rule.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|it| it == *ip),
        ProxyHost::Name(name) => match rule.strip_prefix("*.") {
            Some(parent) => {
                name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.') && 1 < rest.len())
            }
            None => rule == *name,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_domain_rule_matches_host_label_by_label() {
        let domains = Domains {
            allow: vec![
                String::from("example.com"),
                String::from("*.example.org"),
                String::from("10.0.0.1"),
                String::from("ported.net:443"),
                String::from("localhost"),
            ],
            deny: vec![String::from("bad.example.org")],
        };
        for (authority, want) in [
            ("example.com:443", true),
            ("EXAMPLE.com.:443", true),
            ("a.example.com:443", false),
            ("a.b.example.org:80", true),
            ("example.org:80", false),
            ("bad.example.org:80", false),
            ("evilexample.org:80", false),
            ("example.com.evil.net:80", false),
            ("10.0.0.1:80", true),
            ("10.0.0.2:80", false),
            ("ported.net:443", true),
            ("ported.net:80", false),
        ] {
            let to = ProxyDestination::parse(authority, None).expect(authority);
            assert_eq!(domains.admit(&to).is_ok(), want, "{authority}");
        }
        assert!(
            Domains::default().admit(&ProxyDestination::parse("x.com:1", None).expect("parses")).is_err()
        );
    }

    #[test]
    fn invalid_host_and_port_is_rejected() {
        for text in [
            "evil\0.example.com:1",
            "a b:1",
            "ex%41mple.com:1",
            "é.com:1",
            ":1",
            "a..b:1",
            "x:",
            "x:y",
            "2130706433:80",
            "0x7f.1:80",
            "127.1:80",
            "x:99999",
            "[::1:80",
        ] {
            assert_eq!(ProxyDestination::parse(text, None), None, "{text}");
        }
        assert_eq!(ProxyDestination::parse("[::1]:80", None).expect("parses").to_string(), "[::1]:80");
        assert_eq!(ProxyDestination::parse("x.com", Some(80)).expect("parses").to_string(), "x.com:80");
    }
}
