//! `haft demo`: a recorded model repairs a small project with real tools.
//!
//! Only the model's answers are recorded. The tool calls really run, in a temporary directory with a
//! temporary home, so that no file of the user is read or written.

use std::{
    io::IsTerminal as _,
    path::Path,
    process::{self, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_agent::{AgentEvent, EndReason, TurnEnd};
use haft_console::{
    GlobalArgs,
    event_printer::{EventPrinter, PrintDetail, PrintStyle, width},
    stdout::{CliError, CommandExit},
    style::{colours, painted},
};
use haft_model::{Catalog, Provider, ScriptedProvider};
use haft_session::{
    Command, EventStream, LogDestination, ModelSpec, Prompt, ProviderSpec, ServerStart, Session,
    SessionEventKind, SessionHandle, SessionSpec,
};
use haft_types::{MessageBlock, PermissionMode};
use tokio_util::sync::CancellationToken;

use crate::{args::DemoArgs, commands::tool::cancel_on_interrupt, run::session_spec};

/// Files of the project before the repair.
const PROJECT: &[(&str, &str)] = &[
    ("invoice.sh", include_str!("../../assets/demo/project/invoice.sh")),
    ("test.sh", include_str!("../../assets/demo/project/test.sh")),
    ("orders/tea.csv", include_str!("../../assets/demo/project/orders/tea.csv")),
    ("orders/party.csv", include_str!("../../assets/demo/project/orders/party.csv")),
    ("orders/sugar.csv", include_str!("../../assets/demo/project/orders/sugar.csv")),
];

/// The recorded answers of the model.
const ANSWERS: &str = include_str!("../../assets/demo/answers.json");

const PROMPT: &str = "The tests of this project fail. Find out why and repair it.";

/// Delay between two words of an answer.
const PACE: Duration = Duration::from_millis(25);

pub(crate) fn run(demo: &DemoArgs) -> CommandExit {
    session_spec::runtime()?.block_on(play(demo))
}

/// Programs the demo project needs.
const PROGRAMS: [&str; 2] = ["sh", "awk"];

/// Fails if one of `PROGRAMS` is missing: the recorded answers would not match.
fn refuse_without_programs() -> Result<(), CliError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = std::env::split_paths(&path).collect();
    let is_there = |name: &str| places.iter().any(|place| place.join(name).is_file());
    match PROGRAMS.into_iter().find(|name| !is_there(name)) {
        None => Ok(()),
        Some(name) => Err(CliError::Message(format!(
            "the demo runs a small shell script, and there is no {name} in PATH: install it, or see `haft doctor`"
        ))),
    }
}

async fn play(demo: &DemoArgs) -> CommandExit {
    refuse_without_programs()?;
    let scratch = tempfile::Builder::new().prefix("haft-demo-").tempdir()?;
    let root = scratch.path().canonicalize()?;
    let (project, home) = (root.join("project"), root.join("home"));
    std::fs::create_dir_all(&home)?;
    lay_out(&project)?;
    let look = PrintStyle {
        colours: colours(),
        live: std::io::stdout().is_terminal(),
        width: width(std::io::stdout()),
        detail: PrintDetail::Full,
    };
    let ended = show(demo, look, &project, &home).await;
    if demo.keep {
        let kept = scratch.keep();
        haft_console::stdout::print_line(&format!(
            "\nThe project stays in {}",
            kept.join("project").display()
        ))?;
    }
    ended
}

fn lay_out(project: &Path) -> Result<(), CliError> {
    for (name, text) in PROJECT {
        let path = project.join(name);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

async fn show(demo: &DemoArgs, look: PrintStyle, project: &Path, home: &Path) -> CommandExit {
    let pace = if look.live && !demo.fast { PACE } else { Duration::ZERO };
    let answers: Vec<Vec<MessageBlock>> =
        serde_json::from_str(ANSWERS).map_err(|err| format!("the recording cannot be read: {err}"))?;
    let model = ScriptedProvider::new(answers).with_pace(pace);
    let (handle, events) = Session::open(demo_spec(project, home, Arc::new(model))?)?;
    let calls = handle.calls();
    let mut watcher = EventPrinter::new(std::io::stdout(), look, Arc::clone(&calls.state.cwd));
    watcher.line(&opening(look, project))?;
    let cancel = cancel_on_interrupt();
    let started = Instant::now();
    handle.prompt(Prompt::text(PROMPT));
    handle.send(Command::Finish);
    let (end, counts) = watch(events, &mut watcher, pace, &handle, &cancel).await?;
    let passes = tests_pass(project);
    let Some(end) = end else { return Err(CliError::Message(String::from("the demo broke off"))) };
    watcher.line(&closing(look, &end, &counts, passes, started.elapsed()))?;
    Ok(match end.reason {
        EndReason::Interrupted => ExitCode::from(haft_types::exit_codes::INTERRUPTED),
        EndReason::Completed if passes => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Spec of a session that reads neither the user's settings nor the home directory.
fn demo_spec(project: &Path, home: &Path, provider: Arc<dyn Provider>) -> Result<SessionSpec, CliError> {
    let options = GlobalArgs {
        cwd: Some(project.to_owned()),
        permission_mode: Some(PermissionMode::AcceptEdits),
        allowed_tools: vec![String::from("Bash(sh test.sh)")],
        setting_sources: Some(String::new()),
        ..GlobalArgs::default()
    };
    let mut spec = session_spec::of_options(&options)?;
    let variables = spec.place.variables.clone().without("CLAUDE_CONFIG_DIR").without("HAFT_CONFIG_DIR");
    spec.place.variables = variables.with("HOME", home);
    let provider = ProviderSpec::Given { provider, catalog: Some(Catalog::built_in()) };
    spec.model = Some(ModelSpec { provider, ..ModelSpec::default() });
    spec.log.kept = LogDestination::Nowhere;
    spec.servers.start = ServerStart::Never;
    Ok(spec)
}

#[derive(Default)]
struct DemoCounts {
    calls: usize,
    edits: usize,
    refused: usize,
}

async fn watch(
    mut events: EventStream,
    watcher: &mut EventPrinter<std::io::Stdout>,
    pace: Duration,
    handle: &SessionHandle,
    cancel: &CancellationToken,
) -> Result<(Option<TurnEnd>, DemoCounts), CliError> {
    let (mut counts, mut end, mut interrupted) = (DemoCounts::default(), None, false);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = cancel.cancelled(), if !interrupted => {
                interrupted = true;
                handle.interrupt();
                continue;
            }
        };
        match event.map(|it| it.what) {
            None | Some(SessionEventKind::Closed) => return Ok((end, counts)),
            Some(SessionEventKind::TurnEnded(turn)) => end = Some(turn.end),
            Some(SessionEventKind::Agent(event)) => {
                watcher.take(&event)?;
                if let AgentEvent::CallFinished(it) = &event {
                    counts.calls += 1;
                    match it.report.error {
                        None if it.report.name == "Edit" => counts.edits += 1,
                        Some(haft_tool::ErrorKind::Denied) => counts.refused += 1,
                        _ => (),
                    }
                    // A pause for the reader.
                    tokio::time::sleep(pace * 24).await;
                }
            }
            Some(_) => (),
        }
    }
}

/// Runs the project's tests without the model, so that the final message reports a verified result.
fn tests_pass(project: &Path) -> bool {
    let quiet = process::Command::new("sh")
        .arg("test.sh")
        .current_dir(project)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

fn opening(look: PrintStyle, project: &Path) -> String {
    let paint = |text: &str, paint: &str| painted(text, paint, look.colours);
    format!(
        "{}\n{}\n{}\n\n{} {}",
        paint("haft demo", "1"),
        paint("The model's words are recorded, everything else is real: every call below runs,", "2"),
        paint(&format!("in {} (a small project whose tests fail).", project.display()), "2"),
        paint("›", "36;1"),
        paint(PROMPT, "1"),
    )
}

fn closing(look: PrintStyle, end: &TurnEnd, counts: &DemoCounts, passes: bool, took: Duration) -> String {
    let paint = |text: &str, paint: &str| painted(text, paint, look.colours);
    let (mark, verdict) = match (&end.reason, passes) {
        (EndReason::Completed, true) => (paint("✓", "32;1"), "the tests pass"),
        (EndReason::Interrupted, _) => (paint("✗", "31;1"), "interrupted"),
        _ => (paint("✗", "31;1"), "the tests still fail"),
    };
    let numbers = format!(
        "{} calls, {} edits, {} refused, {} answers, {:.1} s",
        counts.calls,
        counts.edits,
        counts.refused,
        end.turns,
        took.as_secs_f32()
    );
    let mut text = format!("\n{mark} {} {}\n", paint(verdict, "1"), paint(&format!("({numbers})"), "2"));
    for (what, how) in [
        ("with a model of yours", "haft -p \"repair the tests\""),
        ("one tool, no model", "haft tool call Grep '{\"pattern\": \"TODO\"}'"),
        ("what may run, and why", "haft permissions explain \"rm -rf build\""),
        ("take a change back", "haft history; haft undo"),
    ] {
        text.push_str(&format!("\n  {what:<22} {}", paint(how, "36")));
    }
    text
}
