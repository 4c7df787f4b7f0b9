//! What the embedding program brings, and what it is told about the session.

use haft_hooks::HandlerKind;
use haft_mcp_client::Enabled;
use serde_json::Value;

use super::{
    AgentChange, LeftForLater, OwnedSeat, Owner,
    turn::{CallRun, Running},
};
use crate::{
    Activity, HostAgent, HostParts, Introduction, Reply, ServerSwitch, ServersSet, SessionUsage,
    assembly::Seat,
    extensions::{Extensions, SKILL_TOOL, skill_tool},
    servers::server_configs,
};

impl Owner {
    /// Takes in what the host brings. May come again: the newest parts count.
    pub(super) fn equip(&mut self, parts: HostParts) -> Introduction {
        let applied = parts.plugins.map(|plugins| self.add_plugins(plugins));
        self.pipeline.gate.hooks().set(self.own_hooks.and(parts.hooks));
        self.host_agents = parts.agents;
        self.wanted_skills = parts.skills;
        self.install_skills();
        self.change(AgentChange::Prompt {
            system: parts.system_prompt,
            append: parts.append_system_prompt,
            schema: parts.output_schema,
        });
        self.become_named_agent();
        if let Some(hosted) = &self.spec.servers.hosted {
            self.servers.add(parts.servers.iter().map(|name| hosted(name)).collect());
        }
        let was_begun = self.servers_begun;
        if !parts.servers.is_empty() {
            self.servers_begun = false;
        }
        self.begin_servers();
        self.servers_begun |= was_begun;
        let mut introduction = self.introduction(applied);
        introduction.takes_up = self.left_for_later == LeftForLater::Waiting;
        if introduction.takes_up {
            self.left_for_later = LeftForLater::Ready;
        }
        introduction
    }

    /// Plugins beside those of the spec; whether all of them are there now.
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
        self.extensions.plugins().len() == self.plugins.len()
    }

    /// Looks again for what users and plugins add.
    pub(super) fn reload(&mut self) {
        self.extensions = Extensions::load(&self.premises, &self.plugins);
        self.install_skills();
    }

    /// The tool for skills, as far as there are any and it is wanted.
    pub(super) fn install_skills(&mut self) {
        let skills = self.extensions.skills(self.wanted_skills.as_deref());
        let only = self.spec.tools.only.as_ref();
        let is_wanted = only.is_none_or(|only| only.iter().any(|name| name == SKILL_TOOL))
            && self.spec.model.as_ref().is_none_or(|it| it.replay.is_none());
        let policy = self.pipeline.gate.permissions().policy();
        let tool = skill_tool(skills).filter(|_| is_wanted && policy.removes(SKILL_TOOL).is_none());
        self.change(AgentChange::Skills(tool));
    }

    /// Becomes the agent the spec names, if the host or a file says who that is.
    /// An agent nobody knows is told about once, and changes nothing.
    pub(super) fn become_named_agent(&mut self) {
        let Some(name) = self.spec.model.as_ref().and_then(|it| it.agent.clone()) else { return };
        let of_host = self.host_agents.iter().find(|(known, _)| *known == name);
        let found = of_host.map(|(_, agent)| agent.clone()).or_else(|| self.extensions.agent(&name));
        if let Some(agent) = found {
            self.change(AgentChange::Become(agent));
        }
    }

    /// Agents of the host and of files: name, description, model if one is named.
    pub(super) fn agents(&self) -> impl Iterator<Item = (String, String, Option<String>)> {
        let of_host = self.host_agents.iter().map(|(name, agent): &(String, HostAgent)| {
            (name.clone(), agent.description.clone(), agent.model.clone())
        });
        let of_files = self.extensions.agents.iter().map(|(name, about)| (name.clone(), about.clone(), None));
        of_host.chain(of_files)
    }

    pub(super) fn introduction(&self, plugins_applied: Option<bool>) -> Introduction {
        Introduction {
            commands: self.extensions.commands.clone(),
            skills: self.extensions.skills(self.wanted_skills.as_deref()),
            agents: self.agents().collect(),
            output_style: self.premises.output_style(),
            key_source: self.key_source.clone(),
            models: self.models(),
            mode: self.pipeline.gate.mode(),
            activity: match self.seat {
                OwnedSeat::Working(_) => Activity::Running,
                OwnedSeat::Idle(_) | OwnedSeat::Broken => Activity::Idle,
            },
            plugins: self.extensions.plugins(),
            plugins_applied,
            takes_up: false,
        }
    }

    /// Starts the servers of the session, once.
    pub(super) fn begin_servers(&mut self) {
        if self.servers_begun || !self.servers_wanted() {
            return;
        }
        self.servers_begun = true;
        self.servers.start();
    }

    pub(super) fn set_servers(&mut self, servers: &Value) -> ServersSet {
        let hosted = self.spec.servers.hosted.as_ref();
        let (configs, errors) = server_configs(servers, hosted, &self.premises);
        let before = self.servers.manager().names();
        let after: Vec<String> = configs.iter().map(|it| it.name.clone()).collect();
        let added = after.iter().filter(|it| !before.contains(it)).cloned().collect();
        let removed = before.iter().filter(|it| !after.contains(it)).cloned().collect();
        self.servers_begun = true;
        self.servers.replace(configs);
        ServersSet { added, removed, errors }
    }

    /// Takes as long as the server takes; the answer comes then.
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
                ServerSwitch::On => manager.set_enabled(&server, Enabled::Yes).await,
                ServerSwitch::Off => manager.set_enabled(&server, Enabled::No).await,
                ServerSwitch::Reconnect => manager.reconnect(&server).await,
            };
            reply.send(done.map_err(|problem| problem.to_string()), &events);
        });
    }

    /// Whether some hook is a tool of a server.
    pub(super) fn hooks_need_servers(&self) -> bool {
        self.loaded.settings.hooks.iter().any(|it| it.handler.kind() == HandlerKind::McpTool)
    }

    /// Runs the hooks of the beginning in a session without a model.
    pub(super) fn get_ready(&mut self, reply: Reply<()>) {
        match std::mem::replace(&mut self.seat, OwnedSeat::Broken) {
            OwnedSeat::Idle(Seat::Calls(session)) => {
                let setting = self.turn_setting();
                self.seat = OwnedSeat::Working(Running::Calls(CallRun::ready(session, reply, setting)));
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

    /// Models by the names a person may use; the first is the one the session
    /// began with.
    pub(super) fn models(&self) -> Vec<(String, String)> {
        let mut models = vec![(String::from("default"), self.first_model.clone())];
        for info in self.catalog.models() {
            if let Some(short) = &info.short {
                models.push((short.clone(), self.catalog.resolve(short).to_owned()));
            }
        }
        models
    }

    /// A name for the session, in its log.
    pub(super) fn rename(&mut self, title: String, session: Option<&str>) -> Result<(), String> {
        let here = self.session_id.as_str();
        if let Some(meant) = session.filter(|it| *it != here) {
            return Err(format!("The session is {here} now, not {meant}"));
        }
        self.events.tell(crate::Happening::Renamed(title.clone()));
        self.change(AgentChange::Name(title));
        Ok(())
    }
}
