//! `haft -p`: a run without a person.

use std::{
    io::{IsTerminal as _, Read as _},
    process::ExitCode,
    time::Duration,
};

use haft_agent::{AgentEvent, EndReason, Exhausted, TurnEnd, UserInput};
use haft_sdk::{Frames, Init, mcp_servers, result_frame};
use tokio::sync::mpsc;

use crate::{
    args::{Options, OutputFormat, RunArgs},
    output::{Ended, Failure, complain, print_line},
    tool_command::cancel_on_interrupt,
    wiring::{self, Attended, ServerFlags, ServerTools, Setup},
};

pub(crate) fn run(run: &RunArgs, options: &Options) -> Ended {
    if !run.print {
        let help = "say what to do with `haft -p \"…\"`, or see `haft --help` for the commands";
        return Err(Failure::Message(help.to_owned()));
    }
    let prompt = prompt(run)?;
    wiring::runtime()?.block_on(work(prompt, run, options))
}

/// The prompt from the command line and from standard input, together.
fn prompt(run: &RunArgs) -> Result<String, Failure> {
    let mut piped = String::new();
    if !std::io::stdin().is_terminal() {
        std::io::stdin().read_to_string(&mut piped)?;
    }
    let parts: Vec<&str> = [run.prompt.as_deref().unwrap_or_default(), piped.trim_end()]
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .collect();
    if parts.is_empty() {
        return Err(Failure::Message(String::from("there is nothing to do: give a prompt, or pipe one in")));
    }
    Ok(parts.join("\n\n"))
}

async fn work(prompt: String, run: &RunArgs, options: &Options) -> Ended {
    let mut setup = Setup::new(options)?;
    let built = setup.agent(run)?;
    let mut agent = built.agent;
    let manager = setup.start_servers(ServerFlags::of(run), Attended::Never)?.clone();
    let servers = ServerTools::new(&manager, &agent.tools);
    servers.begin(&mut agent, run.sdk.mcp_wait.map(Duration::from_secs)).await;
    servers.follow(&agent.inbox);
    let frames = Frames { session_id: setup.session_id.clone() };
    if run.output_format == OutputFormat::StreamJson {
        let pool = agent.tools.pool.get();
        let init = Init {
            cwd: setup.cwd.display().to_string(),
            tools: pool.names().map(str::to_owned).collect(),
            model: agent.settings.model.clone(),
            permission_mode: agent.tools.pipeline.gate.mode().name().to_owned(),
            api_key_source: built.key_source,
            mcp_servers: mcp_servers(&manager),
            output_style: String::from("default"),
            agents: Vec::new(),
        };
        print_line(&frames.init(&init).to_string())?;
    }
    let cancel = cancel_on_interrupt();
    let shown = show(built.events, run.output_format, run.verbose, frames);
    let end = async {
        let end = agent.run(UserInput::text(prompt), &cancel).await;
        setup.close(&agent.tools).await;
        let (spent, model) = (*agent.spending(), agent.settings.model.clone());
        // The agent goes, and with it the sender of events: showing ends too.
        drop(agent);
        (end, spent, model)
    };
    let ((end, spent, model), shown) = tokio::join!(end, shown);
    shown?;
    match run.output_format {
        OutputFormat::Text => print_text(&end)?,
        OutputFormat::Json | OutputFormat::StreamJson => {
            print_line(&result_frame(&setup.session_id, &end, &spent, &model).to_string())?;
        }
    }
    Ok(ExitCode::from(code(&end, run.allow_denials)))
}

async fn show(
    mut events: mpsc::UnboundedReceiver<AgentEvent>,
    format: OutputFormat,
    verbose: bool,
    frames: Frames,
) -> Result<(), Failure> {
    while let Some(event) = events.recv().await {
        if format == OutputFormat::StreamJson {
            if let Some(frame) = frames.frame(&event) {
                print_line(&frame.to_string())?;
            }
            continue;
        }
        match event {
            AgentEvent::Notice(text) => complain(&text),
            AgentEvent::Retrying(retry) => {
                complain(&format!("retry {} of {}: {}", retry.attempt, retry.most, retry.reason))
            }
            AgentEvent::Result(it) if verbose => {
                let mark = if it.report.error.is_some() { "failed" } else { "done" };
                complain(&format!("{} {mark}", it.report.name));
            }
            _ => (),
        }
    }
    Ok(())
}

fn print_text(end: &TurnEnd) -> Result<(), Failure> {
    if !end.text.is_empty() {
        print_line(&end.text)?;
    }
    if let Some(output) = &end.structured_output {
        print_line(&output.to_string())?;
    }
    for denial in &end.denials {
        complain(&denial.reason);
    }
    let problem = match &end.reason {
        EndReason::Completed => return Ok(()),
        EndReason::Failed(error) => error.to_string(),
        EndReason::Exhausted(bound) => format!("stopped: a limit was reached ({bound:?})"),
        EndReason::Interrupted => String::from("interrupted"),
        EndReason::Stopped(reason) | EndReason::NoProgress(reason) => format!("stopped: {reason}"),
        EndReason::OutputTruncated => {
            String::from("stopped: the answers were cut by the output limit again and again")
        }
        EndReason::NoStructuredOutput(_) => {
            String::from("the model did not deliver output that follows the schema")
        }
        EndReason::Refused => String::from("the model declined to answer"),
    };
    complain(&problem);
    Ok(())
}

/// What scripts branch on: success, denied, out of turns, out of money, no
/// answer, interrupted.
fn code(end: &TurnEnd, allow_denials: bool) -> u8 {
    match &end.reason {
        EndReason::Completed if end.denials.is_empty() || allow_denials => 0,
        EndReason::Completed => 3,
        EndReason::Exhausted(Exhausted::Turns(_)) => 4,
        EndReason::Exhausted(_) => 5,
        EndReason::Failed(_) => 6,
        EndReason::Interrupted => 130,
        EndReason::Stopped(_)
        | EndReason::NoProgress(_)
        | EndReason::OutputTruncated
        | EndReason::NoStructuredOutput(_)
        | EndReason::Refused => 1,
    }
}
