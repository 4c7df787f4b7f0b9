//! `haft --input-format stream-json`: the executable that the Agent SDKs start.

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use haft_console::{
    GlobalArgs,
    interrupt::is_ignored,
    stdout::{CliError, print_line, write_error},
};
use haft_sdk_server::{
    ClientMcpServers, EndSignal, FrameOptions, HostInput, LaunchFields, LaunchRequest, NoSdkApprover,
    Projection, SdkClient, SdkServer, StateFrames, bounded_line, fail, failed_start,
};
use haft_session::{ApproverSpec, DenialText, EventSender, LogDestination, OpenError, Session, SessionSpec};
use haft_types::{EnvVars, PermissionMode};
use serde_json::{Map, Value};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::{args::RunArgs, run::session_spec};

/// How long model requests wait for MCP servers that are starting. The host's in-process servers
/// answer only once they are asked.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a session for the SDK host and returns its exit code.
pub(crate) fn run(run: &RunArgs, options: &GlobalArgs) -> ExitCode {
    let runtime = match session_spec::session_runtime() {
        Ok(runtime) => runtime,
        Err(failure) => return failed(&failure),
    };
    let (run, options) = (run.clone(), options.clone());
    let code = session_spec::run_with_session(&runtime, async move {
        let mut spec = match session_spec::of_run(&run, &options) {
            Ok(spec) => spec,
            Err(failure) => return failed(&failure),
        };
        if spec.permissions.mode == Some(PermissionMode::BypassPermissions)
            && let Err(failure) = session_spec::check_not_root(&spec)
        {
            return failed(&failure);
        }
        let mut input = HostInput::start();
        let launch = if run.await_initialize { input.launch_request().await } else { None };
        if let Some(launch) = &launch
            && let Err(failure) = apply_launch(&mut spec, &launch.fields)
        {
            return refused(Some(launch), &failure);
        }
        serve(spec, &run, launch, input).await
    });
    // Do not wait for blocking tasks, for example a pending read of standard input.
    runtime.shutdown_background();
    code
}

/// Applies the options of the host's `initialize` request to the session spec before the session opens:
/// settings, managed settings, denied tools, MCP servers.
fn apply_launch(spec: &mut SessionSpec, fields: &LaunchFields) -> Result<(), CliError> {
    let cwd = spec.place.cwd.clone();
    let settings = &mut spec.settings;
    if let Some(more) = fields.settings() {
        settings.flags = Some(joined("--settings", settings.flags.as_deref(), &cwd, more)?);
    }
    if let Some(more) = fields.managed_settings() {
        settings.managed = Some(joined("--managed-settings", settings.managed.as_deref(), &cwd, more)?);
    }
    spec.permissions.deny.extend(fields.disallowed_tools());
    spec.servers
        .offered
        .extend(fields.mcp_servers().into_iter().flatten().map(|(name, it)| (name.clone(), it.clone())));
    Ok(())
}

/// Merges settings from a flag (JSON text or a file path relative to `cwd`) with those of the host's
/// first request. Lists are concatenated; for other values the request wins.
fn joined(
    flag: &str,
    given: Option<&str>,
    cwd: &Path,
    more: &Map<String, Value>,
) -> Result<String, CliError> {
    let mut all = Map::new();
    if let Some(given) = given {
        let text = if given.trim_start().starts_with('{') {
            given.to_owned()
        } else {
            std::fs::read_to_string(cwd.join(given)).map_err(|err| format!("{flag}: {given}: {err}"))?
        };
        all = serde_json::from_str(&text).map_err(|err| format!("{flag} is not a JSON object: {err}"))?;
    }
    join(&mut all, more);
    Ok(Value::Object(all).to_string())
}

fn join(into: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(more)) => join(into, more),
            (Some(Value::Array(into)), Value::Array(more)) => into.extend(more.iter().cloned()),
            _ => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

async fn serve(
    mut spec: SessionSpec,
    run: &RunArgs,
    launch: Option<LaunchRequest>,
    input: HostInput,
) -> ExitCode {
    let (events, stream) = EventSender::channel();
    let host = SdkClient::new(events.clone());
    let variables = spec.place.variables.clone();
    let limit = variables.text("MCP_TOOL_TIMEOUT").and_then(|it| it.trim().parse().ok());
    let limit = limit.filter(|it| 0 < *it).map(Duration::from_millis);
    let servers = ClientMcpServers::new(host.clone(), limit);
    let hosted = servers.clone();
    spec.servers.hosted = Some(Arc::new(move |name: &str| hosted.config(name)));
    spec.servers.patience.get_or_insert(SERVER_TIMEOUT);
    if spec.log.kept == LogDestination::Own {
        spec.log.kept = LogDestination::OfSdks;
    }
    spec.log.entrypoint = Some(String::from("sdk-cli"));
    spec.face_answers.elicitation = true;
    spec.progress = true;
    spec.checkpoints = variables.is_on("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING");
    if matches!(spec.asking, ApproverSpec::Nobody) {
        spec.asking = who_is_asked(run);
    }
    let told = FrameOptions {
        partial: run.output.include_partial_messages,
        replay: run.output.replay_user_messages,
        hooks: run.output.include_hook_events,
        state: state_frames(&variables),
    };
    let wanted = wanted_id(run);
    let handle = match Session::open_on(spec, events) {
        Ok(handle) => handle,
        Err(OpenError::Spec(problem)) => return refused(launch.as_ref(), &CliError::Message(problem)),
        // The SDKs show the text of this frame as their error.
        Err(err) => {
            print_line(&bounded_line(&failed_start(&wanted, &err.to_string()))).ok();
            return ExitCode::FAILURE;
        }
    };
    let Some(signals) = signals() else {
        return failed(&CliError::Message(String::from("signals cannot be received")));
    };
    let projection = Projection::new(handle.id().clone(), told);
    let launched = launch.map(|it| it.fields).unwrap_or_default();
    let face = SdkServer::new(handle, stream, projection, host, servers, write_error).launched_with(launched);
    ExitCode::from(face.run(input, signals).await)
}

/// Which approver answers permission prompts.
fn who_is_asked(run: &RunArgs) -> ApproverSpec {
    let nobody_answers = run.permissions.permission_prompts.as_deref() == Some("none");
    match run.permissions.permission_prompt_tool.as_deref() {
        Some("stdio") if !nobody_answers => ApproverSpec::Face(DenialText::Verbatim),
        _ => ApproverSpec::Port(Arc::new(NoSdkApprover)),
    }
}

fn state_frames(variables: &EnvVars) -> StateFrames {
    if variables.is_on("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") {
        StateFrames::Open
    } else if variables.is_on("CLAUDE_CODE_SDK_READS_SESSION_STATE") {
        StateFrames::HostOnly
    } else {
        StateFrames::None
    }
}

fn signals() -> Option<mpsc::UnboundedReceiver<EndSignal>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for (kind, meaning) in
        [(SignalKind::terminate(), EndSignal::Terminate), (SignalKind::interrupt(), EndSignal::Interrupt)]
    {
        if is_ignored(kind) {
            continue;
        }
        let (mut signal, sender) = (signal(kind).ok()?, sender.clone());
        tokio::spawn(async move { while signal.recv().await.is_some() && sender.send(meaning).is_ok() {} });
    }
    Some(receiver)
}

/// The session id to report when the session cannot be opened: the requested one or a new one.
fn wanted_id(run: &RunArgs) -> String {
    let named = run.session.session_id.map(|id| id.to_string()).or_else(|| run.session.resume.clone());
    named.unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
}

/// Reports to the host that the session cannot be opened, as the response to its request if it waits for
/// one.
fn refused(launch: Option<&LaunchRequest>, failure: &CliError) -> ExitCode {
    if let (Some(launch), CliError::Message(problem)) = (launch, failure) {
        print_line(&bounded_line(&fail(&launch.request_id, problem))).ok();
    }
    failed(failure)
}

fn failed(failure: &CliError) -> ExitCode {
    if let CliError::Message(problem) = failure {
        write_error(&format!("Error: {problem}"));
    }
    ExitCode::FAILURE
}
