//! A plugin: a directory that says what it adds.

use std::{path::Path, path::PathBuf, sync::Arc};

use haft_hooks::{HookDefinition, HookSource, parse_definitions};
use haft_mcp_client::{Scope, ServerConfig};
use serde_json::Value;

use crate::{HostedServers, PluginDir, PluginFacts, premises::Premises, servers::server_configs};

#[derive(Clone)]
pub(super) struct Plugin {
    pub(super) name: String,
    pub(super) dir: PathBuf,
    version: Option<String>,
    /// Whether its MCP servers are started; the host may run them itself.
    with_servers: bool,
}

impl Plugin {
    /// Reads what a directory says about itself. One without a manifest is
    /// named after its directory.
    pub(super) fn read(plugin: &PluginDir, cwd: &Path) -> Option<Self> {
        let dir = &cwd.join(&plugin.path);
        if !dir.is_dir() {
            return None;
        }
        let manifest = json_of(&dir.join(".claude-plugin/plugin.json"), dir).unwrap_or_default();
        let folder = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = |key: &str| manifest[key].as_str().filter(|it| !it.is_empty()).map(str::to_owned);
        let (name, version) = (text("name").unwrap_or(folder), text("version"));
        Some(Self { name, dir: dir.to_owned(), version, with_servers: plugin.with_servers })
    }

    pub(super) fn facts(&self) -> PluginFacts {
        PluginFacts { name: self.name.clone(), path: self.dir.clone(), version: self.version.clone() }
    }

    pub(super) fn hooks(&self) -> Vec<HookDefinition> {
        let Some(file) = json_of(&self.dir.join("hooks/hooks.json"), &self.dir) else { return Vec::new() };
        let hooks = file.get("hooks").unwrap_or(&file);
        let source = Arc::new(HookSource::Named(format!("the plugin {}", self.name)));
        parse_definitions(hooks, &source).0
    }

    pub(super) fn servers(&self, hosted: Option<&HostedServers>, premises: &Premises) -> Vec<ServerConfig> {
        if !self.with_servers {
            return Vec::new();
        }
        let Some(file) = json_of(&self.dir.join(".mcp.json"), &self.dir) else { return Vec::new() };
        let (mut configs, _) = server_configs(&file, hosted, premises);
        for config in &mut configs {
            config.name = format!("plugin:{}:{}", self.name, config.name);
            config.scope = Scope::Plugin;
        }
        configs
    }
}

/// A JSON file in which the plugin's directory may be named.
fn json_of(path: &Path, dir: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(path).ok()?;
    let dir = Value::from(dir.to_string_lossy()).to_string();
    serde_json::from_str(&text.replace("${CLAUDE_PLUGIN_ROOT}", dir.trim_matches('"'))).ok()
}
