//! `haft tool list | describe | call | run`: lists the tools and calls them without a model.

mod listing;

use std::{io::Read as _, process::ExitCode};

use haft_agent::AgentEvent;
use haft_console::{
    GlobalArgs,
    interrupt::Interrupt,
    live_tail::LiveTail,
    prompts::{answerer::ConsoleAnswerer, permission},
    stdout::{CliError, CommandExit, print_bytes, print_error, print_line, write_error},
    style,
};
use haft_session::{
    AnswerableQuestions, ApproverSpec, DenialText, EventStream, ServerStart, Session, SessionEventKind,
    SessionHandle, SessionSpec, needs_servers,
};
use haft_tool::{DynTool, ErrorKind, Rendered};
use haft_tool_runtime::{CallReport, Pool};
use haft_types::{ToolUse, nearest, text};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_util::sync::CancellationToken;

use self::listing::Look;
use crate::{
    args::{ToolCommand, ToolServerArgs},
    run::session_spec,
};

pub(crate) fn run(command: ToolCommand, options: &GlobalArgs) -> CommandExit {
    match command {
        ToolCommand::List => list(options),
        ToolCommand::Describe { name } => describe(&name, options),
        ToolCommand::Call { name, input, read_first, servers } => {
            let input = read_input(&input)?;
            session_spec::runtime()?.block_on(call(name, input, read_first, &servers, options))
        }
        ToolCommand::Run { servers } => session_spec::runtime()?.block_on(run_lines(&servers, options)),
    }
}

/// Whether to include the tools of MCP servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WithServers {
    IfAny,
    No,
}

/// The tools for listing only; they cannot be called.
fn pool(options: &GlobalArgs, wanted: WithServers) -> Result<Pool, CliError> {
    let premises = session_spec::premises(options)?;
    if wanted == WithServers::No {
        return Ok(premises.pool()?);
    }
    let servers = session_spec::servers(&premises)?;
    if servers.found().declared.is_empty() && servers.waiting().is_empty() {
        return Ok(premises.pool()?);
    }
    Ok(session_spec::runtime()?.block_on(premises.pool_with(&servers))?)
}

fn list(options: &GlobalArgs) -> CommandExit {
    let pool = pool(options, WithServers::IfAny)?;
    if options.json {
        let tools: Vec<Value> = pool.tools().map(|(name, tool)| described(name, tool.as_ref())).collect();
        print_line(&Value::from(tools).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let widest = pool.names().map(|name| name.chars().count()).max().unwrap_or(0);
    let (mut out, colours) = (String::new(), style::colours());
    for (name, tool) in pool.tools() {
        let name = style::painted(&format!("{name:<widest$}"), "1", colours);
        out.push_str(&format!("{name}  {}\n", first_sentence(&tool.description())));
    }
    print_bytes(out.as_bytes())
}

/// The first sentence of a description on one line.
fn first_sentence(description: &str) -> String {
    let flat = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = flat.find(". ").map_or(flat.len(), |end| end + 1);
    text::one_line(&flat[..end], 100)
}

fn described(name: &str, tool: &dyn DynTool) -> Value {
    let spec = tool.spec();
    let mut json = json!({
        "name": name,
        "description": spec.description,
        "input_schema": spec.input_schema,
        "aliases": tool.aliases(),
    });
    if let Some(schema) = tool.output_schema() {
        json["output_schema"] = schema;
    }
    json
}

fn describe(name: &str, options: &GlobalArgs) -> CommandExit {
    let wanted = if needs_servers(name) { WithServers::IfAny } else { WithServers::No };
    let pool = pool(options, wanted)?;
    let Some(tool) = pool.get(name) else {
        let meant = nearest(name, pool.names(), 3);
        let hint =
            if meant.is_empty() { String::new() } else { format!("; did you mean {}?", meant.join(" or ")) };
        return Err(CliError::Message(format!("there is no tool named {name}{hint}")));
    };
    if options.json {
        print_line(&described(tool.name(), tool.as_ref()).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    print_bytes(description_for_people(tool.as_ref()).as_bytes())
}

fn description_for_people(tool: &dyn DynTool) -> String {
    let (spec, colours) = (tool.spec(), style::colours());
    let mut out = style::painted(&spec.name, "1", colours);
    let aliases = tool.aliases();
    if !aliases.is_empty() {
        out.push_str(&style::painted(&format!("  also {}", aliases.join(", ")), "2", colours));
    }
    out.push_str(&format!("\n\n{}\n", spec.description));
    let required: Vec<&str> =
        spec.input_schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (idx, (name, schema)) in spec.input_schema["properties"].as_object().into_iter().flatten().enumerate()
    {
        if idx == 0 {
            out.push('\n');
        }
        let kind = schema["type"].as_str().unwrap_or("value");
        let need = if required.contains(&name.as_str()) { "required" } else { "optional" };
        let about = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
        out.push_str(&format!(
            "  {}  {}\n",
            style::painted(name, "36", colours),
            style::painted(&format!("{kind}, {need}"), "2", colours)
        ));
        if !about.is_empty() {
            out.push_str(&format!("      {about}\n"));
        }
    }
    out.push_str(&format!(
        "\nExample: haft tool call {} '{}'\n",
        spec.name,
        haft_tool::example(&spec.input_schema)
    ));
    out
}

/// Parses input given as JSON text, as `@file`, or as `-` for standard input. Reads the file or standard
/// input to its end.
pub(crate) fn read_input(text: &str) -> Result<Value, CliError> {
    let (source, text) = match text.strip_prefix('@') {
        Some(path) => {
            let read = std::fs::read_to_string(path).map_err(|err| format!("{path}: {err}"))?;
            (path.to_owned(), read)
        }
        None if text == "-" => {
            let mut read = String::new();
            std::io::stdin().read_to_string(&mut read)?;
            (String::from("standard input"), read)
        }
        None => (String::from("the input"), text.to_owned()),
    };
    serde_json::from_str(&text).map_err(|err| CliError::Message(format!("{source} is not JSON: {err}")))
}

/// Spec of a session without a model that only runs tool calls.
fn call_spec(servers: &ToolServerArgs, options: &GlobalArgs) -> Result<SessionSpec, CliError> {
    let mut spec = session_spec::of_options(options)?;
    spec.servers.start = ServerStart::OnDemand;
    spec.servers.configs.clone_from(&servers.mcp_config);
    spec.servers.only_those = servers.strict_mcp_config;
    Ok(spec)
}

async fn call(
    name: String,
    input: Value,
    read_first: bool,
    servers: &ToolServerArgs,
    options: &GlobalArgs,
) -> CommandExit {
    let mut spec = call_spec(servers, options)?;
    spec.servers.for_tool = Some(name.clone());
    if permission::is_there() {
        spec.asking = ApproverSpec::Face(DenialText::Explained);
        spec.face_answers = AnswerableQuestions { elicitation: true, server_trust: true };
    }
    spec.progress = LiveTail::is_seen();
    let (handle, events) = Session::open(spec)?;
    let shown = tokio::spawn(watch(events, handle.clone()));
    let cancel = cancel_on_interrupt();
    if read_first {
        let reads = named_files(&input).into_iter().enumerate().map(|(at, path)| ToolUse {
            id: format!("read-{at}").into(),
            name: String::from("Read"),
            input: json!({ "file_path": path, "allow_large": true }),
        });
        handle.run_calls(reads.collect(), cancel.clone()).await;
    }
    let tool_use = ToolUse { id: "call-1".into(), name, input: input.clone() };
    let reports = handle.run_calls(vec![tool_use], cancel).await;
    // Closing waits until all earlier events were printed, so they appear before the result.
    handle.close().await;
    shown.await.ok();
    let failed = reports.is_empty() || reports.iter().any(|report| report.error.is_some());
    for report in &reports {
        if options.json {
            print_line(&json_line(report))?;
        } else {
            print_for_people(report, &input)?;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints progress and notices, and asks the user for permissions, until the session closes.
async fn watch(mut events: EventStream, handle: SessionHandle) {
    let (mut tail, mut answers) = (LiveTail::default(), ConsoleAnswerer::new(handle));
    while let Some(event) = events.next().await {
        match &event.what {
            SessionEventKind::Agent(AgentEvent::Progress(progress)) => tail.take(progress),
            SessionEventKind::Notice(text) => {
                tail.end();
                print_error(text);
            }
            SessionEventKind::Closed => break,
            _ => {
                tail.end();
                answers.take(&event);
            }
        }
    }
    tail.end();
}

/// All file paths in a tool input, at any depth.
fn named_files(input: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![input];
    while let Some(value) = todo.pop() {
        match value {
            Value::Object(fields) => {
                let names = ["file_path", "notebook_path"];
                found.extend(names.iter().filter_map(|name| fields.get(*name)?.as_str()).map(str::to_owned));
                todo.extend(fields.values());
            }
            Value::Array(items) => todo.extend(items),
            _ => (),
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Prints the result to standard output and remarks to standard error. For a failed call the reason is
/// the result.
fn print_for_people(report: &CallReport, input: &Value) -> Result<(), CliError> {
    let colours = style::colours();
    let look = if colours { Look::Coloured } else { Look::Plain };
    let listing = if report.error.is_none() { listing::of(report, input, look) } else { None };
    match listing {
        Some(listing) => {
            print_bytes(listing.body.as_bytes())?;
            for note in &listing.notes {
                write_error(&style::painted(&style::clean(note), "2", colours));
            }
        }
        None => drop(print_bytes(for_people(report, colours).as_bytes())?),
    }
    Ok(())
}

fn for_people(report: &CallReport, colours: bool) -> String {
    let rendered = match (&report.rendering, report.error) {
        (Some(rendering), None) => rendering.make(),
        _ => Rendered::error(&refusal_for_people(report).unwrap_or_else(|| report.content.to_text())),
    };
    style::text(&rendered, colours)
}

/// The message for a denied call: tells the user (not a model) what to do. `None` if the call was not
/// denied.
fn refusal_for_people(report: &CallReport) -> Option<String> {
    let decision = report.decision.as_ref().filter(|_| report.error == Some(ErrorKind::Denied))?;
    let way_out = decision.way_out.as_ref()?;
    Some(format!("{} was not allowed to run: {}; {way_out}", report.name, decision.reason))
}

fn json_line(report: &CallReport) -> String {
    serde_json::to_string(report).unwrap_or_else(|err| {
        // A report always serialises; if it ever does not, report that as the call's error.
        json!({"id": report.id, "name": report.name, "content": [], "is_error": true,
               "error_kind": "internal", "data": err.to_string()})
        .to_string()
    })
}

/// One line of the input of `haft tool run`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    #[serde(default)]
    id: Option<String>,
    name: String,
    #[serde(default)]
    input: Value,
}

async fn run_lines(servers: &ToolServerArgs, options: &GlobalArgs) -> CommandExit {
    let (handle, mut events) = Session::open(call_spec(servers, options)?)?;
    let notices = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            match &event.what {
                SessionEventKind::Notice(text) => print_error(text),
                SessionEventKind::Closed => break,
                _ => (),
            }
        }
    });
    let cancel = cancel_on_interrupt();
    let mut lines = BufReader::new(tokio::io::stdin());
    let (mut line, mut count) = (Vec::new(), 0_usize);
    let mut failed = false;
    loop {
        line.clear();
        let read = tokio::select! {
            read = lines.read_until(b'\n', &mut line) => read?,
            () = cancel.cancelled() => 0,
        };
        if read == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        for report in run_line(&handle, &line, &mut count, &cancel).await {
            failed |= report.error.is_some();
            print_line(&json_line(&report))?;
        }
    }
    handle.close().await;
    notices.await.ok();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn run_line(
    handle: &SessionHandle,
    line: &[u8],
    count: &mut usize,
    cancel: &CancellationToken,
) -> Vec<CallReport> {
    let mut next_id = || {
        *count += 1;
        format!("call-{count}")
    };
    let calls = match serde_json::from_slice::<Value>(line.trim_ascii()) {
        Ok(Value::Array(calls)) => calls,
        Ok(call) => vec![call],
        Err(err) => return vec![unreadable(next_id(), &format!("the line is not JSON: {err}"))],
    };
    let (mut uses, mut bad) = (Vec::new(), Vec::new());
    for (at, call) in calls.into_iter().enumerate() {
        match serde_json::from_value::<ScriptedCall>(call) {
            Ok(ScriptedCall { id, name, input }) => {
                let id = id.unwrap_or_else(&mut next_id);
                uses.push(ToolUse { id: id.into(), name, input });
            }
            Err(err) => bad.push((at, unreadable(next_id(), &format!("not a call: {err}")))),
        }
    }
    let mut reports = handle.run_calls(uses, cancel.clone()).await;
    // `at` is the index in the input line, and `bad` is sorted, so each insertion lands at the right
    // index.
    for (at, report) in bad {
        reports.insert(at.min(reports.len()), report);
    }
    reports
}

fn unreadable(id: String, problem: &str) -> CallReport {
    let message = format!("{problem}. Write {{\"id\"?, \"name\", \"input\"}} or an array of such objects");
    CallReport::refused(id.into(), String::new(), ErrorKind::InvalidInput, message)
}

/// The returned token is cancelled by the first SIGINT or SIGTERM; the second ends the program at once.
pub(crate) fn cancel_on_interrupt() -> CancellationToken {
    Interrupt::listen().cancel
}
