//! Turns flags into a session spec. Every command that opens a session builds the spec here.

use std::{os::unix::fs::MetadataExt as _, path::PathBuf, sync::Arc, time::Duration};

use haft_agent::RunLimits;
use haft_console::{
    GlobalArgs,
    stdout::{CliError, print_error},
};
use haft_session::{
    ApproverSpec, EventSender, HostAgent, LocationSpec, LogDestination, LogStart, ModelSpec, PluginDir,
    ProviderSpec, SessionEnvironment, SessionEvent, SessionEventKind, SessionLogs, SessionServers,
    SessionSpec, setting_sources, split_rules,
};
use haft_types::{EnvVars, PermissionMode};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::{
    args::{ProviderName, RunArgs},
    commands::sessions::resolve_session,
    run::{ide_bridge, thread_limit},
};

/// Builds the async runtime with several threads. Fails if the system allows too few threads.
pub(crate) fn runtime() -> Result<Runtime, CliError> {
    runtime_with(2)
}

/// Builds the runtime of a process that serves one session: one worker thread. A second one would be
/// woken for each piece of an answer, find nothing to do and sleep again, which costs more CPU time than
/// the turn. Blocking and CPU-bound work runs on threads of its own.
pub(crate) fn session_runtime() -> Result<Runtime, CliError> {
    runtime_with(1)
}

fn runtime_with(threads: usize) -> Result<Runtime, CliError> {
    thread_limit::check_threads()?;
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    built.map_err(|err| CliError::Message(format!("the runtime could not be started: {err}")))
}

/// Runs a frontend to completion as a task on the runtime's worker thread and returns its result. Being
/// on the session's thread avoids waking another thread for each event. Blocks; propagates a panic of
/// the task.
pub(crate) fn run_with_session<T: Send + 'static>(
    runtime: &Runtime,
    face: impl Future<Output = T> + Send + 'static,
) -> T {
    let ended = runtime.block_on(async { tokio::spawn(face).await });
    // Nothing aborts the task, so a join error is a panic.
    ended.unwrap_or_else(|err| std::panic::resume_unwind(err.into_panic()))
}

/// Spec of a session from the global flags only (no model).
pub(crate) fn of_options(options: &GlobalArgs) -> Result<SessionSpec, CliError> {
    let mut spec = SessionSpec::new(place(options)?);
    spec.hosts.named.clone_from(&options.host);
    spec.settings.flags.clone_from(&options.settings);
    spec.settings.managed.clone_from(&options.managed_settings);
    spec.settings.sources = options.setting_sources.as_deref().map(setting_sources).transpose()?;
    spec.permissions.mode = options.permission_mode;
    spec.permissions.allow.clone_from(&options.allowed_tools);
    spec.permissions.deny.clone_from(&options.disallowed_tools);
    Ok(spec)
}

/// Spec of a session with a model, from the flags of a run.
pub(crate) fn of_run(run: &RunArgs, options: &GlobalArgs) -> Result<SessionSpec, CliError> {
    let mut options = options.clone();
    if run.permissions.dangerously_skip_permissions && options.permission_mode.is_none() {
        options.permission_mode = Some(PermissionMode::BypassPermissions);
    }
    let mut spec = of_options(&options)?;
    spec.permissions.may_bypass =
        run.permissions.dangerously_skip_permissions || run.permissions.allow_dangerously_skip_permissions;
    if spec.permissions.may_bypass {
        check_not_root(&spec)?;
    }
    if run.output.brief {
        spec.tools.at_hand.push(String::from("SendUserMessage"));
    }
    let tools = run.permissions.tools.as_ref().filter(|list| *list != &["default"]);
    spec.tools.only = tools.map(|list| split_rules(list));
    let is_bare = run.permissions.bare || spec.place.variables.is_on("CLAUDE_CODE_SIMPLE");
    if is_bare && spec.tools.only.is_none() {
        spec.tools.only = Some(SIMPLE_TOOLS.map(str::to_owned).to_vec());
    }
    spec.model = Some(model(run)?);
    spec.log.id = run.session.session_id.map(|id| id.to_string().into());
    spec.log.start = match (run.session.resume.as_ref().filter(|id| !id.is_empty()), run.session.continue_) {
        (Some(id), _) => LogStart::Session(resumed(id, &spec)),
        (None, true) => LogStart::Newest,
        (None, false) => LogStart::New,
    };
    spec.log.fork = run.session.fork_session;
    spec.log.until.clone_from(&run.session.resume_session_at);
    spec.log.drops_turn.clone_from(&run.session.resume_drops_turn);
    spec.log.mirror = run.output.session_mirror;
    if run.session.no_session_persistence {
        spec.log.kept = LogDestination::Nowhere;
    }
    spec.servers.configs.clone_from(&run.extensions.mcp_config);
    if !is_bare && !run.extensions.strict_mcp_config {
        add_editor(&mut spec, run.session.ide);
    }
    spec.servers.only_those = run.extensions.strict_mcp_config;
    spec.servers.patience = run.extensions.mcp_wait.map(Duration::from_secs);
    let dirs = run.extensions.plugin_dir.iter().map(|dir| (dir, true));
    let dirs = dirs.chain(run.extensions.plugin_dir_no_mcp.iter().map(|dir| (dir, false)));
    spec.extensions.plugins =
        dirs.map(|(path, with_servers)| PluginDir { path: path.clone(), with_servers }).collect();
    spec.extensions.agents =
        run.extensions.agents.as_deref().map(agents_of_flag).transpose()?.unwrap_or_default();
    spec.extensions.slash_commands = !run.output.disable_slash_commands;
    if let Some(tool) = run.permissions.permission_prompt_tool.as_ref().filter(|it| *it != "stdio")
        && run.permissions.permission_prompts.as_deref() != Some("none")
    {
        spec.asking = ApproverSpec::Tool(tool.clone());
    }
    Ok(spec)
}

/// Adds the MCP server of the editor that has the directory open, if one is wanted.
fn add_editor(spec: &mut SessionSpec, asked: bool) {
    let LocationSpec { cwd, variables, .. } = &spec.place;
    if !ide_bridge::is_wanted(asked, variables) {
        return;
    }
    let found = ide_bridge::editor_server(cwd, variables);
    if found.is_none() && asked {
        print_error("no editor with the plugin has this directory open; going on without it");
    }
    spec.servers.editor = found.is_some().then(|| ide_bridge::NAME.to_owned());
    spec.servers.configs.extend(found.map(|it| it.to_string()));
}

/// The only built-in tools with `--bare`.
const SIMPLE_TOOLS: [&str; 3] = ["Bash", "Read", "Edit"];

/// Resolves an id prefix or a title to a full session id. An unknown name is returned unchanged, so that
/// opening the session fails with the error SDK hosts expect.
fn resumed(named: &str, spec: &SessionSpec) -> String {
    if named.parse::<uuid::Uuid>().is_ok() {
        return named.to_owned();
    }
    let logs = SessionLogs::new(&spec.place, &LogDestination::Own);
    resolve_session(&logs, Some(named)).unwrap_or_else(|_| named.to_owned())
}

fn model(run: &RunArgs) -> Result<ModelSpec, CliError> {
    let output_schema: Option<Value> = match &run.output.json_schema {
        None => None,
        Some(schema) => {
            Some(serde_json::from_str(schema).map_err(|err| format!("--json-schema is not JSON: {err}"))?)
        }
    };
    let from_file = match &run.output.system_prompt_file {
        None => None,
        Some(path) => {
            Some(std::fs::read_to_string(path).map_err(|err| format!("{}: {err}", path.display()))?)
        }
    };
    let mut overrides = run.model.provider.map(variables_of).unwrap_or_default();
    if let Some(url) = &run.model.base_url {
        overrides.extend(BASE_URLS.map(|name| (name.to_owned(), url.clone())));
    }
    let betas = run.model.betas.iter().flat_map(|list| split_rules(std::slice::from_ref(list)));
    Ok(ModelSpec {
        provider: ProviderSpec::FromVariables { overrides },
        between: None,
        model: run.model.model.clone(),
        fallback: run.model.fallback_model.clone(),
        limits: RunLimits {
            max_turns: run.limits.max_turns,
            max_usd: run.limits.max_budget_usd,
            ..RunLimits::default()
        },
        thinking: run.model.thinking(),
        thinking_display: run.model.thinking_display.map(Into::into),
        effort: run.model.effort.map(Into::into),
        task_budget: run.model.task_budget,
        betas: betas.collect(),
        system_prompt: run.output.system_prompt.clone().or(from_file),
        append_system_prompt: appended(run),
        output_schema,
        agent: run.session.agent.clone(),
        record: run.record.clone(),
        replay: None,
    })
}

/// Text to append to the system prompt, from the flags.
fn appended(run: &RunArgs) -> Option<String> {
    let brief = run.output.brief.then(|| String::from(BRIEF));
    let parts: Vec<String> = run.output.append_system_prompt.clone().into_iter().chain(brief).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Appended to the system prompt with `--brief`.
const BRIEF: &str = "The user reads only what you send with SendUserMessage, and your last answer. Send what they \
                     should know when it is so: what you are about to do if it takes long, what you found, what \
                     went wrong. Keep it short, and do not repeat it in your last answer.";

/// The directories of the session: working directory, additional directories, program path.
fn place(options: &GlobalArgs) -> Result<LocationSpec, CliError> {
    let here = std::env::current_dir().map_err(|err| format!("the working directory is gone: {err}"))?;
    let cwd = match &options.cwd {
        None => here,
        Some(wanted) => {
            let cwd =
                here.join(wanted).canonicalize().map_err(|err| format!("{}: {err}", wanted.display()))?;
            if !cwd.is_dir() {
                return Err(CliError::Message(format!("{} is not a directory", cwd.display())));
            }
            cwd
        }
    };
    // Stays valid when the program's file is replaced by an update while it runs.
    let program = PathBuf::from("/proc/self/exe");
    let program = if program.exists() { Some(program) } else { std::env::current_exe().ok() };
    let variables = EnvVars::of_process();
    Ok(LocationSpec {
        cwd,
        variables,
        secret_names: Vec::new(),
        state_dir: None,
        extra_dirs: options.add_dir.clone(),
        program,
    })
}

/// Fails if the user is root and permission prompts are off, unless the environment declares a sandbox
/// (`IS_SANDBOX`).
pub(crate) fn check_not_root(spec: &SessionSpec) -> Result<(), CliError> {
    let is_root = || std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0);
    if is_root() && !spec.place.variables.is_on("IS_SANDBOX") {
        let why = "--dangerously-skip-permissions and the mode bypassPermissions cannot be used with root/sudo \
                   privileges; set IS_SANDBOX=1 where nothing can be lost";
        return Err(CliError::Message(why.to_owned()));
    }
    Ok(())
}

/// Reads directories, settings and rules for a command that opens no session. Warnings are printed to
/// standard error.
pub(crate) fn premises(options: &GlobalArgs) -> Result<Arc<SessionEnvironment>, CliError> {
    let spec = of_options(options)?;
    let id = uuid::Uuid::new_v4().to_string().into();
    Ok(Arc::new(SessionEnvironment::read(&spec, id, stderr_events())?))
}

/// The store of session logs for this directory.
pub(crate) fn logs(options: &GlobalArgs) -> Result<SessionLogs, CliError> {
    Ok(SessionLogs::new(&of_options(options)?.place, &LogDestination::Own))
}

/// The MCP servers of the settings and flags; none is started.
pub(crate) fn servers(premises: &Arc<SessionEnvironment>) -> Result<SessionServers, CliError> {
    Ok(SessionServers::new(Arc::clone(premises), haft_session::ServerSpec::default(), Arc::default())?)
}

/// An event sender that prints warnings and notices to standard error.
pub(crate) fn stderr_events() -> EventSender {
    EventSender::to(|event: SessionEvent| {
        if let SessionEventKind::Notice(text) = &event.what {
            print_error(text);
        }
    })
}

/// Environment variables that set a provider's base URL.
const BASE_URLS: [&str; 8] = [
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "ANTHROPIC_FOUNDRY_BASE_URL",
    "OPENAI_BASE_URL",
    "GEMINI_BASE_URL",
    "OPENROUTER_BASE_URL",
    "HAFT_LOCAL_URL",
];

/// The environment variables that `--provider` stands for. They switch off all other providers, so that
/// a key of another one in the environment does not change the choice.
fn variables_of(provider: ProviderName) -> Vec<(String, String)> {
    let on = match provider {
        ProviderName::Anthropic => "HAFT_USE_ANTHROPIC",
        ProviderName::Bedrock => "HAFT_USE_BEDROCK",
        ProviderName::Vertex => "HAFT_USE_VERTEX",
        ProviderName::Foundry => "HAFT_USE_FOUNDRY",
        ProviderName::Openai | ProviderName::OpenaiResponses => "HAFT_USE_OPENAI",
        ProviderName::Gemini => "HAFT_USE_GEMINI",
        ProviderName::Openrouter => "HAFT_USE_OPENROUTER",
        ProviderName::Ollama | ProviderName::Lmstudio | ProviderName::Vllm | ProviderName::Llamacpp => "",
    };
    let all = [
        "HAFT_USE_ANTHROPIC",
        "HAFT_USE_BEDROCK",
        "HAFT_USE_VERTEX",
        "HAFT_USE_FOUNDRY",
        "HAFT_USE_OPENAI",
        "HAFT_USE_GEMINI",
        "HAFT_USE_OPENROUTER",
    ];
    let mut set: Vec<(&str, &str)> =
        all.map(|name| (name, if name == on { "1" } else { "0" })).into_iter().collect();
    let local = match provider {
        ProviderName::Ollama => "ollama",
        ProviderName::Lmstudio => "lmstudio",
        ProviderName::Vllm => "vllm",
        ProviderName::Llamacpp => "llamacpp",
        _ => "",
    };
    set.push(("HAFT_LOCAL", local));
    if provider == ProviderName::OpenaiResponses {
        set.push(("HAFT_OPENAI_FORM", "responses"));
    }
    set.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Parses the agents of `--agents` (a JSON object).
fn agents_of_flag(json: &str) -> Result<Vec<(String, HostAgent)>, CliError> {
    let wrong = |why: &str| CliError::Message(format!("--agents: {why}"));
    let value: serde_json::Value = serde_json::from_str(json).map_err(|err| wrong(&err.to_string()))?;
    let serde_json::Value::Object(agents) = value else {
        return Err(wrong("it is no JSON object of agents by name"));
    };
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let agent = |(name, definition): (String, serde_json::Value)| {
        let (description, prompt) = (text(&definition["description"]), text(&definition["prompt"]));
        if description.is_empty() {
            Err(wrong(&format!("the agent {name} has no description")))
        } else {
            Ok((name, HostAgent { description, prompt, definition, ..HostAgent::default() }))
        }
    };
    agents.into_iter().map(agent).collect()
}
