//! Requests that come less often.

use std::path::PathBuf;

use haft_config::{Layer, Scope};
use haft_model::Catalog;
use haft_sdk::PROTOCOL_VERSION;
use serde_json::{Map, Value, json};

use super::{
    driver::Driver,
    extensions::Extensions,
    rewind::{Rewind, rewind},
    states::Checkpoints,
};
use crate::{
    args::RunArgs,
    output::{Failure, complain},
    wiring::Setup,
};

/// The answer to a request.
pub(super) type Answered = Result<Value, Problem>;

/// Why a request was not carried out.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) text: String,
    /// A word for programs.
    pub(super) code: Option<&'static str>,
}

impl Problem {
    pub(super) fn coded(code: &'static str, text: String) -> Self {
        Self { text, code: Some(code) }
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { text, code: None }
    }
}

impl Driver {
    /// Everything that is not part of an ordinary conversation.
    pub(super) fn rare(&mut self, subtype: &str, request: &Value) -> Answered {
        match subtype {
            "rewind_files" => self.rewind_files(request),
            "get_context_usage" => Ok(self.context()),
            "apply_flag_settings" => self.apply_flag_settings(request),
            "reload_skills" => {
                self.reload();
                let skills = self.extensions.skills(self.wanted_skills.as_deref());
                let skills: Vec<Value> =
                    skills.iter().map(|it| json!({"name": it.name, "description": it.description})).collect();
                Ok(json!({"skills": skills}))
            }
            "reload_plugins" => {
                self.reload();
                Ok(json!({
                    "commands": self.extensions.commands_json(), "agents": self.agents_json(),
                    "plugins": self.extensions.plugins_json(),
                    "mcpServers": haft_sdk::mcp_servers(&self.manager), "error_count": 0,
                }))
            }
            "reload_output_styles" => Ok(json!({"available_output_styles": ["default"]})),
            "background_tasks" => Ok(self.move_to_background(request)),
            "get_task_output" => self.task_output(request),
            "seed_read_state" => self.seed_read_state(request),
            "update_settings" => self.update_settings(request),
            "rename_session" => self.rename_session(request),
            "get_usage" => Ok(self.usage()),
            // How it looks, and who looks, changes nothing here.
            "set_color" | "set_has_subscribers" => Ok(json!({})),
            "cancel_async_message" => Ok(self.cancel_message(request)),
            "list_models" => Ok(json!({"models": self.models()})),
            "get_settings" => Ok(self.settings()),
            "get_session_cost" => {
                let spent = self.bill.usd;
                Ok(json!({"text": format!("Total cost: ${spent:.4}")}))
            }
            "get_binary_version" => Ok(json!({"version": PROTOCOL_VERSION})),
            other => {
                let text = format!("Unsupported control request subtype: {other}");
                Err(Problem::coded("unsupported_request", text))
            }
        }
    }

    fn rewind_files(&self, request: &Value) -> Answered {
        if self.checkpoints == Checkpoints::Off {
            return Err(String::from("File rewinding is not enabled.").into());
        }
        let prompt = request["user_message_id"].as_str().unwrap_or_default();
        let how = if request["dry_run"] == true { Rewind::Look } else { Rewind::Do };
        let log = self.setup.log_path(self.frames.session_id.as_str());
        Ok(rewind(&self.setup, Some(&log), prompt, how)?)
    }

    fn context(&self) -> Value {
        let mut usage = match &self.agent {
            Some(agent) => super::usage::Snapshot::of(agent).json(),
            None => self.snapshot.json(),
        };
        usage["agents"] =
            self.all_agents().map(|(name, _)| json!({"agentType": name, "tokens": 0})).collect();
        usage
    }

    fn agents_json(&self) -> Vec<Value> {
        self.all_agents().map(|(name, about)| json!({"name": name, "description": about})).collect()
    }

    /// Looks again for what users and plugins add.
    fn reload(&mut self) {
        let mut run = RunArgs::default();
        run.sdk.plugin_dir.clone_from(&self.plugin_dirs);
        self.extensions = Extensions::load(&self.setup, &run);
        self.install_skills();
    }

    /// Plugins that come with `initialize`; whether all of them are there now.
    pub(super) fn take_plugins(&mut self, plugins: &Value) -> Option<bool> {
        let listed = plugins.as_array()?;
        let path = |it: &Value| Some(self.setup.cwd.join(it["path"].as_str()?));
        let new: Vec<(PathBuf, bool)> = listed
            .iter()
            .filter_map(|it| Some((path(it)?, it["skipMcpDiscovery"] == true)))
            .filter(|(dir, _)| !self.plugin_dirs.contains(dir))
            .collect();
        for (dir, without_servers) in new {
            let mut run = RunArgs::default();
            run.sdk.plugin_dir = vec![dir.clone()];
            let found = Extensions::load(&self.setup, &run);
            self.own_hooks = self.own_hooks.and(found.hooks());
            if !without_servers {
                self.configured.extend(found.servers(&self.servers));
            }
            self.plugin_dirs.push(dir);
        }
        self.reload();
        Some(self.extensions.plugins_json().len() == self.plugin_dirs.len())
    }

    /// A prompt that waits is taken back.
    fn cancel_message(&mut self, request: &Value) -> Value {
        let name = request["message_uuid"].as_str().unwrap_or_default();
        let before = self.queue.len();
        self.queue.retain(|it| it.name() != Some(name));
        let cancelled = self.queue.len() < before;
        if cancelled {
            self.tell_lifecycle(Some(name), "cancelled");
        }
        json!({"cancelled": cancelled})
    }

    pub(super) fn models(&self) -> Vec<Value> {
        let model = |value: &str, id: &str| json!({"value": value, "resolvedModel": id, "displayName": value, "description": id});
        let mut models = vec![model("default", &self.first_model)];
        let catalog = Catalog::built_in();
        for info in catalog.models() {
            if let Some(short) = &info.short {
                models.push(model(short, catalog.resolve(short)));
            }
        }
        models
    }

    /// What the session has used; plans of subscriptions are not known here.
    fn usage(&self) -> Value {
        json!({
            "session": {
                "total_cost_usd": self.bill.usd, "total_api_duration_ms": self.api_ms,
                "total_duration_ms": self.begun_at.elapsed().as_millis(),
                "total_lines_added": 0, "total_lines_removed": 0, "model_usage": self.bill.by_model(),
            },
            "subscription_type": null, "rate_limits_available": false, "rate_limits": null,
            "behaviors": null,
        })
    }

    /// A name for the session, in its log.
    fn rename_session(&mut self, request: &Value) -> Answered {
        let title = request["title"].as_str().map(str::trim).filter(|it| !it.is_empty());
        let title = title.ok_or_else(|| String::from("rename_session needs `title`"))?.to_owned();
        let here = self.frames.session_id.as_str();
        if let Some(meant) = request["session_id"].as_str().filter(|it| *it != here) {
            return Err(format!("The session is {here} now, not {meant}").into());
        }
        self.out.frame(&self.frames.system("session_title_changed", json!({"title": title})));
        self.change(Box::new(move |agent| agent.name_session(&title)));
        Ok(json!({}))
    }

    /// Settings of the person in this project that a host may write.
    fn update_settings(&mut self, request: &Value) -> Answered {
        let Some(changes) = request["settings"].as_object() else {
            return Err(String::from("update_settings needs `settings` to be an object").into());
        };
        let (scope, layer, may) = match request["source"].as_str() {
            Some("localSettings") => (Scope::Local, Layer::Local, "outputStyle"),
            Some("userSettings") => (Scope::User, Layer::User, "effortLevel"),
            other => return Err(format!("{other:?} is no source that can be written").into()),
        };
        if !self.setup.store.options().layers.contains(&layer) {
            return Err(String::from("--setting-sources leaves that source out").into());
        }
        for (key, value) in changes {
            if key != may || !value.is_string() {
                return Err(format!("{key} cannot be written there; only {may}, as a string").into());
            }
        }
        for (key, value) in changes {
            self.setup.store.set(scope, key, value).map_err(|err| err.to_string())?;
        }
        if let Some(loaded) = self.setup.store.reload_if_changed() {
            self.setup.loaded = loaded;
        }
        self.output_style = super::start::output_style(&self.setup);
        Ok(json!({}))
    }

    fn settings(&self) -> Value {
        let flags = self.flag_settings();
        json!({
            "effective": flags, "sources": [{"source": "flagSettings", "settings": flags}],
            "applied": {"model": self.snapshot.model()},
        })
    }

    /// The settings of the flags, as an object.
    fn flag_settings(&self) -> Map<String, Value> {
        let Some(text) = &self.setup.options.settings else { return Map::new() };
        let text = match text.trim_start().starts_with('{') {
            true => text.clone(),
            false => std::fs::read_to_string(self.setup.cwd.join(text)).unwrap_or_default(),
        };
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Settings of the flags, changed while the session runs: keys that are
    /// null are taken away, the others replaced.
    fn apply_flag_settings(&mut self, request: &Value) -> Answered {
        let Some(changes) = request["settings"].as_object() else {
            let text =
                format!("apply_flag_settings needs `settings` to be an object, got {}", request["settings"]);
            return Err(text.into());
        };
        let mut flags = self.flag_settings();
        for (key, value) in changes {
            match value {
                Value::Null => drop(flags.remove(key)),
                value => drop(flags.insert(key.clone(), value.clone())),
            }
        }
        let mut options = self.setup.options.clone();
        options.settings = Some(Value::Object(flags).to_string());
        let fresh = Setup::new(&options).map_err(of_failure)?;
        (self.setup.store, self.setup.loaded, self.setup.options) = (fresh.store, fresh.loaded, options);
        self.take_settings(changes)
    }

    /// Takes over settings whose files changed since the last prompt.
    pub(super) fn follow_settings(&mut self) {
        let Some(loaded) = self.setup.store.reload_if_changed() else { return };
        for notice in &loaded.problems {
            complain(&notice.to_string());
        }
        self.setup.loaded = loaded;
        let changes = Map::from_iter([(String::from("hooks"), Value::Null)]);
        if let Err(problem) = self.take_settings(&changes) {
            // They forbid the mode we are in: what held so far still holds.
            complain(&problem.text);
        }
    }

    fn take_settings(&mut self, changes: &Map<String, Value>) -> Answered {
        let gate = &self.pipeline.gate;
        let mut policy = self.setup.policy().map_err(of_failure)?;
        policy.mode = gate.mode();
        gate.permissions().replace(&policy);
        if changes.contains_key("hooks") {
            let mut of_host: Vec<_> = gate.hooks().get().definitions().cloned().collect();
            of_host.drain(..self.own_hooks.definitions().count());
            self.own_hooks = self.setup.reconfigured_hooks(&self.own_hooks).and(self.extensions.hooks());
            gate.hooks().set(self.own_hooks.and(of_host));
        }
        if let Some(model) = changes.get("model") {
            let named = model.as_str().map(|it| Catalog::built_in().resolve(it).to_owned());
            let model = named.unwrap_or_else(|| self.first_model.clone());
            self.orders.give(move |settings| settings.model = model);
        }
        self.output_style = super::start::output_style(&self.setup);
        if let Some(agent) = &mut self.agent {
            agent.obey();
        }
        Ok(json!({}))
    }
}

fn of_failure(failure: Failure) -> Problem {
    match failure {
        Failure::Message(text) => text.into(),
        Failure::ClosedPipe => String::from("the settings cannot be read").into(),
    }
}
