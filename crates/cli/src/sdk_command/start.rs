//! A session out of flags.

use std::{collections::VecDeque, sync::Arc};

use haft_agent::LateInput;
use haft_mcp::ServerConfig;
use haft_runtime::Ask;
use haft_sdk::{AskHost, Frames, Host, HostServers, Partial, server_configs};
use haft_types::PermissionMode;
use serde_json::Value;

use super::{
    driver::{Driver, StateFrames},
    lines::{Writer, read_lines},
};
use crate::{
    args::{Options, RunArgs},
    output::Failure,
    wiring::Setup,
};

/// Why there is no session.
pub(super) enum Refused {
    /// The flags make no sense.
    Flags(Failure),
    /// They do, but the session cannot begin.
    Session {
        /// The session that was wanted.
        id: String,
        /// Why.
        failure: Failure,
    },
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Flags(failure)
    }
}

/// Builds everything; nothing is written yet.
pub(super) fn start(run: &RunArgs, options: &Options) -> Result<Driver, Refused> {
    let mut options = options.clone();
    if run.sdk.dangerously_skip_permissions && options.permission_mode.is_none() {
        options.permission_mode = Some(PermissionMode::BypassPermissions);
    }
    if let Some(schema) = &run.json_schema {
        let parsed: Result<Value, _> = serde_json::from_str(schema);
        parsed.map_err(|err| Failure::Message(format!("--json-schema is not JSON: {err}")))?;
    }
    let mut run = run.clone();
    run.tools = run.tools.filter(|list| list != "default");
    run.resume = run.resume.filter(|id| !id.is_empty());
    let mut setup = Setup::new(&options)?;
    let (host, asked) = Host::new();
    let servers = HostServers::new(host.clone());
    let mut configured = configured_servers(&run, &servers)?;
    if !run.sdk.strict_mcp_config {
        configured.extend(setup.servers_beside(&configured)?);
    }
    let asker = AskHost::new(host.clone());
    if run.sdk.permission_prompt_tool.as_deref() == Some("stdio") {
        setup.asker = Some(Arc::new(asker.clone()) as Arc<dyn Ask>);
    }
    let built = setup.agent(&run).map_err(|failure| Refused::Session { id: wanted(&run), failure })?;
    let mut agent = built.agent;
    agent.settings.late_input = LateInput::NextPrompt;
    let manager = setup.manager().clone();
    let pipeline = Arc::clone(&agent.tools.pipeline);
    Ok(Driver {
        frames: Frames { session_id: setup.session_id.clone() },
        first_model: agent.settings.model.clone(),
        told_mode: pipeline.gate.mode(),
        own_hooks: pipeline.gate.hooks().get(),
        inbox: agent.inbox.clone(),
        cwd: setup.cwd.display().to_string(),
        output_style: output_style(&setup),
        forbids_bypass: setup.loaded.settings.permissions.disable_bypass_permissions_mode,
        key_source: built.key_source,
        agent: Some(Box::new(agent)),
        events: built.events,
        partial: run.sdk.include_partial_messages.then(Partial::default),
        replay: run.sdk.replay_user_messages,
        state_frames: StateFrames::from_env(),
        out: Writer::start(),
        lines: read_lines(),
        pipeline,
        host,
        asked,
        asker,
        servers,
        manager,
        configured,
        begun: false,
        queue: VecDeque::new(),
        running: None,
        later: Vec::new(),
        agents: Vec::new(),
        last_failed: false,
    })
}

fn wanted(run: &RunArgs) -> String {
    let named = run.session_id.map(|id| id.to_string()).or_else(|| run.resume.clone());
    named.unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
}

fn output_style(setup: &Setup) -> String {
    let style = setup.loaded.settings.get("outputStyle");
    style.and_then(|it| it.value.as_str().map(str::to_owned)).unwrap_or_else(|| String::from("default"))
}

/// The servers of `--mcp-config`: JSON text, or files with it.
fn configured_servers(run: &RunArgs, servers: &HostServers) -> Result<Vec<ServerConfig>, Failure> {
    let mut all = Vec::new();
    for text in &run.sdk.mcp_config {
        let json = match text.trim_start().starts_with('{') {
            true => text.clone(),
            false => std::fs::read_to_string(text).map_err(|err| {
                format!("Invalid MCP configuration: MCP config file not found: {text} ({err})")
            })?,
        };
        let parsed: Value = serde_json::from_str(&json)
            .map_err(|err| format!("Invalid MCP configuration: {text} is not JSON: {err}"))?;
        let (configs, problems) = server_configs(&parsed, servers);
        if let Some((name, problem)) = problems.first_key_value() {
            return Err(Failure::Message(format!("Invalid MCP configuration: {name}: {problem}")));
        }
        all.extend(configs);
    }
    Ok(all)
}
