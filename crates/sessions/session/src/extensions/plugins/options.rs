//! Configuration options of plugins (`userConfig`): values from the settings, secrets from a private
//! file.

use std::{collections::BTreeMap, path::Path};

use haft_config::SettingsScope;
use serde_json::{Map, Value, json};

use super::{super::ExtensionProblem, manifest::JsonText};
use crate::environment::SessionEnvironment;

/// File with secret values, relative to the state directory.
const SECRETS: &str = "plugins/options.json";

/// A configuration option of a plugin.
#[derive(Clone, Debug)]
pub struct PluginOption {
    /// Name of the option.
    pub key: String,
    /// Description of the option.
    pub description: String,
    /// Whether the value is secret.
    pub is_secret: bool,
    /// Whether the plugin requires it.
    pub is_required: bool,
    /// The value; `None` if unset or secret.
    pub value: Option<String>,
    /// Whether a value or a default exists.
    pub is_set: bool,
}

/// The options of a plugin and their values.
#[derive(Clone, Debug, Default)]
pub(super) struct PluginOptions {
    wanted: Vec<PluginOption>,
    values: BTreeMap<String, String>,
}

impl PluginOptions {
    pub(super) fn read(manifest: &JsonText, id: &str, premises: &SessionEnvironment) -> Self {
        let Some(entries) = manifest.value.get("userConfig").and_then(Value::as_object) else {
            return Self::default();
        };
        let loaded = premises.loaded();
        let set = loaded.settings.get("pluginConfigs").map(|it| it.value[id]["options"].clone());
        let set = set.unwrap_or_default();
        let secrets = secrets(premises, id);
        let mut options = Self::default();
        for (key, entry) in entries {
            let is_secret = entry["sensitive"].as_bool().unwrap_or(false);
            let own = if is_secret { secrets.get(key) } else { set.get(key) };
            let value = own.or_else(|| entry.get("default")).filter(|it| !it.is_null()).map(text_of);
            options.wanted.push(PluginOption {
                key: key.clone(),
                description: ["description", "title"]
                    .iter()
                    .find_map(|it| entry[*it].as_str())
                    .unwrap_or_default()
                    .to_owned(),
                is_secret,
                is_required: entry["required"].as_bool().unwrap_or(false),
                value: value.clone().filter(|_| !is_secret),
                is_set: value.is_some(),
            });
            options.values.extend(value.map(|it| (key.clone(), it)));
        }
        options
    }

    pub(super) fn wanted(&self) -> &[PluginOption] {
        &self.wanted
    }

    /// Problems about required options without a value.
    pub(super) fn missing(&self, manifest: &JsonText, id: &str) -> Vec<ExtensionProblem> {
        let missing = self.wanted.iter().filter(|it| it.is_required && !it.is_set);
        missing
            .map(|it| {
                let reason = format!(
                    "it needs `{0}`, which nobody told it: haft plugins configure {id} {0}=VALUE",
                    it.key
                );
                manifest.problem("plugin", manifest.line_of(&it.key), reason)
            })
            .collect()
    }

    /// Replaces placeholders by values. Placeholders without a value are not changed.
    pub(super) fn fill(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, (key, value)| {
            text.replace(&format!("${{user_config.{key}}}"), value)
        })
    }

    /// Names and values that models may read, without secrets.
    pub(super) fn public_values(&self) -> Vec<(String, String)> {
        let shown = self.wanted.iter().filter_map(|it| Some((it.key.clone(), it.value.clone()?)));
        shown.map(|(key, value)| (format!("${{user_config.{key}}}"), value)).collect()
    }

    /// The values as environment variables of its processes.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let name = |key: &str| {
            let key: String = key
                .chars()
                .map(|it| if it.is_ascii_alphanumeric() { it.to_ascii_uppercase() } else { '_' })
                .collect();
            format!("CLAUDE_PLUGIN_OPTION_{key}")
        };
        self.values.iter().map(move |(key, value)| (name(key), value.clone()))
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn secrets(premises: &SessionEnvironment, id: &str) -> Map<String, Value> {
    let file = premises.store.places().state.as_ref().map(|it| it.join(SECRETS));
    let found = file.and_then(|it| JsonText::read(&it, "plugin").ok().flatten());
    found.and_then(|it| it.value.get(id)?.as_object().cloned()).unwrap_or_default()
}

/// Removes hooks and servers that refer to an option without a value: a program started with a
/// placeholder instead of the value would do something else.
pub(super) fn without_unfilled(value: &Value) -> Value {
    let is_unfilled = |it: &Value| it.to_string().contains("${user_config.");
    let inner = |key: &str| value.get(key).and_then(Value::as_object);
    let filtered = |table: &Map<String, Value>| -> Value {
        let kept = table.iter().filter_map(|(name, it)| match it {
            // The hooks of an event are checked one by one.
            Value::Array(list) => {
                let kept: Vec<Value> = list.iter().filter(|it| !is_unfilled(it)).cloned().collect();
                Some((name.clone(), Value::Array(kept)))
            }
            it => (!is_unfilled(it)).then(|| (name.clone(), it.clone())),
        });
        Value::Object(kept.collect())
    };
    match (inner("mcpServers"), inner("hooks"), value.as_object()) {
        (Some(servers), _, _) => json!({"mcpServers": filtered(servers)}),
        (_, Some(hooks), _) => json!({"hooks": filtered(hooks)}),
        (_, _, Some(table)) => filtered(table),
        _ => value.clone(),
    }
}

/// Sets an option: in the user's settings, or for a secret in a file readable by the user only.
pub(super) fn tell(
    premises: &SessionEnvironment,
    id: &str,
    option: &PluginOption,
    value: &str,
) -> Result<(), String> {
    let put = |table: &mut Map<String, Value>, path: &[&str]| {
        let mut slot = table;
        for step in path {
            let next = slot.entry((*step).to_owned()).or_insert_with(|| json!({}));
            if !next.is_object() {
                *next = json!({});
            }
            let Some(inner) = next.as_object_mut() else { return };
            slot = inner;
        }
        slot.insert(option.key.clone(), Value::from(value));
    };
    let told = if option.is_secret {
        premises.store.update_own_file(Path::new(SECRETS), |table| put(table, &[id]))
    } else {
        premises.store.update(SettingsScope::User, |table| put(table, &["pluginConfigs", id, "options"]))
    };
    told.map_err(|err| err.to_string())
}
