use std::{collections::BTreeMap, path::PathBuf};

use haft_session::HostAgent;
use serde_json::{Map, Value};

use super::fields::RequestFields;
use crate::LaunchFields;

/// The `initialize` request. All fields are optional.
///
/// `sdkMcpServerManifests` and `systemPromptSnapshot` are ignored: Haft queries the host's servers
/// itself, and builds its own prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InitializeRequest {
    /// Fields that only apply when the session is opened.
    pub launch: LaunchFields,
    /// Callback ids by event, for [`hook_definitions`](crate::hook_definitions).
    pub hooks: Value,
    /// Agent definitions by name, in the host's order.
    pub agents: Vec<(String, HostAgent)>,
    /// Replaces the system prompt. Several texts are joined with a blank line.
    pub system_prompt: Option<String>,
    /// Text appended to the system prompt.
    pub append_system_prompt: Option<String>,
    /// JSON Schema of the output.
    pub json_schema: Option<Map<String, Value>>,
    /// Names of the MCP servers in the host's process.
    pub sdk_mcp_servers: Vec<String>,
    /// Configuration of those servers, by name.
    pub sdk_mcp_server_configs: Map<String, Value>,
    /// Names of the skills to offer; `None` offers all.
    pub skills: Option<Vec<String>>,
    /// Plugins of the host; `None` if the request does not mention any.
    pub plugins: Option<Vec<ClientPlugin>>,
    /// Name of the session.
    pub title: Option<String>,
    /// Directory of the project that the host trusts (`workspaceTrust`).
    pub trusted_directory: Option<PathBuf>,
    /// Alternative tool names, and the tools they stand for.
    pub tool_aliases: BTreeMap<String, String>,
    /// Instructions for plan mode.
    pub plan_mode_instructions: Option<String>,
    /// Kinds of dialogs the host can show.
    pub supported_dialog_kinds: Vec<String>,
    /// Whether to send text of sub-agents.
    pub forward_subagent_text: bool,
    /// Whether to leave out the parts of the system prompt that vary.
    pub exclude_dynamic_sections: bool,
    /// Whether to send suggestions for the next prompt.
    pub prompt_suggestions: bool,
    /// Whether to send progress summaries of sub-agents.
    pub agent_progress_summaries: bool,
    /// Whether the host can stop single tasks.
    pub per_task_stop_affordance: bool,
}

/// A plugin of the host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientPlugin {
    /// Path of its directory, as sent by the host.
    pub path: String,
    /// Whether its MCP servers are ignored.
    pub skip_mcp_discovery: bool,
}

impl InitializeRequest {
    pub(super) fn read(fields: &mut RequestFields) -> Self {
        let is_on = |fields: &RequestFields, name: &str| fields.look(name) == true;
        let aliases = fields.look("toolAliases").as_object().into_iter().flatten();
        Self {
            launch: LaunchFields::read(&|name| fields.look(name)),
            tool_aliases: aliases
                .filter_map(|(name, tool)| Some((name.clone(), tool.as_str()?.to_owned())))
                .collect(),
            forward_subagent_text: is_on(fields, "forwardSubagentText"),
            exclude_dynamic_sections: is_on(fields, "excludeDynamicSections"),
            prompt_suggestions: is_on(fields, "promptSuggestions"),
            agent_progress_summaries: is_on(fields, "agentProgressSummaries"),
            per_task_stop_affordance: is_on(fields, "perTaskStopAffordance"),
            agents: agents(fields.look("agents")),
            system_prompt: texts(fields.look("systemPrompt")),
            sdk_mcp_servers: strings(fields.look("sdkMcpServers")).unwrap_or_default(),
            sdk_mcp_server_configs: fields
                .look("sdkMcpServerConfigs")
                .as_object()
                .cloned()
                .unwrap_or_default(),
            skills: strings(fields.look("skills")),
            plugins: plugins(fields.look("plugins")),
            supported_dialog_kinds: strings(fields.look("supportedDialogKinds")).unwrap_or_default(),
            append_system_prompt: string(fields.look("appendSystemPrompt")),
            plan_mode_instructions: string(fields.look("planModeInstructions")),
            title: string(fields.look("title")),
            trusted_directory: trusted_directory(fields.look("workspaceTrust")),
            json_schema: fields.take("jsonSchema").and_then(|it| match it {
                Value::Object(schema) => Some(schema),
                _ => None,
            }),
            hooks: fields.take("hooks").unwrap_or_default(),
        }
    }
}

/// The directory that a valid `workspaceTrust` names.
fn trusted_directory(trust: &Value) -> Option<PathBuf> {
    (trust["accepted"] == true).then(|| string(&trust["directory"]).map(PathBuf::from)).flatten()
}

fn agents(agents: &Value) -> Vec<(String, HostAgent)> {
    let agents = agents.as_object().into_iter().flatten().filter(|(_, agent)| !agent.is_null());
    agents
        .map(|(name, agent)| {
            let described = HostAgent {
                description: string(&agent["description"]).unwrap_or_default(),
                prompt: string(&agent["prompt"]).unwrap_or_default(),
                tools: strings(&agent["tools"]),
                model: string(&agent["model"]),
                definition: agent.clone(),
            };
            (name.clone(), described)
        })
        .collect()
}

fn plugins(plugins: &Value) -> Option<Vec<ClientPlugin>> {
    let plugin = |it: &Value| {
        let skip_mcp_discovery = it["skipMcpDiscovery"] == true;
        Some(ClientPlugin { path: string(&it["path"])?, skip_mcp_discovery })
    };
    Some(plugins.as_array()?.iter().filter_map(plugin).collect())
}

/// A prompt given as a string or a list of strings.
fn texts(value: &Value) -> Option<String> {
    let several = || {
        let parts = strings(value)?.into_iter().filter(|it| !it.is_empty());
        Some(parts.collect::<Vec<_>>().join("\n\n"))
    };
    string(value).or_else(several)
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// A list of strings; `None` for any other value.
fn strings(list: &Value) -> Option<Vec<String>> {
    Some(list.as_array()?.iter().filter_map(string).collect())
}
