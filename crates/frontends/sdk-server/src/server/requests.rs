//! Converts control requests to commands of the session, and their results to frames.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_agent::SettingsChange;
use haft_mcp_client::{McpManager, ServerScope, tool_prefix};
use haft_model::Thinking;
use haft_session::{
    Activity, ClientParts, Command, ContextUsage, FileContent, ModeRefused, PluginDir, Reply, RewindReport,
    ServerSwitch, SessionIntroduction, SessionUsage, SlashCommand, WrittenScope,
};
use haft_types::PermissionMode;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{INTRODUCTION, SdkServer};
use crate::{
    ControlRequest, FileAnswer, FileEncoding, InboundControl, InitializeRequest, InterruptAnswer,
    ModelChoice, PROTOCOL_VERSION, RequestProblem, RewindAnswer, ServersAnswer, SettingChange,
    SettingsSource, TaskOutputAnswer, fail, frames::plugin_json, hook_definitions, mcp_status::mcp_status,
    result_frame::by_model, succeed,
};

/// Maximum bytes of a file in an answer; more does not fit a line as base64.
const MAX_FILE_BYTES: u64 = 700_000;

/// Bytes that fit a line whatever they contain.
const ALWAYS_FITS: usize = 150_000;

/// The result of a request that is answered at once.
type AnsweredRequest = Result<Value, RequestProblem>;

/// Sends the answer to a request in order with the session's events.
fn answering<T: Send + 'static>(
    request_id: String,
    make: impl FnOnce(T) -> AnsweredRequest + Send + Sync + 'static,
) -> Reply<T> {
    Reply::echoed(move |value| response(&request_id, make(value)))
}

fn response(request_id: &str, answered: AnsweredRequest) -> Value {
    match answered {
        Ok(answer) => succeed(request_id, answer),
        Err(problem) => problem.frame(request_id),
    }
}

impl SdkServer {
    /// Carries out a request. All requests are answered at once, also during a turn, except those that
    /// wait for an MCP server.
    pub(super) fn control(&mut self, control: InboundControl) {
        let InboundControl { request_id: id, request } = control;
        let request = match ControlRequest::parse(request) {
            Ok(request) => request,
            Err(problem) => return self.host.tell(problem.frame(&id)),
        };
        let command = match request {
            ControlRequest::Initialize(request) => return self.initialize(id, *request),
            ControlRequest::Interrupt { cancel_queued } => {
                // A host that cannot stop single tasks means all of them.
                if !self.stops_single_tasks {
                    self.handle.send(Command::StopAgents);
                }
                Command::Interrupt {
                    cancel_queued,
                    reply: answering(id, |it: haft_session::Interrupted| {
                        Ok(InterruptAnswer { still_queued: it.still_queued, cancelled: it.cancelled }.into())
                    }),
                }
            }
            ControlRequest::SetPermissionMode { mode } => {
                Command::SetMode { mode, reply: answering(id, move |set| mode_answer(mode, set)) }
            }
            ControlRequest::SetModel { model } => Command::SetModel {
                model: match model {
                    ModelChoice::SessionDefault => None,
                    ModelChoice::Named(name) => Some(name),
                },
                reply: answering(id, |set: Result<String, String>| Ok(json!({"model": set?}))),
            },
            ControlRequest::SetMaxThinkingTokens { budget, display } => {
                self.set_thinking(budget, display);
                return self.done(&id, json!({}));
            }
            ControlRequest::RewindFiles { user_message_id, dry_run } => {
                Command::Rewind { prompt: user_message_id, dry_run, reply: answering(id, rewind_answer) }
            }
            ControlRequest::GetContextUsage => {
                let agents = self.agents.clone();
                Command::ContextUsage(answering(id, move |usage| Ok(context_json(&usage, &agents))))
            }
            ControlRequest::ApplyFlagSettings { settings } => {
                Command::ChangeFlagSettings { changes: settings, reply: answering(id, done_or_not) }
            }
            ControlRequest::UpdateSettings { source, settings } => Command::WriteSetting {
                scope: match source {
                    SettingsSource::Local => WrittenScope::Local,
                    SettingsSource::User => WrittenScope::User,
                },
                changes: settings,
                reply: answering(id, done_or_not),
            },
            ControlRequest::RenameSession { title, session_id } => {
                Command::Rename { title, session: session_id, reply: answering(id, done_or_not) }
            }
            other => return self.rare(id, other),
        };
        self.handle.send(command);
    }

    fn rare(&mut self, id: String, request: ControlRequest) {
        let command = match request {
            ControlRequest::ReloadSkills => Command::Reload(answering(id, |it: SessionIntroduction| {
                let skills = it.skills.iter();
                let skills: Vec<Value> =
                    skills.map(|it| json!({"name": it.name, "description": it.description})).collect();
                Ok(json!({"skills": skills}))
            })),
            ControlRequest::ReloadPlugins => {
                let manager = self.handle.servers().clone();
                Command::Reload(answering(id, move |it: SessionIntroduction| {
                    let servers = crate::mcp_status::mcp_servers(&manager.status());
                    Ok(json!({
                        "commands": commands_json(&it.commands), "agents": agents_json(&it.agents),
                        "plugins": it.plugins.iter().map(plugin_json).collect::<Vec<_>>(),
                        "mcpServers": servers, "error_count": 0,
                    }))
                }))
            }
            ControlRequest::BackgroundTasks { tool_use_id } => {
                self.handle.send(Command::MoveToBackground(tool_use_id));
                return self.done(&id, json!({}));
            }
            ControlRequest::GetTaskOutput { task_id } => {
                let task = task_id.clone();
                Command::TaskTail {
                    task: task_id,
                    reply: answering(id, move |tail: Option<haft_session::TaskTail>| match tail {
                        None => Err(format!("No task {task}").into()),
                        Some(it) => Ok(TaskOutputAnswer {
                            output: it.text,
                            total_bytes: it.total,
                            truncated: it.truncated,
                        }
                        .into()),
                    }),
                }
            }
            ControlRequest::StopTask { task_id } => {
                Command::StopTask { task: task_id, reply: answering(id, |()| Ok(json!({}))) }
            }
            ControlRequest::ReadFile { path, max_bytes, encoding } => Command::ReadFile {
                path: PathBuf::from(path),
                max_bytes: max_bytes.unwrap_or(MAX_FILE_BYTES).min(MAX_FILE_BYTES),
                reply: answering(id, move |read: Result<FileContent, String>| {
                    Ok(file_answer(read?, encoding).into())
                }),
            },
            ControlRequest::SeedReadState { path, mtime } => {
                self.handle.send(Command::SeedRead { path: PathBuf::from(path), mtime });
                return self.done(&id, json!({}));
            }
            ControlRequest::GetUsage => Command::Usage(answering(id, |it| Ok(usage_json(&it)))),
            ControlRequest::GetSessionCost => Command::Usage(answering(id, |it: SessionUsage| {
                Ok(json!({"text": format!("Total cost: ${:.4}", it.bill.usd)}))
            })),
            ControlRequest::CancelAsyncMessage { message_uuid } => Command::Withdraw {
                name: message_uuid,
                reply: answering(id, |withdrawn: bool| Ok(json!({"cancelled": withdrawn}))),
            },
            ControlRequest::ListModels => {
                Command::Models(answering(id, |models: Vec<_>| Ok(json!({"models": models_json(&models)}))))
            }
            ControlRequest::GetSettings => {
                Command::FlagSettings(answering(id, |(flags, model): (Map<String, Value>, String)| {
                    Ok(json!({
                        "effective": flags, "sources": [{"source": "flagSettings", "settings": flags}],
                        "applied": {"model": model},
                    }))
                }))
            }
            other => return self.about_servers(id, other),
        };
        self.handle.send(command);
    }

    fn about_servers(&mut self, id: String, request: ControlRequest) {
        let command = match request {
            ControlRequest::McpMessage { server_name, message } => {
                self.servers.deliver(&server_name, message);
                return self.done(&id, json!({}));
            }
            ControlRequest::McpStatus => return self.done(&id, mcp_status(self.handle.servers())),
            ControlRequest::McpSetServers { servers } => {
                self.servers.limit_calls(servers.as_object().unwrap_or(&Map::new()));
                Command::SetServers {
                    servers,
                    reply: answering(id, |it: haft_session::ServersSet| {
                        let (added, removed, errors) = (it.added, it.removed, it.errors);
                        Ok(ServersAnswer { added, removed, errors }.into())
                    }),
                }
            }
            ControlRequest::McpReconnect { server_name } => Command::SwitchServer {
                server: server_name,
                switch: ServerSwitch::Reconnect,
                reply: answering(id, done_or_not),
            },
            ControlRequest::McpToggle { server_name, enabled } => Command::SwitchServer {
                server: server_name,
                switch: if enabled { ServerSwitch::On } else { ServerSwitch::Off },
                reply: answering(id, done_or_not),
            },
            ControlRequest::McpCall { tool, arguments } => return self.call_server(id, tool, arguments),
            ControlRequest::McpReadResource { server_name, uri } => {
                return self.read_resource(id, server_name, uri);
            }
            ControlRequest::ReloadOutputStyles => {
                return self.done(&id, json!({"available_output_styles": ["default"]}));
            }
            ControlRequest::GetBinaryVersion => {
                return self.done(&id, json!({"version": PROTOCOL_VERSION}));
            }
            // Requests about display and subscribers have no effect; all others are handled above.
            _ => return self.done(&id, json!({})),
        };
        self.handle.send(command);
    }

    /// Sends the answer in order with the session's events.
    fn done(&self, request_id: &str, answer: Value) {
        self.host.tell(succeed(request_id, answer));
    }

    fn initialize(&mut self, id: String, request: InitializeRequest) {
        let hooks = hook_definitions(&request.hooks, &self.host);
        let launch_fields = request.launch.applied(&self.launched);
        self.projection.forward_text(request.forward_subagent_text);
        self.stops_single_tasks = request.per_task_stop_affordance;
        self.projection.leave_out(hooks.iter().map(|it| it.id.clone()));
        let plugins = request.plugins.map(|plugins| {
            let dir = |it: crate::ClientPlugin| PluginDir {
                path: PathBuf::from(it.path),
                with_servers: !it.skip_mcp_discovery,
            };
            plugins.into_iter().map(dir).collect()
        });
        self.servers.limit_calls(&request.sdk_mcp_server_configs);
        self.agents = request.agents.iter().map(|it| it.0.clone()).collect();
        let parts = ClientParts {
            plugins,
            hooks,
            agents: request.agents,
            skills: request.skills,
            system_prompt: request.system_prompt,
            append_system_prompt: request.append_system_prompt,
            output_schema: request.json_schema.map(Value::Object),
            trusted_directory: request.trusted_directory,
            servers: request.sdk_mcp_servers,
            server_configs: request.sdk_mcp_server_configs,
            agent_summaries: request.agent_progress_summaries,
        };
        let reply = Reply::echoed(move |it: SessionIntroduction| {
            let mut frame = succeed(&id, introduction_json(&it));
            for (field, applied) in launch_fields {
                frame["response"]["response"][field] = applied;
            }
            if let Some(applied) = it.plugins_applied {
                frame["response"]["response"]["plugins_applied"] = json!(applied);
            }
            frame["response"]["pending_permission_requests"] = json!([]);
            frame["response"]["pending_user_dialog_requests"] = json!([]);
            json!({INTRODUCTION: frame, "takes_up": it.takes_up})
        });
        self.handle.send(Command::Equip { parts: Box::new(parts), reply });
    }

    /// Applies the thinking settings; fields the request does not contain are unchanged.
    fn set_thinking(&self, budget: SettingChange<u32>, display: SettingChange<haft_model::ThinkingDisplay>) {
        match budget {
            SettingChange::Keep => (),
            SettingChange::Reset => {
                self.handle.send(Command::Order(SettingsChange::Thinking(Thinking::Default)))
            }
            SettingChange::Set(tokens) => {
                self.handle.send(Command::Order(SettingsChange::Thinking(Thinking::of_budget(Some(tokens)))));
            }
        }
        match display {
            SettingChange::Keep => (),
            SettingChange::Reset => self.handle.send(Command::Order(SettingsChange::ThinkingDisplay(None))),
            SettingChange::Set(display) => {
                self.handle.send(Command::Order(SettingsChange::ThinkingDisplay(Some(display))));
            }
        }
    }

    /// Calls a tool in a background task and answers when the server has replied.
    fn call_server(&self, id: String, tool: String, arguments: Map<String, Value>) {
        let (manager, host) = (self.handle.servers().clone(), self.host.clone());
        tokio::spawn(async move {
            let done = call(&manager, &tool, arguments).await;
            host.tell(done.map_or_else(|problem| fail(&id, &problem), |answer| succeed(&id, answer)));
        });
    }

    fn read_resource(&self, id: String, server: String, uri: String) {
        let (manager, host) = (self.handle.servers().clone(), self.host.clone());
        tokio::spawn(async move {
            let done = read(&manager, &server, &uri).await;
            host.tell(done.map_or_else(|problem| fail(&id, &problem), |answer| succeed(&id, answer)));
        });
    }
}

fn done_or_not(done: Result<(), String>) -> AnsweredRequest {
    done.map(|()| json!({})).map_err(RequestProblem::from)
}

fn mode_answer(mode: PermissionMode, set: Result<PermissionMode, ModeRefused>) -> AnsweredRequest {
    match set {
        Ok(mode) => Ok(json!({"mode": mode.name()})),
        Err(ModeRefused::Forbidden) => {
            let why = format!("the settings forbid the permission mode {mode}");
            let code =
                if mode == PermissionMode::BypassPermissions { "bypass_disabled" } else { "mode_disabled" };
            Err(RequestProblem::coded(code, why))
        }
        Err(ModeRefused::NotLaunched) => {
            let why = "Cannot set permission mode to bypassPermissions: the session was not launched with it, \
                       nor with --allow-dangerously-skip-permissions";
            Err(RequestProblem::coded("bypass_not_launched", why))
        }
    }
}

fn rewind_answer(rewound: Result<RewindReport, String>) -> AnsweredRequest {
    let answer = match rewound? {
        RewindReport::Preview { files, insertions, deletions, .. } => RewindAnswer {
            can_rewind: true,
            files_changed: Some(files),
            insertions: Some(insertions),
            deletions: Some(deletions),
            ..RewindAnswer::default()
        },
        RewindReport::Done(kept) => RewindAnswer {
            can_rewind: true,
            skipped_links: Some(0),
            error: (!kept.is_empty()).then(|| format!("left as they are: {}", kept.join("; "))),
            ..RewindAnswer::default()
        },
    };
    Ok(answer.into())
}

fn file_answer(file: FileContent, encoding: FileEncoding) -> FileAnswer {
    let FileContent { path, mut bytes, mut truncated } = file;
    if encoding == FileEncoding::Base64 {
        let contents = STANDARD.encode(&bytes);
        return FileAnswer { path, contents, encoding: Some("base64"), lossy: None, truncated };
    }
    if MAX_FILE_BYTES < json!(String::from_utf8_lossy(&bytes)).to_string().len() as u64 {
        truncated |= ALWAYS_FITS < bytes.len();
        bytes.truncate(ALWAYS_FITS);
    }
    let contents = String::from_utf8_lossy(&bytes).into_owned();
    let lossy = Some(std::str::from_utf8(&bytes).is_err());
    FileAnswer { path, contents, encoding: None, lossy, truncated }
}

fn commands_json(commands: &[SlashCommand]) -> Vec<Value> {
    let shown = commands.iter().map(|it| {
        let mut command =
            json!({"name": it.name, "description": it.description, "argumentHint": it.argument_hint});
        if !it.aliases.is_empty() {
            command["aliases"] = json!(it.aliases);
        }
        if it.is_local() {
            command["builtin"] = json!(true);
        }
        command
    });
    shown.collect()
}

fn agents_json(agents: &[(String, String, Option<String>)]) -> Vec<Value> {
    agents.iter().map(|(name, about, _)| json!({"name": name, "description": about})).collect()
}

fn models_json(models: &[(String, String)]) -> Vec<Value> {
    let shown = models.iter().map(
        |(name, id)| json!({"value": name, "resolvedModel": id, "displayName": name, "description": id}),
    );
    shown.collect()
}

fn introduction_json(it: &SessionIntroduction) -> Value {
    let agents: Vec<Value> = it
        .agents
        .iter()
        .map(|(name, description, model)| {
            let mut agent = json!({"name": name, "description": description});
            if let Some(model) = model {
                agent["model"] = json!(model);
            }
            agent
        })
        .collect();
    let state = if it.activity == Activity::Idle { "idle" } else { "running" };
    json!({
        "commands": commands_json(&it.commands), "agents": agents, "output_style": it.output_style,
        "available_output_styles": ["default"], "account": {"apiKeySource": it.key_source},
        "models": models_json(&it.models),
        "claude_code_version": PROTOCOL_VERSION, "current_permission_mode": it.mode.name(),
        "hook_on_failure_supported": true, "hooks_applied": true, "session_state": state,
        "pid": std::process::id(),
    })
}

/// Usage of the session. Subscription plans are not known.
fn usage_json(it: &SessionUsage) -> Value {
    json!({
        "session": {
            "total_cost_usd": it.bill.usd, "total_api_duration_ms": it.api_ms,
            "total_duration_ms": it.open_ms, "total_lines_added": 0, "total_lines_removed": 0,
            "model_usage": by_model(&it.bill),
        },
        "subscription_type": null, "rate_limits_available": false, "rate_limits": null, "behaviors": null,
    })
}

/// The answer to `get_context_usage`.
fn context_json(usage: &ContextUsage, agents: &[String]) -> Value {
    let (parts, total) = usage.parts();
    let window = usage.window;
    let categories: Vec<Value> = parts
        .iter()
        .map(|it| {
            let color = if it.share == "used" { "claude" } else { "inactive" };
            json!({"id": it.id, "name": it.name, "tokens": it.tokens, "color": color, "kind": it.share})
        })
        .collect();
    let mcp_tools: Vec<Value> = usage
        .mcp_tools()
        .iter()
        .map(|(name, tokens)| {
            let server = name.split("__").nth(1).unwrap_or_default();
            json!({"name": name, "serverName": server, "tokens": tokens})
        })
        .collect();
    let memory = usage.memory();
    let memory: Vec<Value> = memory
        .iter()
        .map(|(path, tokens)| json!({"path": path.to_string_lossy(), "type": "Project", "tokens": tokens}))
        .collect();
    let agents: Vec<Value> = agents.iter().map(|name| json!({"agentType": name, "tokens": 0})).collect();
    json!({
        "categories": categories, "totalTokens": total, "maxTokens": window, "rawMaxTokens": window,
        "percentage": usage.percent(total).round(), "gridRows": [], "model": usage.model,
        "memoryFiles": memory, "mcpTools": mcp_tools, "agents": agents, "isAutoCompactEnabled": true,
        "autoCompactThreshold": window * u64::from(usage.compact_at_percent) / 100, "apiUsage": null,
    })
}

/// Rejects requests about servers that run in the host itself.
fn refuse_own(manager: &McpManager, server: &str) -> Result<(), String> {
    let status = manager.status().into_iter().find(|it| it.name == server);
    match status {
        None => Err(format!("Server not found: {server}")),
        Some(it) if it.scope == ServerScope::Sdk => {
            Err(format!("{server} is a server of the host, which can use it without asking"))
        }
        Some(_) => Ok(()),
    }
}

async fn call(manager: &McpManager, name: &str, arguments: Map<String, Value>) -> Result<Value, String> {
    let servers = manager.names().into_iter();
    let found = servers.filter_map(|server| {
        let tool = name.strip_prefix(&tool_prefix(&server))?.to_owned();
        Some((server, tool))
    });
    // The longest matching server name wins, because one can be a prefix of another.
    let Some((server, tool)) = found.max_by_key(|(server, _)| server.len()) else {
        return Err(format!("No MCP server has a tool {name}"));
    };
    refuse_own(manager, &server)?;
    let stop = CancellationToken::new();
    manager.call_for_user(&server, &tool, arguments, &stop).await.map_err(|err| err.to_string())
}

async fn read(manager: &McpManager, server: &str, uri: &str) -> Result<Value, String> {
    if !uri.starts_with("ui://") {
        return Err(format!("mcp_read_resource reads ui:// resources, not {uri}"));
    }
    refuse_own(manager, server)?;
    let stop = CancellationToken::new();
    let (_, found) = manager.read_resource(server, uri, &stop).await.map_err(|err| err.to_string())?;
    Ok(json!({"contents": found["contents"]}))
}
