use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ServerConfig, ServerDeclaration, ServerEndpoint};

/// Servers that an administrator or the user allows and denies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerPolicy {
    /// If present, only servers that match an entry are allowed.
    pub allowed: Option<Vec<ServerMatcher>>,
    /// Servers that are always denied.
    pub denied: Vec<ServerMatcher>,
}

/// A pattern in a list of servers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum ServerMatcher {
    /// Servers with this name.
    Name { server_name: String },
    /// Local servers with exactly this command line.
    Command {
        /// Program and arguments.
        server_command: Vec<String>,
    },
    /// Servers whose URL matches; `*` stands for any characters.
    Url { server_url: String },
}

impl ServerPolicy {
    /// Returns why a declared server is not allowed; `None` if it is.
    pub fn objection(&self, server: &ServerDeclaration) -> Option<String> {
        let url = server.value.get("url").or_else(|| server.value.get("httpUrl"));
        self.judge(&PolicySubject {
            name: &server.name,
            words: words(server),
            url: url.and_then(Value::as_str),
            program: None,
            elsewhere: server.value.contains_key("cwd"),
        })
    }

    /// Like [`objection`](Self::objection) for a resolved configuration: variables are expanded and the
    /// program is resolved to a file. Servers in the embedder's process can only be denied by name.
    pub fn objection_to(&self, server: &ServerConfig, project: &Path) -> Option<String> {
        let mut face =
            PolicySubject { name: &server.name, words: None, url: None, program: None, elsewhere: false };
        match &server.endpoint {
            ServerEndpoint::Stdio(command) => {
                let args = command.args.iter().cloned();
                face.words = Some(std::iter::once(command.program.clone()).chain(args).collect());
                let at = command.cwd.as_deref().unwrap_or(project);
                face.elsewhere = at != project;
                face.program = located(&command.program, at);
            }
            ServerEndpoint::Http(it) | ServerEndpoint::Sse(it) | ServerEndpoint::WebSocket(it) => {
                face.url = Some(&it.url)
            }
            ServerEndpoint::InProcess(_) => {
                let denied = self
                    .denied
                    .iter()
                    .any(|it| matches!(it, ServerMatcher::Name { .. }) && it.matches(&face));
                return denied.then(denied_reason);
            }
        }
        self.judge(&face)
    }

    fn judge(&self, server: &PolicySubject<'_>) -> Option<String> {
        if self.denied.iter().any(|it| it.matches(server) || it.means_program(server)) {
            return Some(denied_reason());
        }
        let allowed = self.allowed.as_ref()?;
        // If commands or URLs are listed, matching by name is not enough.
        let is_local = server.words.is_some();
        let specific = |it: &&ServerMatcher| match it {
            ServerMatcher::Command { .. } => is_local,
            ServerMatcher::Url { .. } => !is_local,
            ServerMatcher::Name { .. } => false,
        };
        let has_specific = allowed.iter().any(|it| specific(&it));
        let candidates = allowed.iter().filter(|it| !has_specific || specific(it));
        let fits = candidates.into_iter().any(|it| it.matches(server) && !it.is_another_file(server));
        (!fits).then(|| String::from("it is not on the list of allowed servers"))
    }
}

fn denied_reason() -> String {
    String::from("it is on the list of denied servers")
}

/// Properties of a server that patterns are matched against.
struct PolicySubject<'a> {
    name: &'a str,
    words: Option<Vec<String>>,
    url: Option<&'a str>,
    /// Resolved path of its program, if known.
    program: Option<PathBuf>,
    /// Whether it declares a working directory other than the project.
    elsewhere: bool,
}

impl ServerMatcher {
    fn matches(&self, server: &PolicySubject<'_>) -> bool {
        match self {
            Self::Name { server_name } => *server_name == server.name,
            Self::Command { server_command } => server.words.as_ref().is_some_and(|it| it == server_command),
            Self::Url { server_url } => server.url.is_some_and(|url| wildcard(server_url, &address(url))),
        }
    }

    /// Whether the pattern's program resolves to the same file, with the same arguments.
    fn means_program(&self, server: &PolicySubject<'_>) -> bool {
        let Self::Command { server_command } = self else { return false };
        let (Some((named, args)), Some(words), Some(program)) =
            (server_command.split_first(), &server.words, &server.program)
        else {
            return false;
        };
        words.get(1..) == Some(args) && located(named, Path::new("/")).as_ref() == Some(program)
    }

    /// Whether the same command line may refer to another file: it has a relative path and the server
    /// has its own working directory.
    fn is_another_file(&self, server: &PolicySubject<'_>) -> bool {
        let Self::Command { server_command } = self else { return false };
        let relative = |it: &String| it.contains('/') && !it.starts_with('/');
        server.elsewhere && server_command.iter().any(relative)
    }
}

/// Normalises a URL as the HTTP client does.
fn address(text: &str) -> String {
    reqwest::Url::parse(text).map_or_else(|_| text.to_owned(), |it| it.to_string())
}

/// Resolves a program name relative to a directory or through `PATH`.
fn located(program: &str, at: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return at.join(program).canonicalize().ok();
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|it| it.is_file())?.canonicalize().ok()
}

fn words(server: &ServerDeclaration) -> Option<Vec<String>> {
    let command = server.value.get("command")?.as_str()?.to_owned();
    let args = server.value.get("args").and_then(Value::as_array).into_iter().flatten();
    let args = args.map(|it| it.as_str().unwrap_or_default().to_owned());
    Some([command].into_iter().chain(args).collect())
}

/// Matches a pattern in which `*` stands for any number of characters.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{ServerScope, declared_servers};

    #[test]
    fn allow_and_deny_lists_are_enforced() {
        let config = json!({"mcpServers": {
            "local": {"command": "npx", "args": ["-y", "srv"]},
            "remote": {"type": "http", "url": "https://mcp.example.com/v1"},
        }});
        let servers = declared_servers(&config, ServerScope::User).0;
        let list = |value| serde_json::from_value::<Vec<ServerMatcher>>(value).unwrap();
        for (allowed, denied, local, remote) in [
            (None, json!([]), true, true),
            (Some(json!([])), json!([]), false, false),
            (Some(json!([{"serverName": "local"}])), json!([]), true, false),
            (None, json!([{"serverName": "remote"}]), true, false),
            (
                Some(json!([{"serverName": "local"}])),
                json!([{"serverCommand": ["npx", "-y", "srv"]}]),
                false,
                false,
            ),
            (Some(json!([{"serverCommand": ["npx", "-y", "srv"]}])), json!([]), true, false),
            (
                Some(json!([{"serverCommand": ["npx", "srv"]}, {"serverName": "local"}])),
                json!([]),
                false,
                false,
            ),
            (Some(json!([{"serverUrl": "https://*.example.com/*"}])), json!([]), false, true),
            (
                Some(json!([{"serverUrl": "https://*.example.org/*"}, {"serverName": "remote"}])),
                json!([]),
                false,
                false,
            ),
            (None, json!([{"serverUrl": "https://mcp.example.com*"}]), true, false),
        ] {
            let policy = ServerPolicy { allowed: allowed.clone().map(list), denied: list(denied.clone()) };
            let may: Vec<bool> = servers.iter().map(|it| policy.objection(it).is_none()).collect();
            assert_eq!(may, [local, remote], "{allowed:?} {denied}");
        }
    }

    #[test]
    fn policy_judges_resolved_program() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap();
        std::fs::create_dir(project.join("sub")).unwrap();
        std::fs::write(project.join("srv"), "").unwrap();
        std::os::unix::fs::symlink(project.join("srv"), project.join("sub/other")).unwrap();
        let local = |program: &str, cwd: Option<&str>| {
            let cwd = cwd.map(|it| project.join(it));
            let command =
                crate::StdioCommand { program: program.to_owned(), cwd, ..crate::StdioCommand::default() };
            ServerConfig::new("s", ServerEndpoint::Stdio(command))
        };
        let remote = |url: &str| {
            let at = crate::HttpEndpoint { url: url.to_owned(), ..crate::HttpEndpoint::default() };
            ServerConfig::new("s", ServerEndpoint::Http(at))
        };
        let list = |value| serde_json::from_value::<Vec<ServerMatcher>>(value).unwrap();
        let whole = project.join("srv").display().to_string();
        let denied = ServerPolicy {
            allowed: None,
            denied: list(json!([{"serverCommand": [whole]}, {"serverUrl": "https://mcp.example.com/*"}])),
        };
        let allowed =
            ServerPolicy { allowed: Some(list(json!([{"serverCommand": ["./srv"]}]))), denied: Vec::new() };
        for (server, not_denied, is_allowed) in [
            (local("./srv", None), false, true),
            (local("./srv", Some("")), false, true),
            (local("../srv", Some("sub")), false, false),
            (local("./other", Some("sub")), false, false),
            (local("./srv", Some("sub")), true, false),
            (local("srv", None), true, false),
            (remote("HTTPS://MCP.example.com:443/v1"), false, false),
            (remote("https://mcp.example.org/v1"), true, false),
        ] {
            let mut server = server;
            if let ServerEndpoint::Stdio(it) = &mut server.endpoint {
                it.cwd = it.cwd.take().map(|it| it.canonicalize().unwrap());
            }
            let may = |policy: &ServerPolicy| policy.objection_to(&server, &project).is_none();
            assert_eq!((may(&denied), may(&allowed)), (not_denied, is_allowed), "{server:?}");
        }
    }

    #[test]
    fn wildcard_matches_any_characters() {
        for (pattern, text, want) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*c", "abbc", true),
            ("a*c", "ac", true),
            ("a*b*c", "axbyc", true),
            ("a*b*c", "ayc", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("*.example.com", "evil.example.com.test", false),
        ] {
            assert_eq!(wildcard(pattern, text), want, "{pattern} {text}");
        }
    }
}
