//! Builds a session: settings, services, rules, tools, gate, agent, in this order. Each step uses the
//! results of the steps before it.

mod classifier;
mod environment_prompt;
mod lsp;
mod main_agent;
mod model_policy;
mod persist_rules;
mod provider;
mod replay_tools;
mod results_in_context;
mod services;
mod settings_access;
mod stored_prompts;
mod unknown_tool_names;
#[cfg_attr(not(feature = "web"), path = "no_web.rs")]
mod web;

use std::{path::Path, sync::Arc};

use haft_agent::Agent;
use haft_hooks::{HookDefinition, HookEnvironment, HookObserver, HookPorts, Hooks};
use haft_mcp_client::McpManager;
use haft_model::Catalog;
use haft_permission::{LivePermissions, Policy};
use haft_process::ProcessOwner;
use haft_tool::{DynTool, Exposure, ProgressSink, Tool as _, erase};
use haft_tool_runtime::{
    Approver, BatchLimits, CallSession, CallSessionState, Gate, Pipeline, Pool, ResultStore, SessionHooks,
    SharedPool, StoreLimits, ToolSearch, ToolVisibility, visible,
};
use tokio::sync::mpsc;

pub(crate) use self::{
    environment_prompt::place_notes,
    main_agent::{RestoredConversation, model_of, record, stamp},
    provider::ChosenProvider,
    results_in_context::{ChildContextViews, MainContextView},
    services::{ReadOnlyTools, SessionServices, ShellRecords, media_work},
};
pub use services::described_tools;
pub use unknown_tool_names::TOOLS_OF_SESSIONS;

pub(crate) use self::model_policy::ModelPolicy;
use self::{
    classifier::ModelClassifier, persist_rules::SettingsUpdateStore, replay_tools::replay_tools,
    results_in_context::restore_seen,
};
use crate::{
    ApproverSpec, EventSender, OpenError, ServerStart, SessionEventKind, SessionSpec,
    agents::{
        AgentKindCatalog, AgentLogs, AgentModels, ParentCalls, SpawnContext, SpawnJob, SubagentRegistry,
        TreeLimits, logged_spending, start_nursery,
    },
    environment::{SessionEnvironment, TOOL_RESULTS},
    extensions::{ActiveSkills, Extensions},
    hook_events::HookEventEmitter,
    mcp_servers::{HookTools, SessionServers},
    memory::MemoryFollower,
    questions::{
        EditorDiffs, EventApprover, EventElicitation, McpToolApprover, QuestionRegistry, QuestionedCalls,
    },
    session_logs::{LogChoice, SessionLogs},
    tool_hosts,
    turn_observer::TurnObserver,
};

/// The name of the Config tool.
pub const SETTINGS_TOOL: &str = <haft_builtin_tools::config::Config as haft_tool::Tool>::NAME;

/// All parts of a session, ready to run.
pub(crate) struct BuiltSession {
    pub(crate) premises: Arc<SessionEnvironment>,
    pub(crate) logs: SessionLogs,
    pub(crate) services: Option<SessionServices>,
    pub(crate) servers: Arc<SessionServers>,
    pub(crate) extensions: Extensions,
    pub(crate) skills: Arc<ActiveSkills>,
    pub(crate) agents: Arc<SubagentRegistry>,
    pub(crate) desk: Arc<QuestionRegistry>,
    pub(crate) asked: Arc<QuestionedCalls>,
    pub(crate) watch: Arc<TurnObserver>,
    /// Hooks of settings, plugins and the embedding program, without those a host adds later.
    pub(crate) own_hooks: Hooks,
    /// Owns the child processes of the session; they end with it.
    pub(crate) processes: Arc<ProcessOwner>,
    pub(crate) seat: SessionRunner,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) key_source: String,
}

/// What runs in a session.
pub(crate) enum SessionRunner {
    /// An agent with a model.
    Agent(Box<Agent>),
    /// No agent: calls come from outside.
    Calls(Box<CallSession>),
}

impl SessionRunner {
    /// The session state that calls run in.
    pub(crate) fn calls(&self) -> &CallSession {
        match self {
            Self::Agent(agent) => &agent.tools,
            Self::Calls(calls) => calls,
        }
    }
}

impl BuiltSession {
    /// Builds a session. Starts no server or agent, but ends processes that killed sessions left
    /// running.
    #[expect(clippy::too_many_lines, reason = "one list of parts, in the order they need each other")]
    pub(crate) fn build(spec: &SessionSpec, events: &EventSender) -> Result<Self, OpenError> {
        let choice = LogChoice::make(&spec.place, &spec.log)?;
        let premises = Arc::new(SessionEnvironment::read(spec, choice.id.clone(), events.clone())?);
        premises.make_state_private();
        let chosen = match &spec.model {
            Some(model) => Some(ChosenProvider::choose(&premises, model)?),
            None => None,
        };
        let classifier = ModelClassifier::new(&premises, chosen.as_ref());
        if let Some(classifier) = &classifier {
            let port: Arc<dyn haft_permission::Classifier> = Arc::clone(classifier) as _;
            premises.classifier.set(port).ok();
        }
        let memories = match &spec.model {
            Some(_) => {
                let has_hosts = tool_hosts::is_wanted(&premises, spec);
                Some(RestoredConversation::recall(&premises, &spec.log, &choice, has_hosts)?)
            }
            None => None,
        };
        // The log is locked for this session from here on.
        let hosts = tool_hosts::connect(&premises, spec)?;
        let extensions = Extensions::load(&premises, &spec.extensions.plugins);
        extensions.problems.iter().for_each(|it| events.notice(it.to_string()));
        let (agents, births) = agents(&premises, spec, &extensions, chosen.as_ref(), events);
        let skills = ActiveSkills::new(Arc::clone(&premises), Arc::clone(&agents));
        let children = ChildContextViews::default();
        let services = if spec.tools.built_in {
            let held = memories.as_ref().map(|it| it.held.clone());
            let held = held.or_else(|| (!spec.remembers_results).then(haft_agent::ResultsInContext::default));
            Some(SessionServices::open(
                &premises,
                MainContextView { main: held, children: children.clone() },
                ShellRecords::OnDisk,
                chosen.as_ref(),
                &agents,
                &extensions.bins(),
                spec.far_post.as_ref(),
            )?)
        } else {
            None
        };
        if let Some(services) = &services {
            services.lsp.set_plugin_servers(extensions.language_servers(&premises));
        }
        if let (Some(services), Some(overlay)) = (&services, &spec.overlay) {
            services.files.workspace().set_overlay(Arc::clone(overlay));
        }
        if let (Some(services), Some(memories), None) = (&services, &memories, &hosts) {
            restore_seen(&services.files, &memories.restored);
        }
        let processes: Arc<ProcessOwner> =
            services.as_ref().map(|it| Arc::clone(it.tasks.shell().owner())).unwrap_or_default();
        let servers =
            SessionServers::new(Arc::clone(&premises), spec.servers.clone(), Arc::clone(&processes))?;
        let servers = Arc::new(servers);
        servers.add(extensions.servers(spec.servers.hosted.as_ref(), &premises));
        let policy = premises.policy()?;
        tell_warnings(&policy, events);
        let desk = QuestionRegistry::new(events.clone());
        let asked = Arc::new(QuestionedCalls::default());
        let own_hooks = own_hooks(&premises, &servers, &extensions, spec, &processes);
        let log = choice.path.clone().unwrap_or_else(|| choice.logs.path(choice.id.as_str()));
        let hooks = SessionHooks::new(own_hooks.clone(), choice.id.clone(), log);
        let tools = tools(&premises, spec, services.as_ref(), servers.manager(), &policy);
        let tools = match (&hosts, &services) {
            (Some(hosts), Some(services)) => {
                tool_hosts::introduce(hosts, &services.late, &agents, &premises);
                tool_hosts::hosted_tools(hosts, tools)
            }
            _ => tools,
        };
        if let Some(services) = &services {
            unknown_tool_names::tell_unknown(&policy, spec, &services.tools, events);
        }
        let search = searches(spec, &policy, servers.manager(), &tools);
        let gate = Gate::of_session(Arc::new(LivePermissions::new(policy))).with_hooks(hooks).with_keep(
            Arc::new(SettingsUpdateStore {
                premises: Arc::clone(&premises),
                workspace: services.as_ref().map(|it| Arc::clone(it.files.workspace())),
                manager: servers.manager().downgrade(),
            }),
        );
        let gate = match asker(spec, &premises, &desk, &asked, servers.manager()) {
            Some(asker) => gate.with_approver(asker),
            None => gate,
        };
        let calls = call_session(&premises, spec, gate, tools, search, events);
        if let Some(services) = &services {
            services.late.set(&calls.pipeline);
            services.voice.logged_at(choice.path.clone());
            services.worktrees.begin();
        }
        let pipeline = Arc::downgrade(&calls.pipeline);
        premises.walls.follow_mode(move || pipeline.upgrade().map(|it| it.gate.mode()).unwrap_or_default());
        servers.answerer.hooked_by(&calls.pipeline, premises.cwd.clone());
        if spec.face_answers.elicitation {
            servers.answered_by(Arc::new(EventElicitation { desk: Arc::clone(&desk) }));
        }
        let tasks = services.as_ref().map(|it| Arc::clone(&it.tasks));
        let watch = TurnObserver::new(
            events.clone(),
            tasks,
            hosts.clone(),
            Arc::clone(&asked),
            &calls.pipeline,
            &premises.traces,
        );
        if spec.hosts.is_lent {
            watch.background.disable_notices();
        }
        let (catalog, key_source) = match &chosen {
            Some(chosen) => (Arc::clone(&chosen.catalog), chosen.key_source.clone()),
            None => (premises.catalog()?, String::from("none")),
        };
        let seat = match (&spec.model, chosen, memories) {
            (Some(model), Some(chosen), Some(memories)) => {
                let listener = watch.listener();
                let readers = services.as_ref().map(|it| &it.readers);
                let found = main_agent::load_memory(&premises, &calls, readers);
                let mut calls = calls;
                if let Some(readers) = readers.filter(|_| hosts.is_none()) {
                    let (memory, rules) = (&found.memory, found.rules.clone());
                    let (premises, readers) = (Arc::clone(&premises), readers.clone());
                    calls.companion = Some(Arc::new(MemoryFollower::new(
                        premises,
                        readers,
                        Arc::clone(&skills),
                        memory,
                        rules,
                    )));
                }
                let told = main_agent::PromptFacts {
                    memory: found.memory,
                    style: chosen_style(&premises, &extensions),
                };
                let agent =
                    main_agent::agent(&premises, spec, model, &chosen, calls, memories, told, listener)?;
                skills.serve(ParentCalls::from_calls(&agent.tools), agent.orders.clone());
                servers.sampler.answer_with(Arc::clone(&chosen.provider), &agent.settings.model);
                servers.sampler.charge_to(&agent.ledger);
                if let Some(classifier) = &classifier {
                    classifier.charge_to(&agent.ledger);
                }
                if let Some(cache) = main_agent::cache_setting(&premises, "subagentPromptCacheTtl") {
                    agents.set_prefix_cache(cache);
                }
                if let Some(services) = &services {
                    services.charge_to(&agent);
                    services.tell_news_to(&agent);
                }
                let begun = BuiltAgent {
                    premises: &premises,
                    spec,
                    choice: &choice,
                    agent: &agent,
                    provider: &chosen.provider,
                    services: services.as_ref(),
                    servers: &servers,
                    skills: &skills,
                };
                begun.nurse(&agents, births, children, &asked, &desk);
                watch.begin_session(&premises, chosen.provider.name(), &agent);
                SessionRunner::Agent(Box::new(agent))
            }
            _ => SessionRunner::Calls(Box::new(calls)),
        };
        Ok(Self {
            premises,
            logs: choice.logs,
            services,
            servers,
            extensions,
            skills,
            agents,
            desk,
            asked,
            watch,
            own_hooks,
            processes,
            seat,
            catalog,
            key_source,
        })
    }
}

/// The main agent, and what sub-agents are built from.
struct BuiltAgent<'a> {
    premises: &'a Arc<SessionEnvironment>,
    spec: &'a SessionSpec,
    choice: &'a LogChoice,
    agent: &'a Agent,
    provider: &'a Arc<dyn haft_model::Provider>,
    services: Option<&'a SessionServices>,
    servers: &'a Arc<SessionServers>,
    skills: &'a Arc<ActiveSkills>,
}

impl BuiltAgent<'_> {
    /// Adds the usage of sub-agents that is in their logs but was not added to the session's totals when
    /// the process was killed.
    fn count_lost(&self, log: &Path) {
        let Some((usage, usd)) = logged_spending(log) else { return };
        let counted = self.agent.spending();
        if counted.usd < usd || counted.usage.output_tokens < usage.output_tokens {
            let (usage, usd) = (usage.since(counted.usage), (usd - counted.usd).max(0.0));
            self.agent.ledger.add(&self.agent.settings.model, usage, usd);
        }
    }

    /// Starts the task that spawns sub-agents, and registers the agents of an earlier process.
    fn nurse(
        &self,
        agents: &Arc<SubagentRegistry>,
        births: mpsc::UnboundedReceiver<SpawnJob>,
        held: ChildContextViews,
        asked: &Arc<QuestionedCalls>,
        questions: &Arc<QuestionRegistry>,
    ) {
        agents.follow(&self.agent.settings);
        let world = SpawnContext {
            provider: Arc::clone(self.provider),
            premises: Arc::clone(self.premises),
            ledger: self.agent.ledger.clone(),
            prompt: self.agent.prompt.clone(),
            calls: ParentCalls::from_calls(&self.agent.tools),
            tasks: self.services.map(|it| Arc::clone(&it.tasks)),
            files: self.services.map(|it| Arc::clone(&it.files)),
            held,
            asked: Arc::clone(asked),
            questions: Arc::clone(questions),
            masker: self.premises.masker.clone(),
            forks: [(haft_types::AgentId::Main, self.agent.fork_point.clone())]
                .into_iter()
                .collect::<std::collections::HashMap<_, _>>()
                .into(),
            skills: Arc::clone(self.skills),
            servers: Arc::clone(self.servers),
            // With tool hosts, local worktrees would not be where the files are.
            worktrees: self
                .services
                .filter(|_| self.premises.hosts.get().is_none())
                .map(|it| Arc::clone(&it.worktrees)),
        };
        start_nursery(world, Arc::clone(agents), births);
        if let Some(path) = &self.choice.path {
            let stamp = stamp(self.premises, &self.spec.log);
            let logs = AgentLogs::beside(path, self.choice.id.clone(), stamp, self.spec.log.mirror);
            agents.set_logs(Some(logs.fenced(self.choice.fence.clone())));
            if self.choice.from.as_deref() == Some(path.as_path()) {
                agents.recover(path);
                self.count_lost(path);
            }
        }
    }
}

/// Creates the registry of sub-agents and the receiver of those to spawn. Reports problems of agent
/// files.
fn agents(
    premises: &SessionEnvironment,
    spec: &SessionSpec,
    extensions: &Extensions,
    chosen: Option<&ChosenProvider>,
    events: &EventSender,
) -> (Arc<SubagentRegistry>, mpsc::UnboundedReceiver<SpawnJob>) {
    let shelf = AgentKindCatalog::new(&extensions.agents, &spec.extensions.agents);
    shelf.tell_problems(events);
    let models = match chosen {
        Some(chosen) => AgentModels::Known {
            catalog: Arc::clone(&chosen.catalog),
            usual: premises.usual_agent_model(),
            policy: ModelPolicy::from_settings(&premises.loaded().settings),
        },
        None => AgentModels::None,
    };
    SubagentRegistry::new(events.clone(), TreeLimits::from(|name| premises.variable(name)), shelf, models)
}

/// The output style the settings choose. An unknown one is reported and ignored.
pub(crate) fn chosen_style(
    premises: &SessionEnvironment,
    extensions: &Extensions,
) -> Option<haft_agent::OutputStyle> {
    let name = premises.output_style();
    let style = extensions.style(&name);
    if style.is_none() && !name.eq_ignore_ascii_case("default") {
        premises.events.notice(format!("there is no output style {name:?}; the usual one holds"));
    }
    style.map(|it| it.style.clone())
}

/// Reports invalid rules.
fn tell_warnings(policy: &Policy, events: &EventSender) {
    for warning in policy.warnings() {
        let (rule, origin) = (&warning.rule.text, &warning.rule.origin.label);
        events.notice(format!("rule {rule} ({origin}): {}", warning.message));
    }
}

/// The approver of the session; `None` if the settings or the spec exclude one.
fn asker(
    spec: &SessionSpec,
    premises: &SessionEnvironment,
    desk: &Arc<QuestionRegistry>,
    asked: &Arc<QuestionedCalls>,
    manager: &McpManager,
) -> Option<Arc<dyn Approver>> {
    let nobody = premises.loaded().settings.permissions.deny_instead_of_prompting;
    match &spec.asking {
        ApproverSpec::Nobody => None,
        ApproverSpec::Face(_) if nobody => None,
        ApproverSpec::Face(words) => {
            let (desk, calls) = (Arc::clone(desk), Arc::clone(asked));
            let editor = spec.servers.editor.clone();
            let editor = editor.map(|server| EditorDiffs { server, manager: manager.downgrade() });
            Some(Arc::new(EventApprover { desk, calls, words: *words, editor }))
        }
        ApproverSpec::Port(port) => Some(Arc::clone(port)),
        ApproverSpec::Tool(name) => {
            Some(Arc::new(McpToolApprover { manager: manager.clone(), name: name.clone() }))
        }
    }
}

/// The tools of the session: the allowed built-in tools, then those of the embedding program.
fn tools(
    premises: &SessionEnvironment,
    spec: &SessionSpec,
    services: Option<&SessionServices>,
    manager: &McpManager,
    policy: &Policy,
) -> Vec<Arc<dyn DynTool>> {
    let mut tools = match services {
        Some(services) => {
            let only = match spec.model.as_ref().and_then(|it| it.replay.as_ref()) {
                Some(replay) => Some(replay.cassette.header.tools.clone()),
                None => spec.tools.only.clone(),
            };
            usable_tools(premises, services, manager, policy, only)
        }
        None => Vec::new(),
    };
    // A replay takes the tool names from the recording.
    let is_replay = spec.model.as_ref().is_some_and(|it| it.replay.is_some());
    let is_attended = match &spec.asking {
        ApproverSpec::Nobody => false,
        ApproverSpec::Port(port) => port.is_available(),
        ApproverSpec::Face(_) | ApproverSpec::Tool(_) => true,
    };
    tools.retain(|tool| is_attended || is_replay || !tool.needs_user());
    tools.extend(spec.tools.own.iter().cloned());
    tools
}

/// Whether the tool search is offered: with the built-in tools (unless the tool list leaves it out), and
/// whenever a tool is deferred or MCP servers may add tools. Never if a rule removes it.
fn searches(spec: &SessionSpec, policy: &Policy, manager: &McpManager, tools: &[Arc<dyn DynTool>]) -> bool {
    let has_deferred = tools.iter().any(|tool| tool.exposure() == Exposure::Deferred);
    let servers = spec.servers.start != ServerStart::Never
        && (spec.servers.hosted.is_some() || !manager.names().is_empty());
    let is_named = spec.tools.only.as_ref().is_none_or(|only| only.iter().any(|it| it == ToolSearch::NAME));
    policy.removes(ToolSearch::NAME).is_none()
        && (has_deferred || servers || (is_named && spec.tools.built_in))
}

/// The built-in tools left by rules, feature switches and the tool list.
pub(crate) fn usable_tools(
    premises: &SessionEnvironment,
    services: &SessionServices,
    manager: &McpManager,
    policy: &Policy,
    only: Option<Vec<String>>,
) -> Vec<Arc<dyn DynTool>> {
    let mut base = services.tools.clone();
    base.extend(haft_mcp_client::resource_tools(manager));
    let denied = base.iter().filter(|tool| policy.removes(tool.name()).is_some());
    let visibility = ToolVisibility {
        denied: denied.map(|tool| tool.name().to_owned()).collect(),
        only,
        features: premises.features(&base),
    };
    visible(&base, &visibility)
}

/// Extra time an interrupted call on a tool host gets to return, including the round trip.
const HOST_GRACE: std::time::Duration = std::time::Duration::from_millis(1500);

/// Creates the session state that calls run in.
fn call_session(
    premises: &SessionEnvironment,
    spec: &SessionSpec,
    gate: Gate,
    tools: Vec<Arc<dyn DynTool>>,
    searches: bool,
    events: &EventSender,
) -> CallSession {
    let pool = SharedPool::new(Pool::assemble(Vec::new(), Vec::new()));
    let search = searches.then(|| erase(ToolSearch::new(pool.clone())));
    let replay = spec.model.as_ref().and_then(|it| it.replay.as_ref());
    let stand_ins = replay.map(|it| replay_tools(&it.cassette)).unwrap_or_default();
    pool.set(Pool::assemble(tools.into_iter().chain(search).collect(), stand_ins));
    let results = ResultStore::new(premises.session_dir().join(TOOL_RESULTS), StoreLimits::default());
    let mut pipeline = Pipeline::new(gate, results);
    // A user who runs a call sees the raw file; a model gets it with secrets masked.
    if spec.model.is_some() || !spec.remembers_results {
        pipeline.secrets = Some(match premises.hosts.get() {
            Some(_) => Arc::new(tool_hosts::LocalSecrets(premises.masker.clone())),
            None => Arc::new(premises.masker.clone()),
        });
    }
    if premises.hosts.get().is_some() {
        pipeline.grace = HOST_GRACE;
    }
    let pipeline = Arc::new(pipeline);
    let (cwd, home) = premises.work_place();
    let mut state = CallSessionState::new(cwd);
    state.home = home.as_deref().map(Arc::from);
    let is_there = |name: &&String| pool.get().get(name).is_some();
    state.loaded = spec.tools.at_hand.iter().filter(is_there).cloned().collect();
    let mut calls = CallSession::new(pipeline, pool, state);
    calls.limits = BatchLimits::from(|name| premises.variables.text(name));
    if spec.progress {
        calls.progress = progress_sink(events.clone());
    }
    calls
}

/// Emits progress of calls as events.
fn progress_sink(events: EventSender) -> ProgressSink {
    let (sink, mut progress) = ProgressSink::channel();
    tokio::spawn(async move {
        while let Some(event) = progress.recv().await {
            events.tell(SessionEventKind::Agent(haft_agent::AgentEvent::Progress(event)));
        }
    });
    sink
}

/// Collects the hooks of settings, plugins and the embedding program.
fn own_hooks(
    premises: &SessionEnvironment,
    servers: &SessionServers,
    extensions: &Extensions,
    spec: &SessionSpec,
    processes: &Arc<ProcessOwner>,
) -> Hooks {
    let replayed = spec.model.as_ref().and_then(|it| it.replay.as_ref());
    if replayed.is_some_and(|it| !it.hooks) {
        return Hooks::new(Vec::new(), HookPorts::default());
    }
    let (definitions, ports) = hook_parts(premises, servers.manager(), processes);
    Hooks::new(definitions, ports).and(extensions.hooks()).and(spec.hooks.clone())
}

/// The hooks of the current settings, and the services hooks need.
pub(crate) fn hook_parts(
    premises: &SessionEnvironment,
    manager: &McpManager,
    processes: &Arc<ProcessOwner>,
) -> (Vec<HookDefinition>, HookPorts) {
    let loaded = premises.loaded();
    let settings = &loaded.settings;
    let set = settings.env.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect();
    let environment = HookEnvironment {
        inherited: Some(premises.variables.clone()),
        project_dir: premises.store.places().project.clone(),
        set,
        ..HookEnvironment::default()
    };
    let observer: Arc<dyn HookObserver> = Arc::new(HookEventEmitter::new(premises.events.clone()));
    let ports = HookPorts {
        environment,
        processes: Arc::clone(processes),
        http: settings.http_hooks.clone(),
        observer: Some(observer),
        external: Some(Arc::new(HookTools { manager: manager.downgrade() })),
        user_settings: premises.store.places().state.as_ref().map(|state| state.join("settings.json")),
        strict_commands: premises.flag_setting("strictHooks").unwrap_or_default(),
        ..HookPorts::default()
    };
    (settings.hooks.clone(), ports)
}
