//! Changes of settings, permission mode and model while the session is open.

use std::sync::Arc;

use haft_agent::SettingsChange;
use haft_config::{SettingsLayer, SettingsScope};
use haft_types::PermissionMode;
use serde_json::{Map, Value};

use super::{RunnerState, SessionActor};
use crate::{
    ModeRefused, SessionEventKind, WrittenScope,
    build::{ModelPolicy, SessionRunner, hook_parts},
    environment::resolved,
    mcp_servers::{names, server_roots},
};

impl SessionActor {
    pub(super) fn set_mode(&self, mode: PermissionMode) -> Result<PermissionMode, ModeRefused> {
        let spec = &self.spec.permissions;
        let launched = spec.may_bypass || spec.mode == Some(PermissionMode::BypassPermissions);
        haft_settings_rules::mode(Some(mode), &self.loaded.settings.permissions)
            .map_err(|_| ModeRefused::Forbidden)?;
        if mode == PermissionMode::BypassPermissions && !launched {
            return Err(ModeRefused::NotLaunched);
        }
        self.pipeline.gate.set_mode(mode);
        Ok(mode)
    }

    /// Changes the model, from the next request on. `None` or `default` restores the model the session
    /// was opened with. Fails for a model that the settings do not allow.
    pub(super) fn set_model(&mut self, model: Option<&str>) -> Result<String, String> {
        let model = match model.filter(|it| *it != "default") {
            None => self.first_model.clone(),
            Some(name) => self.catalog.resolve(name).to_owned(),
        };
        if let Some(refusal) =
            ModelPolicy::from_settings(&self.loaded.settings).refusal(&self.catalog, &model)
        {
            return Err(refusal);
        }
        self.order(SettingsChange::Model(model.clone()));
        self.agents.follow_model(&model);
        self.events.tell(SessionEventKind::ModelChanged(model.clone()));
        Ok(model)
    }

    pub(super) fn order(&mut self, order: SettingsChange) {
        if let Some(reach) = &self.reach {
            reach.orders.give(order);
        }
        self.obey_orders();
    }

    fn obey_orders(&mut self) {
        if let RunnerState::Idle(SessionRunner::Agent(agent)) = &mut self.seat {
            agent.obey();
        }
    }

    /// The name of the current model.
    pub(super) fn current_model(&self) -> String {
        match (&self.seat, &self.snapshot) {
            (RunnerState::Idle(SessionRunner::Agent(agent)), _) => agent.settings.model.clone(),
            (_, Some(snapshot)) => snapshot.model.clone(),
            _ => self.first_model.clone(),
        }
    }

    /// Changes the settings of the flags layer: a `null` removes a key, any other value replaces it.
    pub(super) fn change_flag_settings(&mut self, changes: &Map<String, Value>) -> Result<(), String> {
        let mut flags = self.premises.flag_settings();
        for (key, value) in changes {
            match value {
                Value::Null => drop(flags.remove(key)),
                value => drop(flags.insert(key.clone(), value.clone())),
            }
        }
        self.premises.set_flag_settings(&flags);
        self.loaded = self.premises.loaded();
        let taken = self.take_settings();
        self.follow_servers();
        if let Some(model) = changes.get("model") {
            self.set_model(model.as_str())?;
        }
        taken
    }

    /// Reloads settings whose files have changed and applies them. Invalid settings are reported and the
    /// old ones stay in force.
    pub(super) fn follow_settings(&mut self) {
        self.premises.store.reload_if_changed();
        let loaded = self.premises.loaded();
        if Arc::ptr_eq(&loaded, &self.loaded) {
            return;
        }
        for notice in &loaded.problems {
            self.events.notice(notice.to_string());
        }
        let names = ["enabledPlugins", "extraKnownMarketplaces", "additionalMarketplaces", "outputStyle"];
        let value =
            |loaded: &haft_config::LoadedSettings, name: &str| loaded.settings.get(name).map(|it| it.value);
        let is_extended = names.iter().any(|name| value(&self.loaded, name) != value(&loaded, name));
        self.loaded = loaded;
        if is_extended {
            self.reload();
        }
        if let Err(problem) = self.take_settings() {
            // The new settings forbid the current mode: the old policy stays in force.
            self.events.notice(problem);
        }
        self.follow_servers();
    }

    /// Starts and stops MCP servers according to the current settings.
    fn follow_servers(&mut self) {
        if self.servers_begun {
            self.servers.start();
            if let Some(reach) = &self.reach {
                self.server_tools.announce(&reach.inbox);
            }
        }
    }

    /// Applies the rules and hooks of the current settings. The permission mode does not change.
    fn take_settings(&mut self) -> Result<(), String> {
        let gate = &self.pipeline.gate;
        let mut policy = self.premises.policy()?;
        policy.mode = gate.mode();
        gate.permissions().replace(&policy);
        self.skills.reapply_overrides();
        if let Some(kind) = self.agents.kind_of_main() {
            kind.bind(gate.permissions());
        }
        gate.permissions().rename(&Arc::new(names(self.servers.manager())));
        let mut of_host: Vec<_> = gate.hooks().get().definitions().cloned().collect();
        of_host.drain(..self.own_hooks.definitions().count().min(of_host.len()));
        let (definitions, ports) = hook_parts(&self.premises, self.servers.manager(), &self.processes);
        self.follow_directories();
        self.own_hooks = self
            .own_hooks
            .reconfigured(definitions, ports)
            .and(self.extensions.hooks())
            .and(self.spec.hooks.clone());
        gate.hooks().set(self.own_hooks.and(of_host));
        self.obey_orders();
        Ok(())
    }

    /// Adds directories that the settings name now to the workspace.
    fn follow_directories(&self) {
        let roots = &self.premises.roots;
        let named = self.premises.named_directories().into_iter();
        let added: Vec<_> = named.filter(|dir| roots.add(dir)).collect();
        if let Some(files) = &self.files {
            added.iter().for_each(|dir| files.workspace().add_root(resolved(dir)));
        }
        if !added.is_empty() {
            self.servers.manager().set_roots(server_roots(&roots.now()));
        }
    }

    /// Writes user settings to a file. Each scope accepts a single key, with a string value.
    pub(super) fn write_setting(
        &mut self,
        scope: WrittenScope,
        changes: &Map<String, Value>,
    ) -> Result<(), String> {
        let (scope, layer, may) = match scope {
            WrittenScope::Local => (SettingsScope::Local, SettingsLayer::Local, "outputStyle"),
            WrittenScope::User => (SettingsScope::User, SettingsLayer::User, "effortLevel"),
        };
        if !self.premises.store.options().layers.contains(&layer) {
            return Err(String::from("--setting-sources leaves that source out"));
        }
        for (key, value) in changes {
            if key != may || !value.is_string() {
                return Err(format!("{key} cannot be written there; only {may}, as a string"));
            }
        }
        for (key, value) in changes {
            self.premises.store.set(scope, key, value).map_err(|err| err.to_string())?;
        }
        self.follow_settings();
        Ok(())
    }
}
