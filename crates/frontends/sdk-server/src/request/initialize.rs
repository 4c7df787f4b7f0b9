use std::{collections::BTreeMap, path::PathBuf};

use haft_session::HostAgent;
use serde_json::{Map, Value};

use super::fields::RequestFields;
use crate::LaunchFields;

/// What a host says when it introduces itself. Everything is optional.
///
/// `sdkMcpServerManifests` and `systemPromptSnapshot` are not read: Haft asks the
/// servers of the host themselves, and makes its own prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InitializeRequest {
    /// What counts only when the session is opened.
    pub launch: LaunchFields,
    /// Callbacks by event, for [`hook_definitions`](crate::hook_definitions).
    pub hooks: Value,
    /// Agents of the host by name, in its order.
    pub agents: Vec<(String, HostAgent)>,
    /// The system prompt instead of Haft's own. Several texts are joined with a
    /// blank line.
    pub system_prompt: Option<String>,
    /// What follows the system prompt.
    pub append_system_prompt: Option<String>,
    /// The form of the answer.
    pub json_schema: Option<Map<String, Value>>,
    /// MCP servers in the host's process, by name.
    pub sdk_mcp_servers: Vec<String>,
    /// What the host says about those servers, by name.
    pub sdk_mcp_server_configs: Map<String, Value>,
    /// The only skills the model gets, if the host names some.
    pub skills: Option<Vec<String>>,
    /// Plugins of the host; `None` where it does not speak of plugins.
    pub plugins: Option<Vec<ClientPlugin>>,
    /// A name for the session.
    pub title: Option<String>,
    /// The directory whose project the host trusts (`workspaceTrust`).
    pub trusted_directory: Option<PathBuf>,
    /// Names the model uses, and the tools they stand for.
    pub tool_aliases: BTreeMap<String, String>,
    /// What the model is told in plan mode.
    pub plan_mode_instructions: Option<String>,
    /// Dialogs the host can show.
    pub supported_dialog_kinds: Vec<String>,
    /// Whether texts of sub-agents are passed on.
    pub forward_subagent_text: bool,
    /// Whether parts of the system prompt that change are left out of it.
    pub exclude_dynamic_sections: bool,
    /// Whether the host wants ideas for the next prompt.
    pub prompt_suggestions: bool,
    /// Whether the host wants summaries of what sub-agents do.
    pub agent_progress_summaries: bool,
    /// Whether the host can end single tasks.
    pub per_task_stop_affordance: bool,
}

/// A plugin that the host brings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientPlugin {
    /// Its directory, as the host wrote it.
    pub path: String,
    /// Whether its MCP servers are left out.
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

/// Trust that is accepted, for one directory.
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

/// A prompt as one text or several.
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

/// The texts of a list; `None` for what is no list.
fn strings(list: &Value) -> Option<Vec<String>> {
    Some(list.as_array()?.iter().filter_map(string).collect())
}
