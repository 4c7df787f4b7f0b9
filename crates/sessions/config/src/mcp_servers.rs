//! MCP servers declared by user and project. The entries are not interpreted here.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    SettingsNotice, SettingsOrigin, SettingsText,
    json_spans::step,
    keys::{AllowedLayers, ProjectTrustRule, SettingKey, SettingShape},
    setting_units::{SettingUnit, UnitEntry},
    settings_document::SettingsDocument,
};

/// A declared MCP server.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServer {
    pub name: String,
    /// The server's entry, unchanged.
    pub config: Value,
    /// Scope of the declaring file.
    pub scope: McpScope,
    /// File and line of the declaration.
    pub origin: SettingsOrigin,
}

/// Scope of a server declaration, in ascending precedence.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum McpScope {
    /// The user, for all projects.
    User,
    /// The project's shared file.
    Project,
    /// The user, for this project only.
    Local,
}

/// Key of server declarations. Like all executable content of a project, servers need trust.
static SERVERS: SettingKey = SettingKey {
    name: "mcpServers",
    shape: SettingShape::Map,
    from_project: ProjectTrustRule::NeedsTrust,
    from: AllowedLayers::All,
};

/// Returns the entries of `mcpServers` in an object as units.
pub(crate) fn units(within: &Map<String, Value>, at: &str) -> Vec<SettingUnit> {
    let servers = within.get("mcpServers").and_then(Value::as_object);
    let unit = |(name, config): (&String, &Value)| SettingUnit {
        path: vec!["mcpServers".to_owned()],
        entry: UnitEntry::Named(name.clone()),
        value: config.clone(),
        pointer: format!("{at}/mcpServers{}", step(name)),
        key: &SERVERS,
    };
    servers.into_iter().flatten().map(unit).collect()
}

/// Returns what is wrong with a file of MCP servers.
pub(crate) fn problems(document: &SettingsDocument, source: &SettingsText) -> Vec<SettingsNotice> {
    let notice = |pointer: &str, message: &str| SettingsNotice {
        place: source.place.clone(),
        position: document.position(pointer),
        message: message.to_owned(),
    };
    match document.value.get("mcpServers") {
        Some(Value::Object(servers)) => {
            let bad = servers.iter().filter(|(_, config)| !config.is_object());
            let pointer = |name: &str| format!("/mcpServers{}", step(name));
            bad.map(|(name, _)| notice(&pointer(name), "a server must be an object; it does not count"))
                .collect()
        }
        Some(_) => vec![notice("/mcpServers", "mcpServers must be an object of servers")],
        None => Vec::new(),
    }
}

/// Adds servers. A server of a higher-precedence scope replaces one of the same name as a whole.
pub(crate) fn add(
    servers: &mut Vec<McpServer>,
    units: Vec<SettingUnit>,
    scope: McpScope,
    source: &Arc<SettingsText>,
) {
    for unit in units {
        let UnitEntry::Named(name) = unit.entry else { continue };
        if !unit.value.is_object() {
            continue;
        }
        let origin = SettingsOrigin { source: Arc::clone(source), pointer: unit.pointer };
        servers.retain(|it| it.name != name);
        servers.push(McpServer { name, config: unit.value, scope, origin });
    }
    servers.sort_by(|a, b| a.name.cmp(&b.name));
}
