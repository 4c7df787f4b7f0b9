use std::fmt;

use url::{Host, Url};

use crate::{AddressClass, literal_address};

/// The address of a page, as somebody else named it, that everybody reads in the
/// same way: http or https, a host, no user name, no port of another service,
/// and not this machine or its neighbourhood as far as the text tells.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WebUrl {
    url: Url,
    port: ExplicitPort,
}

/// Whether the text said which port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ExplicitPort {
    Yes,
    No,
}

/// Why a text is no such address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WebUrlError {
    /// It has blanks or control characters, which programs drop differently.
    Blanks,
    /// It does not begin with `http://` or `https://`.
    NoScheme,
    /// It is of another scheme.
    Scheme(String),
    /// It names no host.
    NoHost,
    /// It has a user name, a password or a backslash before the host.
    HiddenHost,
    /// It cannot be read.
    Unreadable(String),
    /// It is a name that only a local network knows.
    LocalName(String),
    /// It names this machine.
    ThisMachine(String),
    /// Its host is an address that is not on the public internet.
    NotPublic {
        /// The host as written.
        host: String,
        /// How near it is.
        class: AddressClass,
    },
    /// The port belongs to a service that is no web server.
    BadPort(u16),
}

impl fmt::Display for WebUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blanks => f.write_str("the address contains blanks or control characters"),
            Self::NoScheme => f.write_str("the address must begin with http:// or https://"),
            Self::Scheme(scheme) => write!(f, "{scheme}: cannot be fetched, only http and https can"),
            Self::NoHost => f.write_str("the address names no host"),
            Self::HiddenHost => {
                f.write_str("the address hides its host behind a user name, a password or a backslash")
            }
            Self::Unreadable(why) => write!(f, "the address cannot be read ({why})"),
            Self::LocalName(host) => {
                write!(f, "{host} is a name that only a local network knows")
            }
            Self::ThisMachine(host) => write!(f, "{host} is this machine"),
            Self::NotPublic { host, class } => write!(f, "{host} {}", class.in_words()),
            Self::BadPort(port) => write!(f, "port {port} belongs to another service than the web"),
        }
    }
}

impl AddressClass {
    /// What an address of this class is, after its name.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Public => "is a public address",
            Self::Reserved => "is in a range set aside for special purposes",
            Self::Private => "is in a private network",
            Self::Loopback => "is this machine",
            Self::Machine => "is an address of the machine's own affairs (link-local, metadata, group)",
        }
    }
}

/// Hosts near this machine that may be fetched all the same, each with its port.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PrivateHosts(Vec<(String, u16)>);

impl PrivateHosts {
    /// Reads entries such as `127.0.0.1:3000`, `[::1]:80` and `intranet:443`;
    /// those that are none are returned.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> (Self, Vec<String>) {
        let (mut hosts, mut wrong) = (Vec::new(), Vec::new());
        for entry in entries {
            let split = entry.trim().rsplit_once(':');
            let named = split.and_then(|(host, port)| {
                Some((host_text(&Host::parse(host).ok()?), port.parse().ok().filter(|it| *it != 0)?))
            });
            match named {
                Some(it) => hosts.push(it),
                None => wrong.push(entry.to_owned()),
            }
        }
        (Self(hosts), wrong)
    }

    /// Whether a URL leads to one of them.
    pub fn has(&self, url: &Url) -> bool {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return false };
        let host = host_text(&host.to_owned());
        self.0.iter().any(|it| it.0 == host && it.1 == port)
    }
}

impl WebUrl {
    /// Reads an address. Everything that two programs could read differently is
    /// refused before it is read at all.
    pub fn parse(text: &str, near: &PrivateHosts) -> Result<Self, WebUrlError> {
        if text.chars().any(|it| it.is_control() || it.is_whitespace()) {
            return Err(WebUrlError::Blanks);
        }
        let (scheme, rest) = match text.split_once("://") {
            Some(split) => split,
            None => return Err(no_scheme(text)),
        };
        if !["http", "https"].iter().any(|it| scheme.eq_ignore_ascii_case(it)) {
            return Err(if is_scheme(scheme) {
                WebUrlError::Scheme(scheme.to_owned())
            } else {
                WebUrlError::NoScheme
            });
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() {
            return Err(WebUrlError::NoHost);
        }
        if authority.contains(['\\', '@']) {
            return Err(WebUrlError::HiddenHost);
        }
        let url = Url::parse(text).map_err(|err| WebUrlError::Unreadable(err.to_string()))?;
        let after_host = authority.rsplit(']').next().unwrap_or(authority);
        let port = if after_host.contains(':') { ExplicitPort::Yes } else { ExplicitPort::No };
        Self { url, port }.judged(near)
    }

    /// Where a server sends a request on to, judged like any other address.
    pub fn redirected(&self, to: Url, near: &PrivateHosts) -> Result<Self, WebUrlError> {
        if !matches!(to.scheme(), "http" | "https") {
            return Err(WebUrlError::Scheme(to.scheme().to_owned()));
        }
        if !to.username().is_empty() || to.password().is_some() {
            return Err(WebUrlError::HiddenHost);
        }
        let port = if to.port().is_some() { ExplicitPort::Yes } else { self.port };
        Self { url: to, port }.judged(near)
    }

    fn judged(self, near: &PrivateHosts) -> Result<Self, WebUrlError> {
        let Some(host) = self.url.host() else { return Err(WebUrlError::NoHost) };
        let host = host.to_owned();
        if let Some(port) = self.url.port()
            && BAD_PORTS.contains(&port)
        {
            return Err(WebUrlError::BadPort(port));
        }
        if let Host::Domain(name) = &host {
            let labels = name.strip_suffix('.').unwrap_or(name);
            if 253 < labels.len() || labels.split('.').any(|it| it.is_empty() || 63 < it.len()) {
                return Err(WebUrlError::Unreadable(String::from("the host is no name of the internet")));
            }
        }
        if near.has(&self.url) {
            return Ok(self);
        }
        let text = host_text(&host);
        match (literal_address(&self.url), &host) {
            (Some(address), _) => match AddressClass::classify(address) {
                AddressClass::Public => Ok(self),
                class => Err(WebUrlError::NotPublic { host: text, class }),
            },
            (None, _) if text == "localhost" || text.ends_with(".localhost") => {
                Err(WebUrlError::ThisMachine(text))
            }
            (None, _) if !text.contains('.') || LOCAL_ENDS.iter().any(|it| text.ends_with(it)) => {
                Err(WebUrlError::LocalName(text))
            }
            (None, _) => Ok(self),
        }
    }

    /// The encrypted form of an address that names neither `https` nor a port;
    /// others as they are. Literal addresses and hosts nearby stay as they are,
    /// because nobody can have a certificate for most of them.
    pub fn encrypted(&self, near: &PrivateHosts) -> Self {
        let mut to = self.clone();
        let stays = self.url.scheme() != "http"
            || self.port == ExplicitPort::Yes
            || literal_address(&self.url).is_some()
            || near.has(&self.url);
        if !stays && to.url.set_scheme("https").is_ok() {
            return to;
        }
        self.clone()
    }

    /// The address.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The host: small letters, no trailing dot, numbers in their usual form.
    pub fn host(&self) -> String {
        self.url.host().map(|it| host_text(&it.to_owned())).unwrap_or_default()
    }

    /// The address without what only a browser looks at.
    pub fn without_fragment(&self) -> Url {
        let mut url = self.url.clone();
        url.set_fragment(None);
        url
    }
}

fn host_text(host: &Host) -> String {
    match host {
        Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_lowercase(),
        Host::Ipv4(_) | Host::Ipv6(_) => host.to_string(),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_alphabetic())
        && text.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '+' | '-' | '.'))
}

fn no_scheme(text: &str) -> WebUrlError {
    match text.split_once(':') {
        Some((scheme, _)) if is_scheme(scheme) && !scheme.to_ascii_lowercase().starts_with("http") => {
            WebUrlError::Scheme(scheme.to_owned())
        }
        _ => WebUrlError::NoScheme,
    }
}

/// What names end with that are set aside for local networks. A proxy could know
/// them, also those of a cloud's own affairs.
const LOCAL_ENDS: &[&str] = &[".local", ".internal", ".localdomain", ".home.arpa"];

/// Ports of the fetch standard that no web page is served on.
const BAD_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_one_way_or_not_at_all() {
        let (near, wrong) =
            PrivateHosts::parse(["127.0.0.1:3000", "[::1]:80", "intranet:443", "nonsense", "a:0"]);
        assert_eq!(wrong, ["nonsense", "a:0"]);
        for (text, want) in [
            ("https://Example.com./a#b", Ok("example.com")),
            ("HTTP://example.com", Ok("example.com")),
            ("http://127.0.0.1:3000/x", Ok("127.0.0.1")),
            ("http://2130706433:3000/", Ok("127.0.0.1")),
            ("http://[::1]/", Ok("[::1]")),
            ("https://intranet/", Ok("intranet")),
            ("http://intranet/", Err(WebUrlError::LocalName("intranet".into()))),
            ("http://localhost:3000/", Err(WebUrlError::ThisMachine("localhost".into()))),
            ("http://printer.local/", Err(WebUrlError::LocalName("printer.local".into()))),
            (
                "http://METADATA.google.internal./x",
                Err(WebUrlError::LocalName("metadata.google.internal".into())),
            ),
            ("https://internal.example.com/", Ok("internal.example.com")),
            ("http://a.LOCALHOST./", Err(WebUrlError::ThisMachine("a.localhost".into()))),
            ("http://[::ffff:a00:1]/", Err(near_by("[::ffff:a00:1]", AddressClass::Private))),
            ("http://127.0.0.1:3001/", Err(near_by("127.0.0.1", AddressClass::Loopback))),
            ("http://0251.0376.0251.0376/", Err(near_by("169.254.169.254", AddressClass::Machine))),
            ("https:example.com", Err(WebUrlError::NoScheme)),
            ("example.com/x", Err(WebUrlError::NoScheme)),
            ("//example.com/x", Err(WebUrlError::NoScheme)),
            ("file:///etc/passwd", Err(WebUrlError::Scheme("file".into()))),
            ("jar:http://example.com!/x", Err(WebUrlError::NoScheme)),
            ("unix:/run/x.sock", Err(WebUrlError::Scheme("unix".into()))),
            ("http:///etc/passwd", Err(WebUrlError::NoHost)),
            ("https://a@b.test/", Err(WebUrlError::HiddenHost)),
            ("https://a.test\\@b.test/", Err(WebUrlError::HiddenHost)),
            ("https://a.test/\tb", Err(WebUrlError::Blanks)),
            (" https://a.test/", Err(WebUrlError::Blanks)),
            ("https://a.test:22/", Err(WebUrlError::BadPort(22))),
        ] {
            let got = WebUrl::parse(text, &near).map(|it| it.host());
            assert_eq!(got.as_deref(), want.as_deref(), "{text}");
        }
        for text in ["http://a.test:-1/", "http://[::1", "http://[fe80::1%25eth0]/", "https://a%0d%0a.test/"]
        {
            assert!(matches!(WebUrl::parse(text, &near), Err(WebUrlError::Unreadable(_))), "{text}");
        }
        let long = format!("https://{}.test/", "a".repeat(64));
        assert!(matches!(WebUrl::parse(&long, &near), Err(WebUrlError::Unreadable(_))));
    }

    fn near_by(host: &str, class: AddressClass) -> WebUrlError {
        WebUrlError::NotPublic { host: host.to_owned(), class }
    }

    #[test]
    fn only_plain_public_names_are_encrypted_unasked() {
        let (near, _) = PrivateHosts::parse(["dev.test:80"]);
        for (text, want) in [
            ("http://a.test/x", "https://a.test/x"),
            ("http://a.test:80/x", "http://a.test/x"),
            ("http://a.test:8080/x", "http://a.test:8080/x"),
            ("http://8.8.8.8/x", "http://8.8.8.8/x"),
            ("http://dev.test/x", "http://dev.test/x"),
            ("https://a.test/x", "https://a.test/x"),
        ] {
            let target = WebUrl::parse(text, &near).expect("an address");
            assert_eq!(target.encrypted(&near).url().as_str(), want, "{text}");
        }
    }
}
