//! Writes "always" answers into settings files.

use std::sync::Arc;

use haft_config::{Scope, SettingsStore};
use haft_permission::{Behavior, Destination, PermissionUpdate, RuleList};
use haft_runtime::KeepUpdate;
use serde_json::{Map, Value, json};

use crate::EventSender;

/// Keeps what a person wants remembered in the settings.
pub(super) struct KeepInSettings {
    pub(super) store: Arc<SettingsStore>,
    pub(super) events: EventSender,
}

impl KeepUpdate for KeepInSettings {
    fn keep(&self, update: &PermissionUpdate) {
        let scope = match update.destination() {
            Destination::UserSettings => Scope::User,
            Destination::ProjectSettings => Scope::Project,
            Destination::LocalSettings => Scope::Local,
            Destination::Session | Destination::CliArg => return,
        };
        if let Err(err) = self.store.update(scope, |file| change(file, update)) {
            self.events.notice(format!("the rule was not saved: {err}"));
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
            for dir in directories.iter().map(|dir| json!(dir)) {
                if !known.contains(&dir) {
                    known.push(dir);
                }
            }
        }
        PermissionUpdate::RemoveDirectories { directories, .. } => {
            array(permissions, "additionalDirectories")
                .retain(|known| !directories.iter().any(|dir| *known == json!(dir)));
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

/// The object under a key. What is not an object is not ours to judge, but it
/// holds no rules either: settings with such a value were reported when they
/// were read.
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
