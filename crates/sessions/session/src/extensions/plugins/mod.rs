//! Plugins: directories with a manifest of extensions.
//!
//! A plugin is enabled by the user, the organisation, the embedding program or a trusted project. Its
//! agents cannot set a mode, hooks or servers, and its extensions are prefixed with its name.

mod enabled;
mod install;
mod manifest;
mod market;
mod market_limits;
mod options;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_hooks::{HookDefinition, HookSource, parse_definitions};
use haft_lsp::ConfiguredServer;
use haft_mcp_client::{ServerConfig, ServerScope};
use serde_json::{Map, Value};

pub use self::{
    enabled::{PluginEntry, PluginList},
    market::{ListedPlugin, Marketplace},
    options::PluginOption,
};
pub(super) use enabled::found;
use manifest::{JsonText, check, paths};
use options::PluginOptions;

use super::{ExtensionProblem, LinkGuard};
use crate::{HostedServers, PluginInfo, environment::SessionEnvironment, mcp_servers::server_configs};

/// An enabled plugin.
#[derive(Clone, Debug)]
pub(super) struct Plugin {
    pub(super) name: String,
    /// Its marketplace; `inline` if a flag names its directory.
    market: String,
    pub(super) dir: PathBuf,
    version: Option<String>,
    description: String,
    /// Whether Haft starts its MCP servers; `false` if the host runs them itself.
    with_servers: bool,
    /// Skill directories, and directories that contain some.
    pub(super) skills: Vec<PathBuf>,
    /// Files and directories with commands.
    pub(super) commands: Vec<PathBuf>,
    /// Files and directories with agents.
    pub(super) agents: Vec<PathBuf>,
    /// Files and directories with output styles.
    pub(super) styles: Vec<PathBuf>,
    hooks: Vec<Value>,
    servers: Vec<Value>,
    language_servers: Vec<Value>,
    /// Directory for its persistent data.
    data: PathBuf,
    /// Its configuration options and their values.
    options: PluginOptions,
}

impl Plugin {
    /// Reads a plugin directory. Without a manifest, the plugin is named after its directory, and the
    /// marketplace's keys are used.
    fn read(
        dir: &Path,
        market: &str,
        listed: &Map<String, Value>,
        premises: &SessionEnvironment,
    ) -> (Option<Self>, Vec<ExtensionProblem>) {
        let file = dir.join(".claude-plugin/plugin.json");
        if !dir.is_dir() {
            let reason = String::from("there is no such directory");
            let problem =
                ExtensionProblem { what: "plugin", file: dir.to_owned(), line: 1, reason, is_lost: true };
            return (None, vec![problem]);
        }
        let mut manifest = match JsonText::read(&file, "plugin") {
            Ok(Some(manifest)) => manifest,
            Ok(None) => JsonText::empty(&file),
            Err(problem) => return (None, vec![problem]),
        };
        let mut problems = check(&manifest);
        if problems.iter().any(|it| it.is_lost) {
            return (None, problems);
        }
        for (key, value) in listed {
            manifest.value.entry(key.clone()).or_insert_with(|| value.clone());
        }
        let folder = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = manifest.string("name").unwrap_or(folder);
        let mut plugin = Self {
            data: data_dir(premises, &name, market),
            market: market.to_owned(),
            dir: dir.to_owned(),
            version: manifest.string("version"),
            description: manifest.string("description").unwrap_or_default(),
            with_servers: true,
            skills: vec![dir.join("skills")],
            commands: vec![dir.join("commands")],
            agents: vec![dir.join("agents")],
            styles: vec![dir.join("output-styles")],
            hooks: Vec::new(),
            servers: Vec::new(),
            language_servers: Vec::new(),
            options: PluginOptions::read(&manifest, &format!("{name}@{market}"), premises),
            name,
        };
        problems.extend(plugin.options.missing(&manifest, &plugin.id()));
        for (key, places) in [
            ("skills", &mut plugin.skills),
            ("commands", &mut plugin.commands),
            ("agents", &mut plugin.agents),
            ("outputStyles", &mut plugin.styles),
        ] {
            let (found, wrong) = paths(&manifest, key, dir);
            problems.extend(wrong);
            let is_new = |it: &PathBuf| !places.contains(it);
            let new: Vec<PathBuf> = found.into_iter().filter(is_new).collect();
            places.extend(new);
        }
        plugin.hooks = plugin.values(&manifest, "hooks", "hooks/hooks.json", &mut problems);
        plugin.servers = plugin.values(&manifest, "mcpServers", ".mcp.json", &mut problems);
        plugin.language_servers = plugin.values(&manifest, "lspServers", ".lsp.json", &mut problems);
        problems.extend(plugin.hook_problems());
        (Some(plugin), problems)
    }

    /// The values of a key: inline, from files it names, and from the default file.
    fn values(
        &self,
        manifest: &JsonText,
        key: &str,
        usual: &str,
        problems: &mut Vec<ExtensionProblem>,
    ) -> Vec<Value> {
        let mut files = vec![self.dir.join(usual)];
        let mut values = Vec::new();
        match manifest.value.get(key) {
            Some(inline @ Value::Object(_)) => values.push(inline.clone()),
            Some(Value::String(_) | Value::Array(_)) => {
                let (found, wrong) = paths(manifest, key, &self.dir);
                problems.extend(wrong);
                files.extend(found);
                let inline = manifest.value[key].as_array().into_iter().flatten().filter(|it| it.is_object());
                values.extend(inline.cloned());
            }
            _ => (),
        }
        files.dedup();
        for file in files {
            match JsonText::read(&file, "plugin") {
                Ok(Some(found)) => values.push(Value::Object(found.value)),
                Ok(None) => (),
                Err(problem) => problems.push(ExtensionProblem { is_lost: false, ..problem }),
            }
        }
        values.into_iter().map(|it| self.placed(it)).collect()
    }

    /// Replaces the names of the plugin's directories by their paths.
    fn placed(&self, value: Value) -> Value {
        match value {
            Value::String(text) => {
                let text = text.replace("${CLAUDE_PLUGIN_ROOT}", &self.dir.display().to_string());
                let text = text.replace("${CLAUDE_PLUGIN_DATA}", &self.data.display().to_string());
                Value::from(self.options.fill(&text))
            }
            Value::Array(list) => list.into_iter().map(|it| self.placed(it)).collect(),
            Value::Object(table) => {
                Value::Object(table.into_iter().map(|(key, it)| (key, self.placed(it))).collect())
            }
            other => other,
        }
    }

    /// Restriction on its symlinks.
    pub(super) fn fence(&self) -> LinkGuard {
        LinkGuard::around(&self.dir, "the plugin")
    }

    /// Whether a flag or the host names its directory.
    pub(super) fn is_given(&self) -> bool {
        self.market == "inline"
    }

    pub(super) fn id(&self) -> String {
        format!("{}@{}", self.name, self.market)
    }

    pub(super) fn facts(&self) -> PluginInfo {
        PluginInfo {
            name: self.name.clone(),
            path: self.dir.clone(),
            version: self.version.clone(),
            source: self.id(),
        }
    }

    pub(super) fn hooks(&self) -> Vec<HookDefinition> {
        self.parsed_hooks().0
    }

    /// Its directory of programs, if it has one.
    pub(super) fn bin(&self) -> Option<PathBuf> {
        Some(self.dir.join("bin")).filter(|it| it.is_dir())
    }

    /// Configuration values that its texts can use.
    pub(super) fn told(&self) -> Vec<(String, String)> {
        self.options.public_values()
    }

    fn parsed_hooks(&self) -> (Vec<HookDefinition>, Vec<String>) {
        let source = Arc::new(HookSource::Named(format!("the plugin {}", self.name)));
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        for value in &self.hooks {
            let value = &options::without_unfilled(value);
            let (found, wrong) = parse_definitions(value.get("hooks").unwrap_or(value), &source);
            all.extend(found);
            problems.extend(wrong.into_iter().map(|it| it.to_string()));
        }
        all.iter_mut().for_each(|it| it.env = self.hook_variables());
        (all, problems)
    }

    /// Environment variables of its hook processes.
    fn hook_variables(&self) -> Vec<(String, String)> {
        let dir = |name: &str, dir: &Path| (name.to_owned(), dir.display().to_string());
        let dirs = [dir("CLAUDE_PLUGIN_ROOT", &self.dir), dir("CLAUDE_PLUGIN_DATA", &self.data)];
        dirs.into_iter().chain(self.options.variables()).collect()
    }

    fn hook_problems(&self) -> Vec<ExtensionProblem> {
        let file = self.dir.join("hooks/hooks.json");
        let problem = |reason: String| ExtensionProblem {
            what: "plugin",
            file: file.clone(),
            line: 1,
            reason,
            is_lost: false,
        };
        self.parsed_hooks().1.into_iter().map(problem).collect()
    }

    pub(super) fn servers(
        &self,
        hosted: Option<&HostedServers>,
        premises: &SessionEnvironment,
    ) -> Vec<ServerConfig> {
        if !self.with_servers {
            return Vec::new();
        }
        let mut all = Vec::new();
        for value in &self.servers {
            let value = &options::without_unfilled(value);
            let (mut configs, problems) = server_configs(value, hosted, premises);
            for (name, problem) in problems {
                premises.events.notice(format!("the server {name} of the plugin {}: {problem}", self.name));
            }
            for config in &mut configs {
                if let haft_mcp_client::ServerEndpoint::Stdio(command) = &mut config.endpoint {
                    command.env.extend(self.options.variables());
                }
                config.name = format!("plugin:{}:{}", self.name, config.name);
                config.scope = ServerScope::Plugin;
            }
            all.extend(configs);
        }
        all
    }

    /// Its language servers, with prefixed names.
    pub(super) fn language_servers(&self, premises: &SessionEnvironment) -> Vec<ConfiguredServer> {
        let mut all = Vec::new();
        for value in &self.language_servers {
            let servers = value.get("lspServers").unwrap_or(value);
            let (found, wrong) = ConfiguredServer::read_all(servers, "lspServers");
            for problem in wrong {
                premises.events.notice(format!("the plugin {}: {problem}", self.name));
            }
            let named = |it: ConfiguredServer| ConfiguredServer {
                name: format!("plugin:{}:{}", self.name, it.name),
                ..it
            };
            all.extend(found.into_iter().map(named));
        }
        all
    }

    /// Number of its extensions, by kind.
    fn adds(&self) -> Vec<(&'static str, usize)> {
        let fence = self.fence();
        let pages =
            |places: &[PathBuf]| places.iter().map(|it| super::pages_at(it, &fence).len()).sum::<usize>();
        let skills = self.skills.iter().map(|it| super::skill_dirs(it, &fence).len()).sum();
        let servers = self.servers.iter().filter_map(|it| it.get("mcpServers").unwrap_or(it).as_object());
        let languages = &self.language_servers;
        let languages = languages.iter().filter_map(|it| it.get("lspServers").unwrap_or(it).as_object());
        let all = [
            ("skills", skills),
            ("commands", pages(&self.commands)),
            ("agents", pages(&self.agents)),
            ("hooks", self.hooks().len()),
            ("servers", servers.map(Map::len).sum()),
            ("language servers", languages.map(Map::len).sum()),
            ("styles", pages(&self.styles)),
        ];
        all.into_iter().filter(|(_, count)| 0 < *count).collect()
    }
}

impl JsonText {
    fn empty(path: &Path) -> Self {
        Self::new(path, Map::new())
    }
}

fn data_dir(premises: &SessionEnvironment, name: &str, market: &str) -> PathBuf {
    let user = premises.store.places().user.first().cloned();
    user.unwrap_or_else(|| premises.state_dir()).join("plugins/data").join(format!("{name}-{market}"))
}
