//! Adds and removes MCP servers in the files that declare them.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    LoadedSettings, McpScope, SettingsStore, UpdateError,
    json_file::JsonFile,
    mcp_servers,
    settings_document::SettingsDocument,
    stable_read::{LARGEST, read},
    trust::{TrustItem, folder_key},
};

impl SettingsStore {
    /// Returns the file that declares the servers of a scope.
    pub fn server_file(&self, scope: McpScope) -> Option<PathBuf> {
        match scope {
            McpScope::Project => Some(self.places().project_mcp()),
            McpScope::User | McpScope::Local => self.places().user_mcp_file(),
        }
    }

    /// Adds or replaces a server and reloads the settings. An entry added to a project's file this way
    /// is trusted at once. Blocks.
    pub fn add_server(
        &self,
        scope: McpScope,
        name: &str,
        entry: &Map<String, Value>,
    ) -> Result<Arc<LoadedSettings>, UpdateError> {
        self.update_servers(scope, |servers| {
            servers.insert(name.to_owned(), Value::Object(entry.clone()));
        })?;
        Ok(self.reload())
    }

    /// Removes a server. Returns whether it existed. Blocks.
    pub fn remove_server(&self, scope: McpScope, name: &str) -> Result<bool, UpdateError> {
        let was_there = self.update_servers(scope, |servers| servers.shift_remove(name).is_some())?;
        self.reload();
        Ok(was_there)
    }

    /// Whether the file of a scope declares this server.
    pub fn mentions_server(&self, scope: McpScope, name: &str) -> bool {
        let Some(path) = self.server_file(scope) else { return false };
        let Some(document) = read(&path, LARGEST).ok().and_then(|it| SettingsDocument::parse(&it.bytes).ok())
        else {
            return false;
        };
        let folder = folder_key(&self.real_project());
        let root = Value::Object(document.value);
        let servers = match scope {
            McpScope::Local => &root["projects"][folder.as_str()]["mcpServers"],
            McpScope::User | McpScope::Project => &root["mcpServers"],
        };
        servers.get(name).is_some()
    }

    fn update_servers<T>(
        &self,
        scope: McpScope,
        change: impl FnOnce(&mut Map<String, Value>) -> T,
    ) -> Result<T, UpdateError> {
        let path = self.server_file(scope).ok_or(UpdateError::NoPlace)?;
        let project = self.places().project.as_path();
        let (mode, inside) = match scope {
            McpScope::Project => (0o644, Some(project)),
            McpScope::User | McpScope::Local => (0o600, None),
        };
        let folder = folder_key(&self.real_project());
        let within = match scope {
            McpScope::Local => vec!["projects", folder.as_str(), "mcpServers"],
            McpScope::User | McpScope::Project => vec!["mcpServers"],
        };
        let locks = self.locks();
        let file = JsonFile { path: &path, mode, inside, locks: locks.as_deref() };
        let updated = file.update(|root| inner(root, &within, change))?;
        if scope == McpScope::Project {
            let known = self.server_items(&updated.before);
            let mut items = self.server_items(&updated.after);
            items.retain(|it| !known.contains(it));
            // On failure the server waits for approval, like one that another person added.
            let _waits = self.add_items(&items);
        }
        Ok(updated.result)
    }

    fn server_items(&self, file: &Map<String, Value>) -> Vec<TrustItem> {
        let project = self.real_project();
        mcp_servers::units(file, "").iter().map(|unit| TrustItem::from_unit(unit, &project).0).collect()
    }
}

/// Changes an object at a path of keys. Missing objects on the way are created only if they end up
/// non-empty.
fn inner<T>(
    root: &mut Map<String, Value>,
    path: &[&str],
    change: impl FnOnce(&mut Map<String, Value>) -> T,
) -> T {
    let Some((first, rest)) = path.split_first() else { return change(root) };
    let mut child = match root.get_mut(*first) {
        Some(Value::Object(child)) => std::mem::take(child),
        _ => Map::new(),
    };
    let result = inner(&mut child, rest, change);
    match root.get_mut(*first) {
        Some(slot) => *slot = Value::Object(child),
        None if child.is_empty() => (),
        None => drop(root.insert((*first).to_owned(), Value::Object(child))),
    }
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_parent_objects_are_created_only_when_needed() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        let mut root = object(json!({"kept": 1}));
        inner(&mut root, &["a", "b"], |it| it.shift_remove("x"));
        assert_eq!(root, object(json!({"kept": 1})));
        inner(&mut root, &["a", "b"], |it| it.insert(String::from("x"), json!(2)));
        inner(&mut root, &["a", "c"], |it| it.insert(String::from("y"), json!(3)));
        assert_eq!(root, object(json!({"kept": 1, "a": {"b": {"x": 2}, "c": {"y": 3}}})));
    }
}
