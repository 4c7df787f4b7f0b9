use url::Host;

use crate::rule::wildcard::Wildcard;

/// The text after `domain:`.
#[derive(Clone, Debug)]
pub(crate) enum DomainPattern {
    /// Every host.
    Any,
    /// This host.
    Exact(String),
    /// All subdomains at any depth, but not the domain itself.
    Below(String),
    /// The same number of labels, each matching its wildcard.
    Labels(Vec<Wildcard>),
}

impl DomainPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const NO_HOST: &str = "what follows `domain:` is no host name";
        let text = text.trim();
        let text = text.strip_suffix('.').unwrap_or(text);
        if text == "*" {
            return Ok(Self::Any);
        }
        if !text.starts_with('[') && text.split('.').any(str::is_empty) {
            return Err(NO_HOST);
        }
        if !text.contains('*') {
            return Ok(Self::Exact(host_name(&Host::parse(text).map_err(|_| NO_HOST)?)));
        }
        if let Some(domain) = text.strip_prefix("*.")
            && !domain.contains('*')
        {
            return Ok(Self::Below(host_name(&Host::parse(domain).map_err(|_| NO_HOST)?)));
        }
        let text = text.to_lowercase();
        let usable = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.' | '*');
        if !text.chars().all(usable) {
            return Err(NO_HOST);
        }
        Ok(Self::Labels(text.split('.').map(Wildcard::new).collect()))
    }

    /// Compares with a host from [`host_of`].
    pub(crate) fn matches(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(wanted) => wanted == host,
            Self::Below(domain) => {
                let label = host.strip_suffix(&**domain).and_then(|rest| rest.strip_suffix('.'));
                label.is_some_and(|label| !label.is_empty())
            }
            Self::Labels(labels) => {
                let mut given = host.split('.');
                labels.iter().all(|label| given.next().is_some_and(|it| label.matches(it)))
                    && given.next().is_none()
            }
        }
    }
}

/// The host of a URL: lower case, ASCII, no trailing dot, canonical IP addresses.
///
/// Fails for URLs that two parsers could interpret differently: the URL library would drop tabs, turn
/// `\` into `/` and insert slashes, and the evaluated host must be the one that is contacted.
pub(crate) fn host_of(address: &str) -> Result<String, &'static str> {
    if address.chars().any(|it| it.is_control() || it.is_whitespace()) {
        return Err("the address contains blanks or control characters");
    }
    let Some((scheme, rest)) = address.split_once("://") else {
        return Err("the address must start with http:// or https://");
    };
    if !["http", "https", "ws", "wss"].iter().any(|it| scheme.eq_ignore_ascii_case(it)) {
        return Err("only http and https addresses can be fetched");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err("the address names no host");
    }
    if authority.contains(['\\', '@']) {
        return Err("the address hides its host behind a user name or a backslash");
    }
    let parsed = url::Url::parse(address).map_err(|_| "the address cannot be read")?;
    parsed.host().map(|host| host_name(&host.to_owned())).ok_or("the address names no host")
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_lowercase(),
        Host::Ipv4(_) | Host::Ipv6(_) => host.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_patterns_match_canonical_hosts() {
        for (pattern, address, want) in [
            ("example.com", "https://example.com/", true),
            ("example.com", "https://EXAMPLE.com:8443/x?y#z", true),
            ("EXAMPLE.com.", "https://example.com", true),
            ("example.com", "https://example.com./", true),
            ("example.com", "https://api.example.com/", false),
            ("example.com", "https://example.com.evil.test/", false),
            ("example.com", "https://evil.test/example.com", false),
            ("example.com", "https://evil.test#example.com/", false),
            ("example.com", "https://evil.test?example.com", false),
            ("example.com", "https://notexample.com", false),
            ("*.example.com", "https://api.example.com/", true),
            ("*.example.com", "https://a.b.example.com/", true),
            ("*.example.com", "https://example.com/", false),
            ("*.example.com", "https://evilexample.com/", false),
            ("example.*", "https://example.org/", true),
            ("example.*", "https://example.evil.com/", false),
            ("api-*.example.com", "https://api-1.example.com/", true),
            ("api-*.example.com", "https://api-1.x.example.com/", false),
            ("*", "https://anything.test/", true),
            ("bücher.example", "https://xn--bcher-kva.example/", true),
            ("*.bücher.example", "https://a.xn--bcher-kva.example/", true),
            ("127.0.0.1", "http://0x7f.1/", true),
            ("[::1]", "http://[0:0:0:0:0:0:0:1]/", true),
            ("xn--bcher-kva.example", "https://bücher.example/", true),
        ] {
            let host = host_of(address).unwrap();
            assert_eq!(DomainPattern::parse(pattern).unwrap().matches(&host), want, "{pattern} {address}");
        }
    }

    #[test]
    fn host_of_rejects_ambiguous_urls() {
        for address in [
            "",
            "example.com",
            "//example.com/x",
            "https:example.com",
            "http:///etc/passwd",
            "file:///etc/passwd",
            "jar:http://example.com!/x",
            "https://user:pass@example.com/",
            "https://example.com@evil.test/",
            "https://example.com\\@evil.test/",
            "https://exam\tple.com/",
            " https://example.com/",
            "https://example.com/\r\nX: 1",
            "http://[::1",
            "http://example.com:-1/",
            "https://evil.test%0d%0aHost:example.com/",
        ] {
            assert!(host_of(address).is_err(), "{address:?} {:?}", host_of(address));
        }
        for pattern in ["", "a b", "example.com/x", "https://example.com", "*..x", "a@b"] {
            assert!(DomainPattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
