//! The MCP servers people and projects name. What a server's entry means is
//! the affair of the caller that starts it.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    SettingsNotice, SettingsOrigin, SettingsText,
    json_spans::step,
    keys::{AllowedLayers, ProjectTrustRule, SettingKey, SettingShape},
    setting_units::{SettingUnit, UnitEntry},
    settings_document::SettingsDocument,
};

/// A configured server.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServer {
    /// The server's name in its file.
    pub name: String,
    /// Its entry, as written.
    pub config: Value,
    /// Who named it.
    pub scope: McpScope,
    /// The file and line that declare it.
    pub origin: SettingsOrigin,
}

/// Who named a server, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum McpScope {
    /// The person, for all projects.
    User,
    /// The project.
    Project,
    /// The person, for this project.
    Local,
}

/// Servers need a yes like every other code of a project.
static SERVERS: SettingKey = SettingKey {
    name: "mcpServers",
    shape: SettingShape::Map,
    from_project: ProjectTrustRule::NeedsTrust,
    from: AllowedLayers::All,
};

/// The servers in an object that has `mcpServers`, as units.
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

/// What is wrong with a file of servers.
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

/// Adds servers; one of a stronger scope takes the whole place of a weaker one.
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
