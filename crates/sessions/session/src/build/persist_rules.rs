//! Saves "always allow" answers to settings files, and applies directories they add.

use std::{path::PathBuf, sync::Arc};

use haft_config::SettingsScope;
use haft_mcp_client::WeakMcpManager;
use haft_permission::{Behavior, Destination, PermissionUpdate, RuleList};
use haft_tool_runtime::UpdateStore;
use haft_workspace::Workspace;
use serde_json::{Map, Value, json};

use crate::{
    environment::{SessionEnvironment, absolute, resolved},
    mcp_servers::server_roots,
};

/// Saves permission updates of the user to the settings. Directories take effect at once: for the
/// sandbox, for undo, and for MCP servers that asked for the workspace roots.
pub(super) struct SettingsUpdateStore {
    pub(super) premises: Arc<SessionEnvironment>,
    pub(super) workspace: Option<Arc<Workspace>>,
    pub(super) manager: WeakMcpManager,
}

impl UpdateStore for SettingsUpdateStore {
    fn keep(&self, update: &PermissionUpdate) {
        let scope = match update.destination() {
            Destination::UserSettings => SettingsScope::User,
            Destination::ProjectSettings => SettingsScope::Project,
            Destination::LocalSettings => SettingsScope::Local,
            Destination::Session | Destination::CliArg | Destination::Agent => return,
        };
        if let Err(err) = self.premises.store.update(scope, |file| change(file, update)) {
            self.premises.events.notice(format!("the rule was not saved: {err}"));
        }
    }

    fn heard(&self, update: &PermissionUpdate) {
        let roots = &self.premises.roots;
        let place = |dir: &PathBuf| absolute(dir, &self.premises.cwd);
        let changed: Vec<bool> = match update {
            PermissionUpdate::AddDirectories { directories, .. } => {
                let added = directories.iter().map(place).map(|dir| {
                    if let Some(workspace) = &self.workspace {
                        workspace.add_root(resolved(&dir));
                    }
                    roots.add(&dir)
                });
                added.collect()
            }
            // Changes in the removed directory can still be undone.
            PermissionUpdate::RemoveDirectories { directories, .. } => {
                directories.iter().map(place).map(|dir| roots.remove(&dir)).collect()
            }
            _ => return,
        };
        if let Some(manager) = self.manager.upgrade().filter(|_| changed.contains(&true)) {
            manager.set_roots(server_roots(&roots.now()));
        }
    }
}

fn change(file: &mut Map<String, Value>, update: &PermissionUpdate) {
    let permissions = object(file, "permissions");
    match update {
        PermissionUpdate::AddRules(list) => {
            let (key, texts) = rules(list);
            let known = array(permissions, key);
            known.extend(texts.into_iter().filter(|text| !known.contains(text)).collect::<Vec<_>>());
        }
        PermissionUpdate::ReplaceRules(list) => {
            let (key, texts) = rules(list);
            permissions.insert(key.to_owned(), Value::Array(texts));
        }
        PermissionUpdate::RemoveRules(list) => {
            let (key, texts) = rules(list);
            array(permissions, key).retain(|text| !texts.contains(text));
        }
        PermissionUpdate::SetMode { mode, .. } => {
            permissions.insert(String::from("defaultMode"), json!(mode));
        }
        PermissionUpdate::AddDirectories { directories, .. } => {
            let known = array(permissions, "additionalDirectories");
            for dir in directories.iter().map(|dir| json!(dir.to_string_lossy())) {
                if !known.contains(&dir) {
                    known.push(dir);
                }
            }
        }
        PermissionUpdate::RemoveDirectories { directories, .. } => {
            array(permissions, "additionalDirectories")
                .retain(|known| !directories.iter().any(|dir| *known == json!(dir.to_string_lossy())));
        }
    }
}

fn rules(list: &RuleList) -> (&'static str, Vec<Value>) {
    let key = match list.behavior {
        Behavior::Allow => "allow",
        Behavior::Ask => "ask",
        Behavior::Deny => "deny",
    };
    (key, list.rules.iter().map(|rule| Value::from(rule.text())).collect())
}

/// The object under a key. A value that is not an object is replaced by an empty one; it was reported
/// when the settings were read.
fn object<'a>(file: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = file.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(object) => object,
        _ => unreachable!("made an object above"),
    }
}

fn array<'a>(file: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let value = file.entry(key).or_insert_with(|| json!([]));
    if !value.is_array() {
        *value = json!([]);
    }
    match value {
        Value::Array(array) => array,
        _ => unreachable!("made an array above"),
    }
}
