//! `haft demo`: a recorded model repairs a small project with real tools.
//!
//! Only the model's words are recorded; every call runs, in a directory of its
//! own, with a home of its own: nothing of the person is read or written.

use std::{
    ffi::OsString,
    io::IsTerminal as _,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_agent::{AgentEvent, EndReason, TurnEnd, UserInput};
use haft_model::{Catalog, Scripted};
use haft_types::{MessageBlock, PermissionMode};
use tokio::sync::mpsc;

use crate::{
    args::{DemoArgs, Options, RunArgs},
    output::{Ended, Failure},
    show::{colours, painted},
    tool_command::cancel_on_interrupt,
    watch::{Detail, Look, Watcher, width},
    wiring::{self, Chosen, Setup},
};

/// The project, before.
const PROJECT: &[(&str, &str)] = &[
    ("invoice.sh", include_str!("demo_command/project/invoice.sh")),
    ("test.sh", include_str!("demo_command/project/test.sh")),
    ("orders/tea.csv", include_str!("demo_command/project/orders/tea.csv")),
    ("orders/party.csv", include_str!("demo_command/project/orders/party.csv")),
    ("orders/sugar.csv", include_str!("demo_command/project/orders/sugar.csv")),
];

/// What the model says, answer by answer.
const ANSWERS: &str = include_str!("demo_command/answers.json");

const PROMPT: &str = "The tests of this project fail. Find out why and repair it.";

/// Between two words.
const PACE: Duration = Duration::from_millis(25);

pub(crate) fn run(demo: &DemoArgs) -> Ended {
    wiring::runtime()?.block_on(play(demo))
}

async fn play(demo: &DemoArgs) -> Ended {
    let scratch = tempfile::Builder::new().prefix("haft-demo-").tempdir()?;
    let root = scratch.path().canonicalize()?;
    let (project, home) = (root.join("project"), root.join("home"));
    std::fs::create_dir_all(&home)?;
    lay_out(&project)?;
    let look = Look {
        colours: colours(),
        live: std::io::stdout().is_terminal(),
        width: width(std::io::stdout()),
        detail: Detail::Full,
    };
    let ended = show(demo, look, &project, &home).await;
    if demo.keep {
        let kept = scratch.keep();
        crate::output::print_line(&format!("\nThe project stays in {}", kept.join("project").display()))?;
    }
    ended
}

fn lay_out(project: &Path) -> Result<(), Failure> {
    for (name, text) in PROJECT {
        let path = project.join(name);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

async fn show(demo: &DemoArgs, look: Look, project: &Path, home: &Path) -> Ended {
    let mut setup = setup(project, home)?;
    let pace = if look.live && !demo.fast { PACE } else { Duration::ZERO };
    let answers: Vec<Vec<MessageBlock>> =
        serde_json::from_str(ANSWERS).map_err(|err| format!("the recording cannot be read: {err}"))?;
    let chosen = Chosen {
        provider: Arc::new(Scripted::new(answers).with_pace(pace)),
        catalog: Catalog::built_in(),
        key_source: String::from("none"),
    };
    let mut run = RunArgs::default();
    run.sdk.no_session_persistence = true;
    let built = setup.agent_on(chosen, &run)?;
    let mut agent = built.agent;
    let mut watcher =
        Watcher::new(std::io::stdout(), look, agent.tools.pool.clone(), Arc::clone(&agent.tools.state.cwd));
    watcher.line(&opening(look, project))?;
    let cancel = cancel_on_interrupt();
    let started = Instant::now();
    let watched = watch(built.events, &mut watcher, pace);
    let working = async {
        let end = agent.run(UserInput::text(PROMPT), &cancel).await;
        setup.close(&agent.tools).await;
        drop(agent);
        end
    };
    let (end, counts) = tokio::join!(working, watched);
    let counts = counts?;
    let passes = tests_pass(project);
    watcher.line(&closing(look, &end, &counts, passes, started.elapsed()))?;
    Ok(match end.reason {
        EndReason::Interrupted => ExitCode::from(130),
        EndReason::Completed if passes => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// A session that sees nothing of the person's: neither settings nor home.
fn setup(project: &Path, home: &Path) -> Result<Setup, Failure> {
    let options = Options {
        cwd: Some(project.to_owned()),
        permission_mode: Some(PermissionMode::AcceptEdits),
        allowed_tools: vec![String::from("Bash(sh test.sh)")],
        setting_sources: Some(String::new()),
        ..Options::default()
    };
    let home = OsString::from(home);
    Setup::in_environment(&options, &|name| match name {
        "HOME" => Some(home.clone()),
        "CLAUDE_CONFIG_DIR" | "HAFT_CONFIG_DIR" => None,
        other => std::env::var_os(other),
    })
}

/// What happened, in numbers.
#[derive(Default)]
struct Counts {
    calls: usize,
    edits: usize,
    refused: usize,
}

async fn watch(
    mut events: mpsc::UnboundedReceiver<AgentEvent>,
    watcher: &mut Watcher<std::io::Stdout>,
    pace: Duration,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    while let Some(event) = events.recv().await {
        watcher.take(&event)?;
        if let AgentEvent::Result(it) = &event {
            counts.calls += 1;
            match it.report.error {
                None if it.report.name == "Edit" => counts.edits += 1,
                Some(haft_tool::ErrorKind::Denied) => counts.refused += 1,
                _ => (),
            }
            // Time to look at it.
            tokio::time::sleep(pace * 24).await;
        }
    }
    Ok(counts)
}

/// The tests, run by ourselves: what is said at the end is what is so.
fn tests_pass(project: &Path) -> bool {
    let quiet = Command::new("sh")
        .arg("test.sh")
        .current_dir(project)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

fn opening(look: Look, project: &Path) -> String {
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

fn closing(look: Look, end: &TurnEnd, counts: &Counts, passes: bool, took: Duration) -> String {
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
