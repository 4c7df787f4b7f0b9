//! A session out of flags.

use std::{
    collections::{HashSet, VecDeque},
    os::unix::fs::MetadataExt as _,
    sync::Arc,
    time::Instant,
};

use haft_agent::Agent;
use haft_agent::LateInput;
use haft_hooks::SessionSource;
use haft_mcp_client::ServerConfig;
use haft_runtime::Ask;
use haft_sdk::{
    AskHost, Bill, ElicitFromHost, Frames, HookFrames, Host, HostServers, NobodyToAsk, Partial, Told,
    server_configs,
};
use haft_types::PermissionMode;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::{
    ask_tool::AskTool,
    driver::Driver,
    extensions::Extensions,
    lines::{Writer, read_lines},
    observe::Observer,
    states::{Bypass, Checkpoints, Commands, LeftForLater, Seen, StateFrames},
    tasks::Background,
    turn::Servers,
    usage::Snapshot,
};
use crate::{
    args::{Options, RunArgs},
    output::Failure,
    telemetry,
    wiring::{Built, Logs, Readers, Setup, Signals},
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
    refuse_root(run, &options)?;
    let mut run = run.clone();
    run.tools = run.tools.filter(|list| list != "default");
    run.resume = run.resume.filter(|id| !id.is_empty());
    let mut setup = Setup::new(&options)?;
    setup.logs = Logs::OfSdks;
    setup.signals = Signals::Handled;
    let (host, asked) = Host::new();
    let told = if run.sdk.include_hook_events { Told::All } else { Told::Start };
    let hook_frames = HookFrames::new(host.clone(), told);
    setup.hook_observer = Some(hook_frames.clone());
    let servers = HostServers::new(host.clone());
    let mut configured = configured_servers(&run, &servers)?;
    if !run.sdk.strict_mcp_config {
        configured.extend(setup.servers_beside(&configured)?);
    }
    let asker = AskHost::new(host.clone());
    setup.asker = Some(who_is_asked(&run, &setup, &asker));
    setup.person = Some(Arc::new(ElicitFromHost::new(host.clone())));
    let extensions = Extensions::load(&setup, &run);
    configured.extend(extensions.servers(&servers));
    let built = setup.agent(&run).map_err(|failure| refused(&run, failure))?;
    let readers = setup.readers()?;
    let around = Around { host, asked, asker, servers, configured, hook_frames, extensions, readers };
    let mut driver = driver(&run, setup, built, around);
    driver.install_skills();
    driver.be_agent(&Value::Null);
    Ok(driver)
}

/// Who answers permission questions.
fn who_is_asked(run: &RunArgs, setup: &Setup, host: &AskHost) -> Arc<dyn Ask> {
    let nobody_answers = run.sdk.permission_prompts.as_deref() == Some("none");
    match run.sdk.permission_prompt_tool.as_deref().filter(|_| !nobody_answers) {
        Some("stdio") => Arc::new(host.clone()),
        Some(tool) => Arc::new(AskTool { manager: setup.manager().clone(), name: tool.to_owned() }),
        None => Arc::new(NobodyToAsk),
    }
}

/// Everybody beside the agent.
struct Around {
    host: Host,
    asked: mpsc::UnboundedReceiver<Value>,
    asker: AskHost,
    servers: HostServers,
    configured: Vec<ServerConfig>,
    hook_frames: Arc<HookFrames>,
    extensions: Extensions,
    readers: Readers,
}

fn driver(run: &RunArgs, setup: Setup, built: Built, around: Around) -> Driver {
    let Around { host, asked, asker, servers, configured, hook_frames, extensions, readers } = around;
    let mut agent = built.agent;
    agent.settings.late_input = LateInput::NextPrompt;
    let left_for_later = match agent.left_for_later().is_empty() {
        true => LeftForLater::Nothing,
        false => LeftForLater::Waiting,
    };
    let stamp = stamp(&setup);
    agent.conversation.stamp(stamp.clone());
    let manager = setup.manager().clone();
    let pipeline = Arc::clone(&agent.tools.pipeline);
    let hooks = pipeline.gate.hooks();
    hooks.set(hooks.get().and(extensions.hooks()));
    let own_hooks = hooks.get();
    Driver {
        frames: Frames { session_id: setup.session_id.clone() },
        first_model: agent.settings.model.clone(),
        told_mode: pipeline.gate.mode(),
        own_hooks,
        hook_frames,
        inbox: agent.inbox.clone(),
        orders: agent.orders.clone(),
        cwd: setup.cwd.display().to_string(),
        output_style: output_style(&setup),
        bypass: bypass(run, &setup),
        key_source: built.key_source,
        bill: bill(&agent),
        snapshot: Snapshot::of(&agent),
        agent: Some(Box::new(agent)),
        events: built.events,
        observer: Observer::new(
            telemetry::Settings::from_env(&|name| setup.variable(name, run)),
            built.provider_name,
        ),
        partial: run.sdk.include_partial_messages.then(Partial::default),
        replay: run.sdk.replay_user_messages,
        state_frames: StateFrames::from_env(),
        out: Writer::start(),
        lines: read_lines(),
        pipeline,
        host,
        asked,
        asker,
        questions: HashSet::new(),
        main_agent: run.sdk.agent.clone(),
        model_is_named: run.model.is_some(),
        servers,
        manager,
        configured,
        begun: false,
        queue: VecDeque::new(),
        running: None,
        later: Vec::new(),
        extensions,
        background: Background::new(setup.tasks().cloned()),
        readers,
        plugin_dirs: [&run.sdk.plugin_dir[..], &run.sdk.plugin_dir_no_mcp].concat(),
        agents: Vec::new(),
        wanted_skills: None,
        commands: if run.sdk.disable_slash_commands { Commands::Off } else { Commands::On },
        begins: Some(begins(run)),
        stamp,
        checkpoints: match is_set("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING") {
            true => Checkpoints::On,
            false => Checkpoints::Off,
        },
        server_tools: Servers::First,
        left_for_later,
        introduction: None,
        seen: Seen::default(),
        results: 0,
        last_failed: false,
        api_ms: 0,
        begun_at: Instant::now(),
        setup,
    }
}

/// Whether a variable is there and does not say no.
pub(super) fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|it| !matches!(it.as_str(), "" | "0" | "false"))
}

fn begins(run: &RunArgs) -> SessionSource {
    match (run.resume.is_some() || run.continue_, run.fork_session) {
        (false, _) => SessionSource::Startup,
        (true, false) => SessionSource::Resume,
        (true, true) => SessionSource::Fork,
    }
}

/// Root who never asks breaks whole machines; where that does not matter,
/// somebody says so.
fn refuse_root(run: &RunArgs, options: &Options) -> Result<(), Failure> {
    let wants = options.permission_mode == Some(PermissionMode::BypassPermissions)
        || run.sdk.dangerously_skip_permissions
        || run.sdk.allow_dangerously_skip_permissions;
    let is_root = || std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0);
    if wants && is_root() && !is_set("IS_SANDBOX") {
        let why = "--dangerously-skip-permissions and the mode bypassPermissions cannot be used with root/sudo \
                   privileges; set IS_SANDBOX=1 where nothing can be lost";
        return Err(Failure::Message(why.to_owned()));
    }
    Ok(())
}

fn bypass(run: &RunArgs, setup: &Setup) -> Bypass {
    let launched = run.sdk.dangerously_skip_permissions
        || run.sdk.allow_dangerously_skip_permissions
        || setup.options.permission_mode == Some(PermissionMode::BypassPermissions);
    match (setup.loaded.settings.permissions.disable_bypass_permissions_mode, launched) {
        (true, _) => Bypass::Forbidden,
        (false, true) => Bypass::Launched,
        (false, false) => Bypass::NotLaunched,
    }
}

/// What an earlier process used counts for the model that goes on.
fn bill(agent: &Agent) -> Bill {
    let spent = agent.spending();
    let mut bill = Bill { usd: spent.usd, ..Bill::default() };
    if 0 < spent.usage.output_tokens {
        bill.add(&agent.settings.model, spent.usage);
    }
    bill
}

/// What readers of logs want to know about every line.
fn stamp(setup: &Setup) -> Map<String, Value> {
    let entrypoint = std::env::var("CLAUDE_CODE_ENTRYPOINT").unwrap_or_else(|_| String::from("sdk-cli"));
    let fields = json!({"userType": "external", "entrypoint": entrypoint, "gitBranch": git_branch(setup)});
    fields.as_object().cloned().unwrap_or_default()
}

/// The branch that is checked out, without asking git: one small file says it.
fn git_branch(setup: &Setup) -> String {
    let head = setup.cwd.ancestors().find_map(|dir| std::fs::read_to_string(dir.join(".git/HEAD")).ok());
    let branch = head.as_deref().and_then(|it| it.trim().strip_prefix("ref: refs/heads/"));
    branch.map_or_else(|| String::from("HEAD"), str::to_owned)
}

/// A session that cannot begin is told as a result, a flag that makes no sense
/// as a line.
fn refused(run: &RunArgs, failure: Failure) -> Refused {
    let of_flags = ["is already in use.", "--resume-drops-turn requires"];
    match failure {
        Failure::Message(text) if of_flags.iter().any(|it| text.contains(it)) => {
            Refused::Flags(Failure::Message(text))
        }
        failure => Refused::Session { id: wanted(run), failure },
    }
}

fn wanted(run: &RunArgs) -> String {
    let named = run.session_id.map(|id| id.to_string()).or_else(|| run.resume.clone());
    named.unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
}

pub(super) fn output_style(setup: &Setup) -> String {
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
