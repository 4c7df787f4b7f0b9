//! Language server settings.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use serde_json::Value;

/// Parsed settings below `lsp`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LspSettings {
    /// Configured servers; they take precedence over the built-in table.
    pub servers: Vec<ConfiguredServer>,
    /// Names or programs of servers that are not started.
    pub disabled: Vec<String>,
    /// Turns off diagnostics after file edits.
    pub quiet_edits: bool,
    /// Maximum bytes of memory of all servers together; `None` for no limit.
    pub most_memory: Option<u64>,
}

/// A configured server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfiguredServer {
    /// Key in the settings.
    #[serde(skip)]
    pub name: String,
    /// Program, by name or path.
    pub command: String,
    /// Arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Maps extensions (`".py"`) to LSP language ids.
    #[serde(default)]
    pub extension_to_language: BTreeMap<String, String>,
    /// Environment variables added to the session's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Sent as `initializationOptions`.
    #[serde(default)]
    pub initialization_options: Value,
    /// Answer to the server's `workspace/configuration` requests.
    #[serde(default)]
    pub settings: Value,
    /// File names that mark the root of a project.
    #[serde(default)]
    pub root_markers: Vec<String>,
    /// Root directory to use instead of the one found by markers.
    #[serde(default)]
    pub workspace_folder: Option<String>,
    /// Startup timeout in milliseconds.
    #[serde(default)]
    pub startup_timeout: Option<u64>,
    /// Whether to restart it after an exit. Default true.
    #[serde(default)]
    pub restart_on_crash: Option<bool>,
    /// Maximum restarts within five minutes.
    #[serde(default)]
    pub max_restarts: Option<u32>,
    /// Transport; only `stdio` is supported.
    #[serde(default)]
    pub transport: Option<String>,
    /// Accepted for compatibility and ignored; every server gets the same time.
    #[serde(default)]
    pub shutdown_timeout: Option<u64>,
    /// Accepted for compatibility and ignored.
    #[serde(default)]
    pub logging_config: Value,
}

impl LspSettings {
    /// Adds servers from a JSON object. Returns messages about invalid entries.
    pub fn read_servers(&mut self, servers: &Value) -> Vec<String> {
        let (found, wrong) = ConfiguredServer::read_all(servers, "lsp.servers");
        self.servers.extend(found);
        wrong
    }

    pub(crate) fn is_disabled(&self, name: &str) -> bool {
        self.disabled.iter().any(|it| it == name)
    }
}

impl ConfiguredServer {
    /// Parses a JSON object of servers at the settings path `place`. Also returns messages about invalid
    /// entries.
    pub fn read_all(servers: &Value, place: &str) -> (Vec<Self>, Vec<String>) {
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        let Some(map) = servers.as_object() else {
            return (found, vec![format!("{place} is no object of servers")]);
        };
        for (name, value) in map {
            match serde_json::from_value::<Self>(value.clone()) {
                Ok(server) if server.command.trim().is_empty() => {
                    wrong.push(format!("{place}.{name}: command is empty"));
                }
                Ok(Self { transport: Some(transport), .. }) if transport != "stdio" => {
                    wrong.push(format!(
                        "{place}.{name}: servers are talked to over stdio only, not {transport:?}"
                    ));
                }
                Ok(server) => found.push(Self { name: name.clone(), ..server }),
                Err(err) => wrong.push(format!("{place}.{name}: {err}")),
            }
        }
        (found, wrong)
    }

    /// LSP language id for a file extension.
    pub(crate) fn language(&self, extension: &str) -> Option<String> {
        let wanted = extension.to_ascii_lowercase();
        self.extension_to_language
            .iter()
            .find(|(it, _)| it.trim_start_matches('.').to_ascii_lowercase() == wanted)
            .map(|(_, language)| language.clone())
    }

    pub(crate) fn startup(&self) -> Option<Duration> {
        self.startup_timeout.map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_servers_returns_valid_entries_and_reports_invalid_ones() {
        let mut settings = LspSettings::default();
        let wrong = settings.read_servers(&serde_json::json!({
            "x": {"command": "x-ls", "args": ["--stdio"], "extensionToLanguage": {".X": "xlang"}},
            "y": {"command": "  "},
            "z": {"cmd": "z"},
            "zz": {"command": "z", "transport": "socket"},
        }));
        assert_eq!(settings.servers.len(), 1);
        assert_eq!(settings.servers[0].language("x").as_deref(), Some("xlang"));
        assert_eq!(settings.servers[0].language("y"), None);
        assert_eq!(wrong[0], "lsp.servers.y: command is empty");
        assert!(wrong[1].starts_with("lsp.servers.z: unknown field `cmd`"), "{}", wrong[1]);
        assert_eq!(wrong[2], "lsp.servers.zz: servers are talked to over stdio only, not \"socket\"");
        assert_eq!(settings.read_servers(&Value::Null), ["lsp.servers is no object of servers"]);
    }
}
