use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::ServerScope;
use haft_types::text::hex;

/// A server as declared in a configuration, without variable expansion.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerDeclaration {
    pub name: String,
    /// Where it is declared.
    pub scope: ServerScope,
    /// The entry, unchanged.
    pub value: Map<String, Value>,
}

/// A declaration that cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeclarationProblem {
    /// Server name; empty if the problem concerns the whole file.
    pub server: String,
    /// What is wrong, and where.
    pub reason: String,
}

/// Server names with a special meaning.
const RESERVED: &[&str] =
    &["workspace", "claude-in-chrome", "computer-use", "Claude Preview", "Claude Browser"];

/// Keys under which various programs store MCP servers.
const KEYS: &[&str] = &["mcpServers", "servers", "context_servers", "mcp_servers"];

/// Returns the servers in a configuration: the content of `.mcp.json`, a settings file or
/// `--mcp-config`. Accepts the formats of Claude Code, VS Code and Zed, and a bare object of servers.
pub fn declared_servers(
    config: &Value,
    scope: ServerScope,
) -> (Vec<ServerDeclaration>, Vec<DeclarationProblem>) {
    let whole = |reason: &str| DeclarationProblem { server: String::new(), reason: reason.to_owned() };
    let Value::Object(root) = config else {
        return (Vec::new(), vec![whole("the configuration is not an object")]);
    };
    let servers = match KEYS.iter().find_map(|key| root.get(*key)) {
        Some(Value::Object(servers)) => servers,
        Some(_) => return (Vec::new(), vec![whole("the list of servers is not an object")]),
        None if !root.is_empty() && root.values().all(looks_like_server) => root,
        None => return (Vec::new(), Vec::new()),
    };
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in servers {
        match check(name, value) {
            Ok(value) => found.push(ServerDeclaration { name: name.clone(), scope, value: value.clone() }),
            Err(reason) => problems.push(DeclarationProblem { server: name.clone(), reason }),
        }
    }
    (found, problems)
}

fn looks_like_server(value: &Value) -> bool {
    ["command", "url", "httpUrl"].iter().any(|key| value.get(*key).is_some()) || value["type"] == "sdk"
}

fn check<'a>(name: &str, value: &'a Value) -> Result<&'a Map<String, Value>, String> {
    if name.trim().is_empty() {
        return Err(String::from("a server needs a name"));
    }
    if RESERVED.contains(&name) {
        return Err(format!("the name `{name}` is reserved"));
    }
    if name.contains("__") {
        return Err(String::from("a server's name must not contain `__`"));
    }
    value.as_object().ok_or_else(|| String::from("the declaration is not an object"))
}

impl ServerDeclaration {
    /// Returns a hash of the whole entry, independent of key order; approvals are bound to it.
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(sorted(&Value::Object(self.value.clone())).to_string()))
    }

    /// Returns the command or URL as written, to show to the user before approval.
    pub fn summary(&self) -> String {
        let text = |key: &str| self.value.get(key).and_then(Value::as_str);
        let words = self.value.get("args").and_then(Value::as_array).into_iter().flatten();
        let words: Vec<String> =
            words.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned)).collect();
        match (text("command"), text("url").or_else(|| text("httpUrl"))) {
            (Some(command), _) => [command.to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" "),
            (None, Some(url)) => url.to_owned(),
            (None, None) => String::from("(neither a command nor an address)"),
        }
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn server_formats_of_other_programs_are_parsed() {
        let server = json!({"command": "x"});
        for (config, found, problems) in [
            (json!({"mcpServers": {"a": server}}), 1, 0),
            (json!({"servers": {"a": server, "b": {"type": "http", "url": "u"}}}), 2, 0),
            (json!({"context_servers": {"a": server}}), 1, 0),
            (json!({"a": server}), 1, 0),
            (json!({"permissions": {}}), 0, 0),
            (json!({}), 0, 0),
            (json!([]), 0, 1),
            (json!({"mcpServers": []}), 0, 1),
            (
                json!({"mcpServers": {"a": 1, "workspace": server, "x__y": server, "": server, "ok": server}}),
                1,
                4,
            ),
        ] {
            let (servers, wrong) = declared_servers(&config, ServerScope::User);
            assert_eq!((servers.len(), wrong.len()), (found, problems), "{config}: {wrong:?}");
        }
    }

    #[test]
    fn declaration_hash_ignores_key_order() {
        let read = |text: &str| {
            let config: Value = serde_json::from_str(text).unwrap();
            declared_servers(&config, ServerScope::Project).0.remove(0).fingerprint()
        };
        let one = read(r#"{"mcpServers":{"a":{"command":"x","args":["1"],"env":{"A":"1","B":"2"}}}}"#);
        let same = read(r#"{"mcpServers":{"a":{"env":{"B":"2","A":"1"},"args":["1"],"command":"x"}}}"#);
        let other = read(r#"{"mcpServers":{"a":{"command":"x","args":["2"],"env":{"A":"1","B":"2"}}}}"#);
        assert_eq!(one, same);
        assert_ne!(one, other);
    }
}
