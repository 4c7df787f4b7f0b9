//! Parts that the embedding program adds, and the description of the session it receives.

use haft_hooks::HandlerKind;
use haft_mcp_client::ServerEnabled;
use serde_json::{Map, Value};

use super::{
    DeferredCalls, DeferredChange, RunnerState, SessionActor,
    running::{CallRun, RunningWork},
};
use crate::{
    Activity, ClientParts, Reply, ServerSwitch, ServersSet, SessionIntroduction, SessionUsage, TaskTail,
    agents::{AgentKindCatalog, summary_pace},
    build::SessionRunner,
    extensions::Extensions,
    mcp_servers::{ToolPolicies, server_configs},
};

/// The name of the tool that starts sub-agents.
const AGENT_TOOL: &str = <haft_builtin_tools::agent::Agent as haft_tool::Tool>::NAME;

impl SessionActor {
    /// Installs the parts of the embedding program. Can be called again; the new parts replace the old
    /// ones.
    pub(super) fn apply_client_parts(&mut self, parts: ClientParts) -> SessionIntroduction {
        if let Some(directory) = &parts.trusted_directory {
            self.premises.trust_project(directory);
            self.follow_settings();
        }
        let applied = parts.plugins.map(|plugins| self.add_plugins(plugins));
        self.pipeline.gate.hooks().set(self.own_hooks.and(parts.hooks));
        self.host_agents = self.spec.extensions.agents.clone();
        self.host_agents.extend(parts.agents);
        self.wanted_skills = parts.skills;
        let pace = parts.agent_summaries.then(|| summary_pace(&self.premises)).flatten();
        self.agents.summarise_every(pace);
        self.install_skills();
        self.install_agents();
        self.change(DeferredChange::Prompt {
            system: parts.system_prompt,
            append: parts.append_system_prompt,
            schema: parts.output_schema,
        });
        self.apply_named_agent();
        if let Some(hosted) = &self.spec.servers.hosted {
            self.servers.add(parts.servers.iter().map(|name| hosted(name)).collect());
        }
        let policies = &self.premises.tool_policies;
        let configs = parts.servers.iter().filter_map(|name| Some((name, parts.server_configs.get(name)?)));
        if configs.fold(false, |any, (name, config)| policies.add(name, config) || any) {
            self.follow_tool_policies();
        }
        let was_begun = self.servers_begun;
        if !parts.servers.is_empty() {
            self.servers_begun = false;
        }
        self.begin_servers();
        self.servers_begun |= was_begun;
        let mut introduction = self.introduction(applied);
        introduction.takes_up = self.left_for_later == DeferredCalls::Waiting;
        if introduction.takes_up {
            self.left_for_later = DeferredCalls::Ready;
        }
        introduction
    }

    /// Adds plugins to those of the spec. Returns whether all of them were loaded.
    fn add_plugins(&mut self, plugins: Vec<crate::PluginDir>) -> bool {
        let mut new = plugins;
        new.iter_mut().for_each(|it| it.path = self.premises.cwd.join(&it.path));
        new.retain(|it| !self.plugins.iter().any(|known| known.path == it.path));
        for plugin in new {
            let found = Extensions::load_plugins(&self.premises, std::slice::from_ref(&plugin));
            self.own_hooks = self.own_hooks.and(found.hooks());
            self.servers.add(found.servers(self.spec.servers.hosted.as_ref(), &self.premises));
            self.plugins.push(plugin);
        }
        self.reload();
        self.extensions.explicit_plugin_count() == self.plugins.len()
    }

    /// Installs the current kinds of agents. Before the first prompt they become part of the tool
    /// description; later the model is told about changes in a message, to keep the prompt cache valid.
    pub(super) fn install_agents(&mut self) {
        let before = self.agents.shelf();
        let shelf = AgentKindCatalog::new(&self.extensions.agents, &self.host_agents);
        let known = |list: &AgentKindCatalog, name: &str| list.kinds().iter().any(|it| it.name == name);
        let fresh: Vec<String> = shelf
            .kinds()
            .iter()
            .filter(|it| !known(&before, &it.name))
            .map(|it| format!("- {}: {}", it.name, haft_builtin_tools::agent::flat(&it.description, 600)))
            .collect();
        let news = shelf.problems().iter().filter(|it| !before.problems().contains(it));
        news.for_each(|it| self.events.notice(it.to_string()));
        let has_changed = before.listed() != shelf.listed();
        self.agents.set_shelf(shelf);
        let is_there = self.pipeline_has(AGENT_TOOL);
        if !has_changed || !is_there {
            return;
        }
        if self.results == 0 && matches!(self.seat, RunnerState::Idle(_)) {
            let tool = haft_tool::erase(haft_builtin_tools::agent::Agent::new(std::sync::Arc::clone(
                &self.agents,
            ) as _));
            self.change(DeferredChange::Tool(AGENT_TOOL, Some(tool)));
        } else if let (Some(reach), false) = (&self.reach, fresh.is_empty()) {
            let text =
                haft_types::tags::reminder(&format!("These kinds of agents are new:\n{}", fresh.join("\n")));
            let content = vec![haft_types::MessageBlock::Text { text }];
            reach.inbox.mention(haft_agent::UserInput { content, ..haft_agent::UserInput::default() });
        }
    }

    pub(super) fn pipeline_has(&self, tool: &str) -> bool {
        match &self.seat {
            RunnerState::Idle(seat) => seat.calls().pool.get().get(tool).is_some(),
            RunnerState::Working(_) => true,
            RunnerState::Broken => false,
        }
    }

    /// The latest text of an agent, for front ends.
    pub(super) fn agent_tail(&self, id: &str) -> Option<TaskTail> {
        let text = self.agents.last_text(id)?;
        Some(TaskTail { total: text.len(), truncated: false, text })
    }

    /// Agents of the host and of files: name, description, and model if the definition names one.
    pub(super) fn agents(&self) -> impl Iterator<Item = (String, String, Option<String>)> {
        let shelf = self.agents.shelf();
        let kinds: Vec<_> = shelf
            .kinds()
            .iter()
            .map(|kind| (kind.name.clone(), kind.description.clone(), kind.model.clone()))
            .collect();
        kinds.into_iter()
    }

    pub(super) fn introduction(&self, plugins_applied: Option<bool>) -> SessionIntroduction {
        SessionIntroduction {
            commands: self.extensions.commands.iter().filter(|it| it.is_for_person).cloned().collect(),
            skills: self.extensions.skills(self.wanted_skills.as_deref()),
            agents: self.agents().collect(),
            output_style: self.premises.output_style(),
            key_source: self.key_source.clone(),
            models: self.models(),
            mode: self.pipeline.gate.mode(),
            activity: match self.seat {
                RunnerState::Working(_) => Activity::Running,
                RunnerState::Idle(_) | RunnerState::Broken => Activity::Idle,
            },
            plugins: self.extensions.plugins(),
            plugins_applied,
            takes_up: false,
        }
    }

    /// Starts the MCP servers of the session. No-op after the first call.
    pub(super) fn begin_servers(&mut self) {
        if self.servers_begun || !self.servers_wanted() {
            return;
        }
        self.servers_begun = true;
        self.servers.start();
    }

    pub(super) fn set_servers(&mut self, servers: &Value) -> ServersSet {
        let hosted = self.spec.servers.hosted.as_ref();
        let map = servers.get("mcpServers").unwrap_or(servers).as_object();
        self.premises.tool_policies.replace(map.unwrap_or(&Map::new()));
        self.follow_tool_policies();
        let (configs, mut errors) = server_configs(servers, hosted, &self.premises);
        let (may_run, refused) = self.servers.permitted(configs.clone());
        errors.extend(refused.into_iter().map(|it| (it.server, it.reason)));
        let before = self.servers.manager().names();
        let after: Vec<String> = may_run.iter().map(|it| it.name.clone()).collect();
        let added = after.iter().filter(|it| !before.contains(it)).cloned().collect();
        let removed = before.iter().filter(|it| !after.contains(it)).cloned().collect();
        self.servers_begun = true;
        self.servers.replace(configs);
        ServersSet { added, removed, errors }
    }

    /// Applies the tool policies of the host's MCP servers.
    fn follow_tool_policies(&self) {
        let rules = self.premises.tool_policies.rules();
        self.pipeline.gate.permissions().set_rules_of(&ToolPolicies::origin(), rules);
    }

    /// Enables, disables or reconnects a server in a background task, and replies when it is done.
    pub(super) fn switch_server(
        &self,
        server: String,
        switch: ServerSwitch,
        reply: Reply<Result<(), String>>,
    ) {
        let (manager, events) = (self.servers.manager().clone(), self.events.clone());
        if !manager.names().contains(&server) {
            return reply.send(Err(format!("Server not found: {server}")), &events);
        }
        tokio::spawn(async move {
            let done = match switch {
                ServerSwitch::On => {
                    let switched = manager.set_enabled(&server, ServerEnabled::Yes).await;
                    // A failed connection is not an error of the switch; the next status request reports
                    // it.
                    manager.refresh(&server).await.ok();
                    switched
                }
                ServerSwitch::Off => manager.set_enabled(&server, ServerEnabled::No).await,
                ServerSwitch::Reconnect => manager.reconnect(&server).await,
            };
            reply.send(done.map_err(|problem| problem.to_string()), &events);
        });
    }

    /// Whether any hook is an MCP tool.
    pub(super) fn hooks_need_servers(&self) -> bool {
        self.loaded.settings.hooks.iter().any(|it| it.handler.kind() == HandlerKind::McpTool)
    }

    /// Runs the SessionStart hooks in a session without a model, then replies. Replies at once if the
    /// session has a model or is busy.
    pub(super) fn get_ready(&mut self, reply: Reply<()>) {
        match std::mem::replace(&mut self.seat, RunnerState::Broken) {
            RunnerState::Idle(SessionRunner::Calls(session)) => {
                let setting = self.turn_setting();
                self.seat = RunnerState::Working(RunningWork::Calls(CallRun::ready(session, reply, setting)));
            }
            other => {
                self.seat = other;
                reply.send((), &self.events);
            }
        }
    }

    pub(super) fn usage(&self) -> SessionUsage {
        SessionUsage {
            session_id: self.session_id.clone(),
            bill: self.watch.bill(),
            api_ms: self.api_ms,
            open_ms: u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Models the user can choose: alias and full name. The first is `default`, the model the session
    /// started with.
    pub(super) fn models(&self) -> Vec<(String, String)> {
        let mut models = vec![(String::from("default"), self.first_model.clone())];
        for info in self.catalog.models() {
            if let Some(short) = &info.short {
                models.push((short.clone(), self.catalog.resolve(short).to_owned()));
            }
        }
        models
    }

    /// Renames the session and writes the name to its log. Fails if `session` is another id than the
    /// current one.
    pub(super) fn rename(&mut self, title: String, session: Option<&str>) -> Result<(), String> {
        let here = self.session_id.as_str();
        if let Some(meant) = session.filter(|it| *it != here) {
            return Err(format!("The session is {here} now, not {meant}"));
        }
        self.events.tell(crate::SessionEventKind::Renamed(title.clone()));
        self.change(DeferredChange::Name(title));
        Ok(())
    }
}
