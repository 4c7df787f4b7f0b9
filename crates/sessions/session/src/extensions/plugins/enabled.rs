//! The plugins of a session: given ones, and those enabled in settings.

use std::path::PathBuf;

use haft_config::SettingsLayer;
use serde_json::{Map, Value};

use super::{
    super::ExtensionProblem,
    Plugin,
    manifest::JsonText,
    market::{self, Marketplace},
};
use crate::{PluginDir, environment::SessionEnvironment};

/// A known plugin, enabled or not.
#[derive(Clone, Debug)]
pub struct PluginEntry {
    /// `name@marketplace`, or `name@inline` for a directory that a flag names.
    pub id: String,
    /// Whether it is enabled.
    pub is_enabled: bool,
    /// The settings file or flag that enables or disables it, if any.
    pub said_by: Option<String>,
    /// Its directory, if it is on this machine.
    pub dir: Option<PathBuf>,
    /// Its version, if it has one.
    pub version: Option<String>,
    /// Description from the manifest or the marketplace.
    pub description: String,
    /// Number of extensions by kind: skills, commands, agents, hooks, servers, styles.
    pub adds: Vec<(&'static str, usize)>,
}

/// The plugins and marketplaces of an environment.
#[derive(Clone, Debug, Default)]
pub struct PluginList {
    /// All known plugins.
    pub plugins: Vec<PluginEntry>,
    /// The known marketplaces.
    pub marketplaces: Vec<Marketplace>,
    /// Problems found in files.
    pub problems: Vec<ExtensionProblem>,
}

/// Finds enabled plugins, and information about all others.
pub(in super::super) fn found(
    premises: &SessionEnvironment,
    given: &[PluginDir],
) -> (Vec<Plugin>, PluginList) {
    let (marketplaces, problems) = market::known(premises);
    let mut list = PluginList { plugins: Vec::new(), marketplaces, problems };
    let mut plugins = Vec::new();
    for dir in given {
        let path = premises.cwd.join(&dir.path);
        let (plugin, problems) = Plugin::read(&path, "inline", &Map::new(), premises);
        list.problems.extend(problems);
        if let Some(plugin) = plugin {
            list.plugins.push(entry(&plugin, true, Some(String::from("--plugin-dir"))));
            plugins.push(Plugin { with_servers: dir.with_servers, ..plugin });
        }
    }
    for (id, is_enabled, said_by) in switches(premises) {
        let (name, market) = id.rsplit_once('@').unwrap_or((id.as_str(), ""));
        let listed = list.marketplaces.iter().find(|it| it.name == market);
        let listed = listed.and_then(|it| it.plugins.iter().find(|it| it.name == name)).cloned();
        // A plugin beside its marketplace is read there; others from where they were installed.
        let dir = listed.as_ref().and_then(|it| it.dir.clone()).or_else(|| installed(premises, &id));
        let Some(dir) = dir else {
            if is_enabled {
                let reason = format!(
                    "the plugin {id} is switched on ({said_by}), and is not on this machine: nothing is fetched"
                );
                list.problems.push(ExtensionProblem {
                    what: "plugin",
                    file: PathBuf::from(&said_by),
                    line: 1,
                    reason,
                    is_lost: true,
                });
            }
            list.plugins.push(PluginEntry {
                id,
                is_enabled,
                said_by: Some(said_by),
                dir: None,
                version: None,
                description: listed.map(|it| it.description).unwrap_or_default(),
                adds: Vec::new(),
            });
            continue;
        };
        let parts = listed.map(|it| it.parts).unwrap_or_default();
        let (plugin, problems) = Plugin::read(&dir, market, &parts, premises);
        list.problems.extend(problems.into_iter().filter(|_| is_enabled));
        let Some(plugin) = plugin else { continue };
        list.plugins.push(PluginEntry { id: id.clone(), ..entry(&plugin, is_enabled, Some(said_by)) });
        if is_enabled && !plugins.iter().any(|it: &Plugin| it.name == plugin.name) {
            plugins.push(plugin);
        }
    }
    add_available(&mut list);
    (plugins, list)
}

fn entry(plugin: &Plugin, is_enabled: bool, said_by: Option<String>) -> PluginEntry {
    PluginEntry {
        id: plugin.id(),
        is_enabled,
        said_by,
        dir: Some(plugin.dir.clone()),
        version: plugin.version.clone(),
        description: plugin.description.clone(),
        adds: plugin.adds(),
    }
}

/// Adds plugins that marketplaces offer and settings do not mention.
fn add_available(list: &mut PluginList) {
    for market in &list.marketplaces {
        for listed in &market.plugins {
            let id = format!("{}@{}", listed.name, market.name);
            if !list.plugins.iter().any(|it| it.id == id) {
                list.plugins.push(PluginEntry {
                    id,
                    is_enabled: false,
                    said_by: None,
                    dir: listed.dir.clone(),
                    version: None,
                    description: listed.description.clone(),
                    adds: Vec::new(),
                });
            }
        }
    }
}

/// Plugins mentioned in settings: id, whether enabled, source.
fn switches(premises: &SessionEnvironment) -> Vec<(String, bool, String)> {
    let loaded = premises.loaded();
    let Some(all) = loaded.settings.get("enabledPlugins") else { return Vec::new() };
    let from = all.origin.source.place.to_string();
    let table = all.value.as_object().cloned().unwrap_or_default();
    let is_on = |value: &Value| value.as_bool().unwrap_or_else(|| value.is_array() || value.is_object());
    table.into_iter().map(|(id, value)| (id, is_on(&value), from.clone())).collect()
}

/// Directory of an installed plugin, from the list of installed ones or from the cache.
fn installed(premises: &SessionEnvironment, id: &str) -> Option<PathBuf> {
    if !premises.reads(SettingsLayer::User) {
        return None;
    }
    let (name, market) = id.rsplit_once('@')?;
    premises.store.places().user.iter().rev().find_map(|user| {
        let plugins = user.join("plugins");
        let listed = JsonText::read(&plugins.join("installed_plugins.json"), "plugin").ok().flatten();
        let listed = listed.and_then(|it| {
            let runs = it.value.get("plugins")?.get(id)?.as_array()?.clone();
            runs.iter()
                .rev()
                .find_map(|it| Some(PathBuf::from(it["installPath"].as_str()?)).filter(|it| it.is_dir()))
        });
        listed.or_else(|| {
            let versions = std::fs::read_dir(plugins.join("cache").join(market).join(name)).ok()?;
            let mut versions: Vec<PathBuf> =
                versions.flatten().map(|it| it.path()).filter(|it| it.is_dir()).collect();
            versions.sort();
            versions.pop()
        })
    })
}
