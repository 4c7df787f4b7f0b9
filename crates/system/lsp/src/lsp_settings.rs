//! What settings say about servers.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use serde_json::Value;

/// What settings say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LspSettings {
    /// Servers of settings, before those of the table.
    pub servers: Vec<ConfiguredServer>,
    /// Servers nobody wants, by name or program.
    pub disabled: Vec<String>,
    /// Whether edits are followed by what they broke.
    pub quiet_edits: bool,
    /// Bytes of memory all servers may take together.
    pub most_memory: Option<u64>,
}

/// A server of settings.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfiguredServer {
    /// Its name there.
    #[serde(skip)]
    pub name: String,
    /// The program, by name or path.
    pub command: String,
    /// Its words.
    #[serde(default)]
    pub args: Vec<String>,
    /// `".py"` to what the server calls such files.
    #[serde(default)]
    pub extension_to_language: BTreeMap<String, String>,
    /// Variables on top of the session's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What it is told at its start.
    #[serde(default)]
    pub initialization_options: Value,
    /// What it is told when it asks for its settings.
    #[serde(default)]
    pub settings: Value,
    /// Files that stand at the root of a project.
    #[serde(default)]
    pub root_markers: Vec<String>,
    /// Its root, whatever is found.
    #[serde(default)]
    pub workspace_folder: Option<String>,
    /// Milliseconds until it has to be there.
    #[serde(default)]
    pub startup_timeout: Option<u64>,
    /// Whether it is started again when it ends; it is unless this says no.
    #[serde(default)]
    pub restart_on_crash: Option<bool>,
    /// How often within five minutes.
    #[serde(default)]
    pub max_restarts: Option<u32>,
    /// How it is talked to; nothing but `stdio` is known here.
    #[serde(default)]
    pub transport: Option<String>,
    /// Others wait so long for its end; here every server gets the same time.
    #[serde(default)]
    pub shutdown_timeout: Option<u64>,
    /// Others write down what it says.
    #[serde(default)]
    pub logging_config: Value,
}

impl LspSettings {
    /// Reads servers from an object of them; what makes no sense is told.
    pub fn read_servers(&mut self, servers: &Value) -> Vec<String> {
        let (found, wrong) = ConfiguredServer::read_all(servers, "lsp.servers");
        self.servers.extend(found);
        wrong
    }

    /// Whether a server is not wanted.
    pub(crate) fn is_disabled(&self, name: &str) -> bool {
        self.disabled.iter().any(|it| it == name)
    }
}

impl ConfiguredServer {
    /// Reads an object of servers that stands at this place; what makes no sense
    /// is told.
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

    /// What the server calls a file with this extension.
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
    fn servers_are_read_and_mistakes_told() {
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
