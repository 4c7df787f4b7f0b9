//! Where a host is: `ssh://user@box/dir`, `https://box/`, `http://127.0.0.1:7070/`.

use std::{fmt, path::PathBuf};

use url::Url;

/// What a host is called in a session.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostName(String);

/// Where a host is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostAddress {
    /// A machine with `ssh` and Haft.
    Ssh {
        /// `user@box`, or only the box: what `ssh` is told.
        destination: String,
        /// Its port, if it is no usual one.
        port: Option<u16>,
        /// The directory; `~` is the home.
        dir: String,
    },
    /// `haft tool-host --http` at an address.
    Web {
        /// The address.
        url: Url,
    },
}

/// A host, and how it is reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostConfig {
    /// What it is called.
    pub name: HostName,
    /// Where it is.
    pub address: HostAddress,
    /// The program `ssh` and its first arguments.
    pub ssh: Vec<String>,
    /// The program `haft` over there.
    pub command: String,
    /// What opens the door of a web address.
    pub token: Option<HostToken>,
}

/// A token that is shown to nobody but the host.
#[derive(Clone, Eq, PartialEq)]
pub struct HostToken(pub(crate) String);

/// What is wrong with an address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostAddressError(pub String);

impl HostName {
    /// Letters, digits, `-`, `_` and `.`, not too long: models type it.
    pub fn new(text: &str) -> Result<Self, HostAddressError> {
        let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
        if !text.is_empty() && text.len() <= 40 && text.chars().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(HostAddressError(format!(
                "`{text}` cannot be the name of a host; use letters, digits, `-`, `_` and `.`"
            )))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HostAddress {
    /// Reads an address.
    pub fn read(text: &str) -> Result<Self, HostAddressError> {
        let wrong = |why: &str| HostAddressError(format!("`{text}` is no address of a host: {why}"));
        let url = Url::parse(text.trim())
            .map_err(|err| wrong(&format!("{err}; use ssh://user@box/dir or https://box/")))?;
        match url.scheme() {
            "ssh" => Self::ssh(&url).map_err(|why| wrong(&why)),
            "https" => Ok(Self::Web { url }),
            "http" if is_loopback(&url) => Ok(Self::Web { url }),
            "http" => Err(wrong(
                "what is said to it could be read on the way; use https://, or http:// on this machine",
            )),
            other => Err(wrong(&format!("{other}:// is not spoken here; use ssh:// or https://"))),
        }
    }

    fn ssh(url: &Url) -> Result<Self, String> {
        let host = url.host_str().filter(|it| !it.is_empty()).ok_or("it names no machine")?;
        if url.password().is_some() {
            return Err(String::from("a password does not belong into it; use a key"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let user = unescaped(url.username());
        let destination = if user.is_empty() { host.to_owned() } else { format!("{user}@{host}") };
        // Ssh would take it for an option.
        if destination.starts_with('-') || destination.chars().any(|it| it.is_control() || it == ' ') {
            return Err(String::from("its machine or user cannot be told to ssh"));
        }
        let path = unescaped(url.path());
        let dir = match path.as_str() {
            "" | "/" => String::from("~"),
            path => path.strip_prefix("/~").map_or_else(|| path.to_owned(), |rest| format!("~{rest}")),
        };
        if dir.contains('\0') {
            return Err(String::from("its directory has a zero byte"));
        }
        Ok(Self::Ssh { destination, port: url.port(), dir })
    }

    /// The directory it names. Hosts at an address have one of their own.
    pub fn dir(&self) -> String {
        match self {
            Self::Ssh { dir, .. } => dir.clone(),
            Self::Web { .. } => String::new(),
        }
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh { destination, port, dir } => {
                let port = port.map(|it| format!(":{it}")).unwrap_or_default();
                let slash = if dir.starts_with('/') { "" } else { "/" };
                write!(f, "ssh://{destination}{port}{slash}{dir}")
            }
            Self::Web { url } => {
                let mut shown = url.clone();
                shown.set_password(None).ok();
                shown.set_query(None);
                write!(f, "{shown}")
            }
        }
    }
}

fn unescaped(text: &str) -> String {
    // Only escapes of the URL itself: what they stand for goes over as it is.
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let byte = hex.filter(|_| *first == b'%').and_then(|it| u8::from_str_radix(it, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl HostConfig {
    /// A host at an address, reached in the usual way.
    pub fn new(name: HostName, address: HostAddress) -> Self {
        Self { name, address, ssh: vec![String::from("ssh")], command: String::from("haft"), token: None }
    }

    /// Reads `NAME=ADDRESS`.
    pub fn read(text: &str) -> Result<Self, HostAddressError> {
        let (name, address) = text.split_once('=').ok_or_else(|| {
            HostAddressError(format!("`{text}` is no host; use NAME=ssh://user@box/dir or NAME=https://box/"))
        })?;
        Ok(Self::new(HostName::new(name.trim())?, HostAddress::read(address)?))
    }

    /// Uses this program in place of `ssh`: words, the first is the program.
    pub fn with_ssh(mut self, line: &str) -> Self {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if !words.is_empty() {
            self.ssh = words;
        }
        self
    }

    /// Calls Haft by this name over there.
    pub fn with_command(mut self, command: &str) -> Self {
        command.clone_into(&mut self.command);
        self
    }

    /// Opens the door with this token.
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(HostToken(token.into()));
        self
    }

    /// What starts the connection to a machine with `ssh`: program and arguments.
    pub(crate) fn ssh_line(&self) -> Option<(PathBuf, Vec<String>)> {
        let HostAddress::Ssh { destination, port, .. } = &self.address else { return None };
        let (program, first) = self.ssh.split_first()?;
        let mut args: Vec<String> = first.to_vec();
        // Nobody is there to type a password, and a connection without an answer ends.
        for option in ["BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15"] {
            args.extend([String::from("-o"), option.to_owned()]);
        }
        args.push(String::from("-T"));
        if let Some(port) = port {
            args.extend([String::from("-p"), port.to_string()]);
        }
        args.extend([String::from("--"), destination.clone()]);
        args.push(format!("{} tool-host --stdio", self.command));
        Some((PathBuf::from(program), args))
    }
}

impl fmt::Debug for HostToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostToken")
    }
}

impl fmt::Display for HostAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HostAddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused_with_a_reason() {
        let check = |text: &str, want: Result<&str, &str>| match (HostConfig::read(text), want) {
            (Ok(host), Ok(shown)) => assert_eq!(format!("{}={}", host.name, host.address), shown),
            (Err(err), Err(part)) => assert!(err.0.contains(part), "{text}: {err}"),
            (got, want) => panic!("{text}: {got:?} and not {want:?}"),
        };
        check("a=ssh://me@box/srv/app", Ok("a=ssh://me@box/srv/app"));
        check("a=ssh://box:2222/~/app", Ok("a=ssh://box:2222/~/app"));
        check("a=ssh://box", Ok("a=ssh://box/~"));
        check("a=ssh://box/with%20blank", Ok("a=ssh://box/with blank"));
        check("a=ssh://[::1]/x", Ok("a=ssh://::1/x"));
        check("gpu-1.x_y=https://tools.example/a?token=1", Ok("gpu-1.x_y=https://tools.example/a"));
        check("a=http://127.0.0.1:7070/", Ok("a=http://127.0.0.1:7070/"));
        check("a=http://[::1]:1/", Ok("a=http://[::1]:1/"));
        check("a=http://box/", Err("could be read on the way"));
        check("a=ftp://box/", Err("not spoken here"));
        check("a=ssh://me:secret@box/", Err("password"));
        check("a=ssh://-oProxyCommand=x/", Err("cannot be told to ssh"));
        check("a=ssh:///dir", Err("no machine"));
        check("a=box:/dir", Err("not spoken here"));
        check("a=nonsense", Err("no address"));
        check("ssh://box/", Err("no host"));
        check("a b=ssh://box/", Err("cannot be the name"));
        check("=ssh://box/", Err("cannot be the name"));
    }

    #[test]
    fn ssh_is_told_the_machine_and_never_the_directory() {
        let host = HostConfig::read("a=ssh://me@box:2222/a;rm").unwrap().with_ssh("ssh -F /dev/null");
        let (program, args) = host.ssh_line().unwrap();
        assert_eq!(program, PathBuf::from("ssh"));
        let line = args.join(" ");
        assert!(line.starts_with("-F /dev/null -o BatchMode=yes"), "{line}");
        assert!(line.ends_with("-T -p 2222 -- me@box haft tool-host --stdio"), "{line}");
    }
}
