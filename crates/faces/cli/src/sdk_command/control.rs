//! What the host wants, and what it is told.

use std::time::Duration;

use haft_mcp_client::Enabled;
use haft_model::Catalog;
use haft_sdk::{Control, PROTOCOL_VERSION, fail, hook_definitions, mcp_status, server_configs, succeed};
use haft_types::PermissionMode;
use serde_json::{Value, json};

use super::{
    driver::Driver,
    requests::{Answered, Problem},
    states::{Bypass, LeftForLater},
};
use crate::sdk_args::thinking_budget;

/// How long an introduction waits; hosts wait a minute for it.
const LONGEST_INTRODUCTION: Duration = Duration::from_secs(20);

impl Driver {
    /// The introduction that waited.
    pub(super) fn introduce(&mut self) {
        if let Some((answer, _)) = self.introduction.take() {
            self.out.frame(&answer);
        }
    }

    /// Answers one request. Everything but the servers' business is answered
    /// at once, also while a turn runs.
    pub(super) fn control(&mut self, control: Control) {
        let Control { request_id, subtype, request } = control;
        let answer = match subtype.as_str() {
            "initialize" => return self.initialize(&request_id, &request),
            "interrupt" => self.interrupted(&request),
            "set_permission_mode" => self.set_mode(&request),
            "set_model" => self.set_model(&request),
            "set_max_thinking_tokens" => {
                self.set_thinking(&request);
                Ok(json!({}))
            }
            "mcp_status" => Ok(mcp_status(&self.manager)),
            "mcp_message" => {
                let server = request["server_name"].as_str().unwrap_or_default();
                self.servers.deliver(server, request["message"].clone());
                Ok(json!({}))
            }
            "mcp_set_servers" => self.set_servers(&request),
            "mcp_reconnect" | "mcp_toggle" => return self.switch_server(request_id, request),
            "mcp_call" | "mcp_read_resource" => return self.use_server(request_id, request),
            "read_file" => return self.read_file(request_id, &request),
            "stop_task" => return self.stop_task(request_id, &request),
            other => self.rare(other, &request),
        };
        self.out.frame(&match answer {
            Ok(response) => succeed(&request_id, response),
            Err(problem) => {
                let mut refusal = fail(&request_id, &problem.text);
                if let Some(code) = problem.code {
                    refusal["response"]["error_code"] = json!(code);
                }
                refusal
            }
        });
        self.tell_mode();
    }

    /// May come again: the newest one counts.
    fn initialize(&mut self, request_id: &str, request: &Value) {
        let plugins_applied = self.take_plugins(&request["plugins"]);
        let hooks = hook_definitions(&request["hooks"], &self.host);
        self.hook_frames.leave_out(&hooks);
        self.pipeline.gate.hooks().set(self.own_hooks.and(hooks));
        let described = |agent: &Value| agent["description"].as_str().unwrap_or_default().to_owned();
        let agents = request["agents"].as_object().into_iter().flatten();
        self.agents = agents.map(|(name, agent)| (name.clone(), described(agent))).collect();
        self.wanted_skills = request["skills"].is_array().then(|| strings(&request["skills"]));
        self.install_skills();
        let system = texts(&request["systemPrompt"]);
        let append = request["appendSystemPrompt"].as_str().map(str::to_owned);
        let schema = Some(request["jsonSchema"].clone()).filter(Value::is_object);
        self.change(Box::new(move |agent| {
            if let Some(system) = system {
                agent.prompt.base = haft_agent::Base::Replaced(system);
            }
            if append.is_some() {
                agent.prompt.append = append;
            }
            if let Some(schema) = schema {
                // It is an object, and nothing else can be wrong with it here.
                agent.require_output(schema).ok();
            }
        }));
        self.be_agent(&request["agents"]);
        let of_host: Vec<String> = strings(&request["sdkMcpServers"]);
        let mut answer = succeed(request_id, self.introduction(request));
        if let Some(applied) = plugins_applied {
            answer["response"]["response"]["plugins_applied"] = json!(applied);
        }
        answer["response"]["pending_permission_requests"] = json!([]);
        answer["response"]["pending_user_dialog_requests"] = json!([]);
        self.begin_servers(&of_host);
        if self.left_for_later == LeftForLater::Waiting {
            // A host that has nothing to say ends its input when it is answered. It
            // is asked about what was left for later before that.
            self.left_for_later = LeftForLater::Ready;
            self.introduction = Some((answer, tokio::time::Instant::now() + LONGEST_INTRODUCTION));
        } else {
            self.out.frame(&answer);
        }
    }

    fn introduction(&self, request: &Value) -> Value {
        let of_host = &request["agents"];
        let agents: Vec<Value> = self
            .all_agents()
            .map(|(name, description)| {
                let mut agent = json!({"name": name, "description": description});
                if let Some(model) = of_host[name]["model"].as_str() {
                    agent["model"] = json!(model);
                }
                agent
            })
            .collect();
        let state = if self.running.is_some() { "running" } else { "idle" };
        json!({
            "commands": self.extensions.commands_json(), "agents": agents, "output_style": self.output_style,
            "available_output_styles": ["default"], "account": {"apiKeySource": self.key_source},
            "models": self.models(),
            "claude_code_version": PROTOCOL_VERSION, "current_permission_mode": self.told_mode.name(),
            "hook_on_failure_supported": true, "hooks_applied": true, "session_state": state,
            "pid": std::process::id(),
        })
    }

    fn interrupted(&mut self, request: &Value) -> Answered {
        let mut names: Vec<String> =
            self.queue.iter().filter_map(|it| it.name().map(str::to_owned)).collect();
        let inputs = self.inbox.take();
        let named = self.running.as_ref().map(|it| it.meanwhile.clone()).unwrap_or_default();
        names.extend(inputs.iter().filter_map(|it| it.uuid.clone()).filter(|it| named.contains(it)));
        self.interrupt();
        if request["cancel_queued"] == true {
            self.queue.clear();
            if let Some(running) = &mut self.running {
                running.meanwhile.retain(|it| !names.contains(it));
            }
            names.iter().for_each(|name| self.tell_lifecycle(Some(name), "cancelled"));
            return Ok(json!({"still_queued": [], "cancelled": names}));
        }
        inputs.into_iter().for_each(|input| self.inbox.push(input));
        Ok(json!({"still_queued": names}))
    }

    fn set_mode(&mut self, request: &Value) -> Answered {
        let mode = request["mode"].as_str().unwrap_or_default().parse::<PermissionMode>();
        let mode =
            mode.map_err(|err| Problem::coded("invalid_mode", format!("Cannot set permission mode: {err}")))?;
        match self.bypass {
            Bypass::Forbidden if mode == PermissionMode::BypassPermissions => {
                let why = format!("the settings forbid the permission mode {mode}");
                return Err(Problem::coded("bypass_disabled", why));
            }
            Bypass::NotLaunched if mode == PermissionMode::BypassPermissions => {
                let why = "Cannot set permission mode to bypassPermissions: the session was not launched with it, \
                           nor with --allow-dangerously-skip-permissions";
                return Err(Problem::coded("bypass_not_launched", why.to_owned()));
            }
            _ => (),
        }
        self.pipeline.gate.set_mode(mode);
        Ok(json!({"mode": mode.name()}))
    }

    fn set_model(&mut self, request: &Value) -> Answered {
        let model = match &request["model"] {
            Value::Null => self.first_model.clone(),
            Value::String(name) if name == "default" => self.first_model.clone(),
            Value::String(name) if !name.trim().is_empty() => Catalog::built_in().resolve(name).to_owned(),
            other => return Err(format!("{other} is no model").into()),
        };
        let named = model.clone();
        self.orders.give(move |settings| settings.model = named);
        if let Some(agent) = &mut self.agent {
            agent.obey();
        }
        let said = format!("<local-command-stdout>Set model to `{model}`</local-command-stdout>");
        let said = json!({"role": "user", "content": said});
        self.out.frame(&self.frames.replay(&said, &uuid::Uuid::new_v4().to_string()));
        Ok(json!({"model": model}))
    }

    /// What the request does not speak of stays as it is.
    fn set_thinking(&self, request: &Value) {
        if let Some(tokens) = request.get("max_thinking_tokens") {
            let tokens = tokens.as_u64().map(|it| u32::try_from(it).unwrap_or(u32::MAX));
            let thinking = thinking_budget(tokens);
            self.orders.give(move |settings| settings.thinking = thinking);
        }
        if let Some(display) = request.get("thinking_display") {
            let display = serde_json::from_value(display.clone()).ok();
            self.orders.give(move |settings| settings.thinking_display = display);
        }
    }

    fn set_servers(&mut self, request: &Value) -> Answered {
        let (configs, problems) = server_configs(&request["servers"], &self.servers);
        let before = self.manager.names();
        let after: Vec<String> = configs.iter().map(|it| it.name.clone()).collect();
        let added: Vec<&String> = after.iter().filter(|it| !before.contains(it)).collect();
        let removed: Vec<&String> = before.iter().filter(|it| !after.contains(it)).collect();
        let answer = json!({"added": added, "removed": removed, "errors": problems});
        self.configured.clone_from(&configs);
        self.begun = true;
        self.setup.launch_all(configs);
        Ok(answer)
    }

    /// Takes as long as the server takes; the answer comes then.
    fn switch_server(&self, request_id: String, request: Value) {
        let (manager, host) = (self.manager.clone(), self.host.clone());
        let name = request["serverName"].as_str().unwrap_or_default().to_owned();
        if !manager.names().contains(&name) {
            return self.out.frame(&fail(&request_id, &format!("Server not found: {name}")));
        }
        tokio::spawn(async move {
            let done = match request["enabled"].as_bool() {
                Some(true) => manager.set_enabled(&name, Enabled::Yes).await,
                Some(false) => manager.set_enabled(&name, Enabled::No).await,
                None => manager.reconnect(&name).await,
            };
            host.tell(match done {
                Ok(()) => succeed(&request_id, json!({})),
                Err(problem) => fail(&request_id, &problem.to_string()),
            });
        });
    }
}

/// A prompt as one text or several.
fn texts(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(_) => {
            let parts: Vec<String> = strings(value).into_iter().filter(|it| !it.is_empty()).collect();
            Some(parts.join("\n\n"))
        }
        _ => None,
    }
}

pub(super) fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
