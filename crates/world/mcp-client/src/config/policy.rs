use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Declared;

/// Which servers an administrator or the user allows at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerPolicy {
    /// Only these, if given.
    pub allowed: Option<Vec<ServerMatcher>>,
    /// Never these, whatever allows them.
    pub denied: Vec<ServerMatcher>,
}

/// What a list of servers names.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum ServerMatcher {
    /// Servers of this name.
    Name {
        /// The name.
        server_name: String,
    },
    /// Local servers with exactly this command and these arguments.
    Command {
        /// All words.
        server_command: Vec<String>,
    },
    /// Servers whose address matches; `*` stands for anything.
    Url {
        /// The pattern.
        server_url: String,
    },
}

impl ServerPolicy {
    /// Why a server may not be used; `None` if it may.
    pub fn objection(&self, server: &Declared) -> Option<String> {
        if self.denied.iter().any(|it| it.matches(server)) {
            return Some(String::from("it is on the list of denied servers"));
        }
        let allowed = self.allowed.as_ref()?;
        // Where commands or addresses are listed, a name alone says too little.
        let is_local = server.value.contains_key("command");
        let specific = |it: &&ServerMatcher| match it {
            ServerMatcher::Command { .. } => is_local,
            ServerMatcher::Url { .. } => !is_local,
            ServerMatcher::Name { .. } => false,
        };
        let has_specific = allowed.iter().any(|it| specific(&it));
        let candidates = allowed.iter().filter(|it| !has_specific || specific(it));
        let fits = candidates.into_iter().any(|it| it.matches(server));
        (!fits).then(|| String::from("it is not on the list of allowed servers"))
    }
}

impl ServerMatcher {
    fn matches(&self, server: &Declared) -> bool {
        match self {
            Self::Name { server_name } => *server_name == server.name,
            Self::Command { server_command } => words(server).is_some_and(|it| it == *server_command),
            Self::Url { server_url } => {
                let url = server.value.get("url").or_else(|| server.value.get("httpUrl"));
                url.and_then(Value::as_str).is_some_and(|url| wildcard(server_url, url))
            }
        }
    }
}

fn words(server: &Declared) -> Option<Vec<String>> {
    let command = server.value.get("command")?.as_str()?.to_owned();
    let args = server.value.get("args").and_then(Value::as_array).into_iter().flatten();
    let args = args.map(|it| it.as_str().unwrap_or_default().to_owned());
    Some([command].into_iter().chain(args).collect())
}

/// `*` stands for any number of characters.
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
    use crate::config::{Scope, declared_servers};

    #[test]
    fn lists_are_kept() {
        let config = json!({"mcpServers": {
            "local": {"command": "npx", "args": ["-y", "srv"]},
            "remote": {"type": "http", "url": "https://mcp.example.com/v1"},
        }});
        let servers = declared_servers(&config, Scope::User).0;
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
    fn stars_stand_for_anything() {
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
