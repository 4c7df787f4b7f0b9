//! Settings access for the Config tool.

use std::sync::Arc;

use haft_builtin_tools::config::{Setting, SettingsAccess};
use haft_config::{SettingsScope, SettingsStore, known_settings};
use haft_tool::BoxFuture;
use serde_json::Value;

pub(super) struct StoredSettings {
    pub(super) store: Arc<SettingsStore>,
}

impl SettingsAccess for StoredSettings {
    fn get(&self, setting: &str) -> Option<Setting> {
        self.store.reload_if_changed();
        let found = self.store.current().settings.get(setting)?;
        Some(Setting { source: Some(found.origin.to_string()), value: found.value })
    }

    fn known(&self) -> Vec<String> {
        known_settings()
    }

    fn set<'a>(&'a self, setting: &'a str, value: Value) -> BoxFuture<'a, Result<(), String>> {
        let (store, setting) = (Arc::clone(&self.store), setting.to_owned());
        Box::pin(async move {
            let written = tokio::task::spawn_blocking(move || {
                store.update(SettingsScope::User, |file| {
                    file.insert(setting, value);
                })
            });
            match written.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(err)) => Err(err.to_string()),
                Err(err) => Err(err.to_string()),
            }
        })
    }
}
