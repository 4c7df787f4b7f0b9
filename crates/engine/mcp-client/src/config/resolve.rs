use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use haft_mcp_auth::{HttpEndpoint, OAuthSettings};
use serde_json::{Map, Value};

use super::{
    Approval, DeclarationProblem, SamplingRules, ServerConfig, ServerDeclaration, ServerEndpoint,
    ServerPolicy, ServerScope, ServerTrust, Timeouts, expand::expand,
};
use crate::{client::ProtocolRevision, transport::StdioCommand};

/// Everything that decides which declared servers run.
pub struct ServerRules<'a> {
    /// Allowed and denied servers.
    pub policy: &'a ServerPolicy,
    /// Returns the user's decision about a server; [`crate::Approvals`] stores such decisions.
    pub approval: &'a dyn Fn(&ServerDeclaration) -> Approval,
    /// Real path of the project directory; also the working directory of local servers.
    pub project: PathBuf,
    /// Looks up an environment variable.
    pub lookup: &'a dyn Fn(&str) -> Option<String>,
}

/// Result of [`resolve`].
#[derive(Debug, Default)]
pub struct ResolvedServers {
    /// Servers that may be started.
    pub servers: Vec<ServerConfig>,
    /// Servers of the project that need the user's approval first.
    pub waiting: Vec<UnapprovedServer>,
    /// Declarations that are invalid or denied.
    pub problems: Vec<DeclarationProblem>,
}

/// A server that needs the user's approval.
#[derive(Clone, Debug, PartialEq)]
pub struct UnapprovedServer {
    pub server: ServerDeclaration,
    /// Whether it is new or has changed since its approval.
    pub approval: Approval,
}

/// Converts declarations of all scopes to configurations. If several have the same name, the one of the
/// highest-precedence scope counts, as a whole. Servers declared by an administrator exclude all others.
/// Variables are expanded only in servers that may run.
pub fn resolve(declared: Vec<ServerDeclaration>, rules: &ServerRules<'_>) -> ResolvedServers {
    let mut resolved = ResolvedServers::default();
    for server in strongest(declared) {
        if let Some(reason) = rules.policy.objection(&server) {
            resolved.problems.push(DeclarationProblem { server: server.name, reason });
            continue;
        }
        match (rules.approval)(&server) {
            Approval::Approved => match server_config(&server, rules) {
                Ok(Some(config)) => resolved.servers.push(config),
                // The embedder connects these itself.
                Ok(None) => (),
                Err(reason) => resolved.problems.push(DeclarationProblem { server: server.name, reason }),
            },
            Approval::Rejected => {
                let reason = String::from("you chose not to use this server of the project");
                resolved.problems.push(DeclarationProblem { server: server.name, reason });
            }
            approval => resolved.waiting.push(UnapprovedServer { server, approval }),
        }
    }
    resolved
}

fn strongest(mut declared: Vec<ServerDeclaration>) -> Vec<ServerDeclaration> {
    declared.sort_by_key(|it| it.scope);
    if declared.iter().any(|it| it.scope == ServerScope::Managed) {
        declared.retain(|it| it.scope == ServerScope::Managed);
    }
    let mut by_name = BTreeMap::<String, ServerDeclaration>::new();
    let mut contents = std::collections::HashSet::new();
    for server in declared {
        let is_copy = server.scope == ServerScope::Plugin && contents.contains(&server.fingerprint());
        if !is_copy && !by_name.contains_key(&server.name) {
            contents.insert(server.fingerprint());
            by_name.insert(server.name.clone(), server);
        }
    }
    by_name.into_values().collect()
}

/// Reads one declaration; errors name the field.
struct DeclarationReader<'a> {
    value: &'a Map<String, Value>,
    lookup: &'a dyn Fn(&str) -> Option<String>,
}

impl DeclarationReader<'_> {
    fn expanded(&self, field: &str, text: &str) -> Result<String, String> {
        expand(text, self.lookup).map_err(|reason| format!("`{field}`: {reason}"))
    }

    fn text(&self, field: &str) -> Result<Option<String>, String> {
        match self.value.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => self.expanded(field, text).map(Some),
            Some(_) => Err(format!("`{field}` is not text")),
        }
    }

    fn list(&self, field: &str) -> Result<Vec<String>, String> {
        let Some(value) = self.value.get(field).filter(|it| !it.is_null()) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| format!("`{field}` is not a list"))?;
        let item = |(index, item): (usize, &Value)| match item {
            Value::String(text) => self.expanded(&format!("{field}[{index}]"), text),
            Value::Number(_) | Value::Bool(_) => Ok(item.to_string()),
            _ => Err(format!("`{field}[{index}]` is not text")),
        };
        items.iter().enumerate().map(item).collect()
    }

    fn map(&self, field: &str) -> Result<BTreeMap<String, String>, String> {
        let Some(value) = self.value.get(field).filter(|it| !it.is_null()) else {
            return Ok(BTreeMap::new());
        };
        let items = value.as_object().ok_or_else(|| format!("`{field}` is not an object"))?;
        let item = |(name, item): (&String, &Value)| match item {
            Value::String(text) => Ok((name.clone(), self.expanded(&format!("{field}.{name}"), text)?)),
            Value::Number(_) | Value::Bool(_) => Ok((name.clone(), item.to_string())),
            _ => Err(format!("`{field}.{name}` is not text")),
        };
        items.iter().map(item).collect()
    }

    /// Returns a value with variables expanded in all strings.
    fn everywhere(&self, field: &str, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => Value::String(self.expanded(field, text)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.everywhere(field, item)).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let item = |(name, item): (&String, &Value)| {
                    Ok((name.clone(), self.everywhere(&format!("{field}.{name}"), item)?))
                };
                Value::Object(map.iter().map(item).collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    fn millis(&self, field: &str) -> Option<Duration> {
        self.value.get(field).and_then(Value::as_u64).map(Duration::from_millis)
    }

    fn address(&self) -> Result<HttpEndpoint, String> {
        let url = self.text("url")?.or(self.text("httpUrl")?).ok_or("`url` is missing")?;
        let oauth = match self.value.get("oauth") {
            None | Some(Value::Null) => OAuthSettings::default(),
            Some(oauth) => {
                let oauth = self.everywhere("oauth", oauth)?;
                serde_json::from_value(oauth).map_err(|err| format!("`oauth`: {err}"))?
            }
        };
        Ok(HttpEndpoint {
            url,
            headers: self.map("headers")?,
            headers_helper: self.value.get("headersHelper").and_then(Value::as_str).map(str::to_owned),
            oauth,
        })
    }
}

fn server_config(
    server: &ServerDeclaration,
    rules: &ServerRules<'_>,
) -> Result<Option<ServerConfig>, String> {
    let reader = DeclarationReader { value: &server.value, lookup: rules.lookup };
    let kind =
        match server.value.get("type").or_else(|| server.value.get("transport")).and_then(Value::as_str) {
            Some(kind) => kind,
            None if server.value.contains_key("command") => "stdio",
            None => "http",
        };
    let endpoint = match kind {
        "stdio" => ServerEndpoint::Stdio(StdioCommand {
            program: reader
                .text("command")?
                .filter(|it| !it.trim().is_empty())
                .ok_or("`command` is missing")?,
            variables: None,
            held: None,
            args: reader.list("args")?,
            env: {
                let mut env = reader.map("env")?;
                let project = rules.project.display().to_string();
                env.entry(String::from("CLAUDE_PROJECT_DIR")).or_insert(project);
                env
            },
            cwd: Some(match reader.text("cwd")? {
                Some(cwd) => rules.project.join(cwd),
                None => rules.project.clone(),
            }),
            inherit: inherit(rules.lookup),
        }),
        "http" | "streamable-http" | "streamableHttp" => ServerEndpoint::Http(reader.address()?),
        "sse" => ServerEndpoint::Sse(reader.address()?),
        "ws" | "websocket" => ServerEndpoint::WebSocket(reader.address()?),
        "sdk" => return Ok(None),
        other => return Err(format!("`type` is `{other}`; use stdio, http, sse or ws")),
    };
    let mut config = ServerConfig::new(&server.name, endpoint);
    config.scope = server.scope;
    config.timeouts = timeouts(&reader, config.timeouts, rules.lookup);
    config.always_load = server.value.get("alwaysLoad") == Some(&Value::Bool(true));
    config.log_level = server.value.get("logLevel").and_then(Value::as_str).map(str::to_owned);
    config.trust = match server.value.get("trust").and_then(Value::as_str) {
        // A project cannot declare its own servers trusted.
        Some("trusted") if server.scope != ServerScope::Project => ServerTrust::Trusted,
        Some("untrusted") => ServerTrust::Untrusted,
        _ => ServerTrust::Approved,
    };
    config.era = match server.value.get("protocol").and_then(Value::as_str) {
        Some("legacy") => Some(ProtocolRevision::Legacy),
        Some("modern") => Some(ProtocolRevision::Modern),
        _ => None,
    };
    config.sampling = sampling(server)?;
    config.sandbox = server.value.get("sandbox") == Some(&Value::Bool(true));
    Ok(Some(config))
}

/// Returns what the server may request from the model. A project cannot allow this for its own servers.
fn sampling(server: &ServerDeclaration) -> Result<Option<SamplingRules>, String> {
    match server.value.get("sampling") {
        _ if server.scope == ServerScope::Project => Ok(None),
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(Some(SamplingRules::default())),
        Some(rules) => {
            serde_json::from_value(rules.clone()).map(Some).map_err(|err| format!("`sampling`: {err}"))
        }
    }
}

fn inherit(lookup: &dyn Fn(&str) -> Option<String>) -> crate::transport::InheritEnv {
    let wanted = named(lookup, "HAFT_MCP_ALLOWLIST_ENV", "CLAUDE_CODE_MCP_ALLOWLIST_ENV");
    match wanted.as_deref() {
        None | Some("" | "0" | "false") => crate::transport::InheritEnv::WithoutOwnCredentials,
        Some(_) => crate::transport::InheritEnv::Basics,
    }
}

fn named(lookup: &dyn Fn(&str) -> Option<String>, ours: &str, theirs: &str) -> Option<String> {
    lookup(ours).or_else(|| lookup(theirs))
}

/// Returns the server's own timeouts, else those of environment variables, else the defaults.
fn timeouts(
    reader: &DeclarationReader<'_>,
    usual: Timeouts,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Timeouts {
    let variable = |ours: &str, theirs: &str| {
        let millis = named(lookup, ours, theirs)?.replace('_', "").parse::<f64>().ok()?;
        (1.0..1.0e12).contains(&millis).then(|| Duration::from_millis(millis as u64))
    };
    // Values below one second were probably meant as seconds; ignored.
    let own = reader.millis("timeout").filter(|it| Duration::from_secs(1) <= *it);
    let total = own.or_else(|| variable("HAFT_MCP_TOOL_TIMEOUT", "MCP_TOOL_TIMEOUT")).unwrap_or(usual.total);
    let idle = reader
        .millis("idleTimeout")
        .or_else(|| variable("HAFT_MCP_TOOL_IDLE_TIMEOUT", "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT"))
        .filter(|it| !it.is_zero())
        .unwrap_or(usual.idle);
    let startup = reader.millis("startupTimeout").or_else(|| variable("HAFT_MCP_TIMEOUT", "MCP_TIMEOUT"));
    Timeouts { startup: startup.unwrap_or(usual.startup), idle: idle.min(total), total }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{Approvals, ProjectChoices, SamplingConfirm, declared_servers};

    fn resolved(layers: &[(ServerScope, Value)], choices: &ProjectChoices) -> ResolvedServers {
        let declared = layers.iter().flat_map(|(scope, config)| declared_servers(config, *scope).0).collect();
        let directory = tempfile::tempdir().unwrap();
        let lookup = |name: &str| match name {
            "TOKEN" => Some(String::from("t0k3n")),
            "MCP_TIMEOUT" => Some(String::from("9_000")),
            _ => None,
        };
        let approvals = Approvals::new(directory.path().join("a.json"));
        let rules = ServerRules {
            policy: &ServerPolicy::default(),
            approval: &|server| approvals.of(std::path::Path::new("/project"), server, choices),
            project: PathBuf::from("/project"),
            lookup: &lookup,
        };
        resolve(declared, &rules)
    }

    #[test]
    fn higher_scope_replaces_whole_declaration() {
        let config = |command: &str| json!({"mcpServers": {"s": {"command": command}}});
        let program = |resolved: &ResolvedServers| match &resolved.servers[0].endpoint {
            ServerEndpoint::Stdio(command) => command.program.clone(),
            other => panic!("{other:?}"),
        };
        let all = ProjectChoices { enable_all: true, ..ProjectChoices::default() };
        let layers = [
            (ServerScope::User, config("user")),
            (ServerScope::Local, config("local")),
            (ServerScope::Project, config("project")),
        ];
        assert_eq!(program(&resolved(&layers, &all)), "local");
        assert_eq!(program(&resolved(&[layers[0].clone(), layers[2].clone()], &all)), "project");
        let managed =
            [layers[1].clone(), (ServerScope::Managed, json!({"mcpServers": {"m": {"command": "managed"}}}))];
        let only = resolved(&managed, &all);
        assert_eq!((only.servers.len(), program(&only)), (1, String::from("managed")));
    }

    #[test]
    fn unapproved_project_server_waits_unexpanded() {
        let config = json!({"mcpServers": {"s": {"command": "${NOT_SET}", "trust": "trusted"}}});
        let waiting = resolved(&[(ServerScope::Project, config.clone())], &ProjectChoices::default());
        assert_eq!(waiting.waiting[0].approval, Approval::Unknown);
        assert!(waiting.problems.is_empty() && waiting.servers.is_empty());
        let all = ProjectChoices { enable_all: true, ..ProjectChoices::default() };
        let own = json!({"mcpServers": {"s": {"command": "x", "trust": "trusted", "sampling": true}}});
        let own = resolved(&[(ServerScope::Project, own)], &all).servers.remove(0);
        assert_eq!(
            (own.trust, own.sampling),
            (ServerTrust::Approved, None),
            "a project cannot vouch for itself"
        );
        let failed = resolved(&[(ServerScope::Project, config)], &all);
        assert_eq!(failed.problems[0].reason, "`command`: the environment variable NOT_SET is not set");
    }

    #[test]
    fn every_declaration_field_is_resolved() {
        let config = json!({"mcpServers": {
            "local": {
                "command": "npx", "args": ["--key=${TOKEN}", 7], "env": {"A": "${TOKEN}", "B": true},
                "cwd": "sub", "timeout": 5000, "alwaysLoad": true, "trust": "trusted", "protocol": "legacy",
                "sampling": {"maxTokens": 100, "approval": "always"}, "sandbox": true,
            },
            "remote": {
                "type": "http", "url": "https://x.test/${NOPE:-mcp}", "headers": {"Authorization": "Bearer ${TOKEN}"},
                "headersHelper": "cat ${HOME}/x", "oauth": {"clientId": "c", "scopes": "a b"}, "timeout": 30,
            },
            "older": {"type": "sse", "url": "https://x.test/sse"},
            "socket": {"type": "ws", "url": "wss://x.test"},
            "host": {"type": "sdk", "name": "host"},
            "bad": {"type": "carrier-pigeon"},
            "worse": {"command": "x", "sampling": {"maxTokens": "many"}},
            "empty": {"command": ""},
        }});
        let resolved = resolved(&[(ServerScope::User, config)], &ProjectChoices::default());
        let kinds: Vec<&str> = resolved.servers.iter().map(|it| it.endpoint.kind()).collect();
        assert_eq!(kinds, ["stdio", "sse", "http", "ws"]);
        let wrong: Vec<&str> = resolved.problems.iter().map(|it| it.server.as_str()).collect();
        assert_eq!(wrong, ["bad", "empty", "worse"]);
        let local = &resolved.servers[0];
        let ServerEndpoint::Stdio(command) = &local.endpoint else { panic!() };
        assert_eq!(command.args, ["--key=t0k3n", "7"]);
        assert_eq!(command.env["A"], "t0k3n");
        assert_eq!(command.env["CLAUDE_PROJECT_DIR"], "/project");
        assert_eq!(command.cwd.as_deref(), Some(std::path::Path::new("/project/sub")));
        assert_eq!(local.timeouts.total, Duration::from_secs(5));
        assert_eq!(local.timeouts.startup, Duration::from_secs(9));
        assert!(local.timeouts.idle <= local.timeouts.total);
        assert_eq!(
            (local.always_load, local.trust, local.era),
            (true, ServerTrust::Trusted, Some(ProtocolRevision::Legacy))
        );
        let rules =
            SamplingRules { max_tokens: 100, confirm: SamplingConfirm::Never, ..SamplingRules::default() };
        assert_eq!((&local.sampling, local.sandbox), (&Some(rules), true));
        let ServerEndpoint::Http(remote) = &resolved.servers[2].endpoint else { panic!() };
        assert_eq!(remote.url, "https://x.test/mcp");
        assert_eq!(remote.headers["Authorization"], "Bearer t0k3n");
        assert_eq!(remote.headers_helper.as_deref(), Some("cat ${HOME}/x"), "the shell expands it");
        assert_eq!(remote.oauth.scopes, ["a", "b"]);
        assert_eq!(resolved.servers[2].timeouts.total, Duration::from_secs(28 * 3600), "30 ms is no limit");
    }
}
