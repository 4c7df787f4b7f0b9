//! Addresses of tool hosts: `ssh://user@box/dir`, `https://box/`, `http://127.0.0.1:7070/`.

use std::{fmt, path::PathBuf};

use url::Url;

/// Name of a tool host in a session.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostName(String);

/// Address of a tool host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostAddress {
    /// A machine with `ssh` and Haft.
    Ssh {
        /// `user@box` or `box`, passed to `ssh`.
        destination: String,
        /// Port, if it is not the default.
        port: Option<u16>,
        /// Directory; `~` is the home directory.
        dir: String,
    },
    /// `haft tool-host --http`.
    Web { url: Url },
}

/// A tool host and how to connect to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostConfig {
    pub name: HostName,
    pub address: HostAddress,
    /// The `ssh` program and its first arguments.
    pub ssh: Vec<String>,
    /// Command that runs Haft on the host.
    pub command: String,
    /// Token for an HTTP address.
    pub token: Option<HostToken>,
}

/// A token; never shown in `Debug` output.
#[derive(Clone, Eq, PartialEq)]
pub struct HostToken(pub(crate) String);

/// Why an address is invalid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostAddressError(pub String);

impl HostName {
    /// Validates a name: letters, digits, `-`, `_` and `.`, limited in length, because models type it.
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
    /// Parses an address.
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
        // `ssh` would take it for an option.
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

    /// Returns the directory in the address. An HTTP host has its own default directory.
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
    // Decodes percent-escapes only; the resulting bytes are passed on unchanged.
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
    /// Creates a configuration with default settings.
    pub fn new(name: HostName, address: HostAddress) -> Self {
        Self { name, address, ssh: vec![String::from("ssh")], command: String::from("haft"), token: None }
    }

    /// Parses `NAME=ADDRESS`.
    pub fn read(text: &str) -> Result<Self, HostAddressError> {
        let (name, address) = text.split_once('=').ok_or_else(|| {
            HostAddressError(format!("`{text}` is no host; use NAME=ssh://user@box/dir or NAME=https://box/"))
        })?;
        Ok(Self::new(HostName::new(name.trim())?, HostAddress::read(address)?))
    }

    /// Replaces `ssh` by another program: words separated by spaces, the first is the program.
    pub fn with_ssh(mut self, line: &str) -> Self {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if !words.is_empty() {
            self.ssh = words;
        }
        self
    }

    /// Sets the command that runs Haft on the host.
    pub fn with_command(mut self, command: &str) -> Self {
        command.clone_into(&mut self.command);
        self
    }

    /// Sets the token.
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(HostToken(token.into()));
        self
    }

    /// Returns program and arguments of the `ssh` command; `None` for an HTTP address.
    pub(crate) fn ssh_line(&self) -> Option<(PathBuf, Vec<String>)> {
        let HostAddress::Ssh { destination, port, .. } = &self.address else { return None };
        let (program, first) = self.ssh.split_first()?;
        let mut args: Vec<String> = first.to_vec();
        // Never prompt for a password, and detect a dead connection.
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
    fn host_addresses_parse_or_explain_error() {
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
    fn ssh_command_never_contains_directory() {
        let host = HostConfig::read("a=ssh://me@box:2222/a;rm").unwrap().with_ssh("ssh -F /dev/null");
        let (program, args) = host.ssh_line().unwrap();
        assert_eq!(program, PathBuf::from("ssh"));
        let line = args.join(" ");
        assert!(line.starts_with("-F /dev/null -o BatchMode=yes"), "{line}");
        assert!(line.ends_with("-T -p 2222 -- me@box haft tool-host --stdio"), "{line}");
    }
}
