//! `haft -p`: a run without a person.

use std::{
    io::{IsTerminal as _, Read as _, Stderr},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use haft_agent::{Agent, AgentEvent, EndReason, Exhausted, TurnEnd, UserInput};
use haft_mcp_client::Manager;
use haft_sdk::{Frames, Init, mcp_servers, result_frame};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    args::{Options, OutputFormat, RunArgs},
    cost_command::lost_line,
    interrupt::Interrupt,
    output::{Ended, Failure, complain, print_line},
    telemetry::{RunInfoOf, Settings, Telemetry},
    watch::{Detail, Look, Watcher, width},
    wiring::{self, Attended, ServerFlags, ServerTools, Setup, Signals},
};

pub(crate) fn run(run: &RunArgs, options: &Options) -> Ended {
    if !run.print {
        let help =
            "say what to do with `haft -p \"…\"`, watch `haft demo`, or see `haft --help` for the commands";
        return Err(Failure::Message(help.to_owned()));
    }
    let prompt = prompt(run)?;
    wiring::runtime()?.block_on(work(prompt, run, options))
}

/// The prompt from the command line and from standard input, together.
fn prompt(run: &RunArgs) -> Result<String, Failure> {
    let mut piped = Vec::new();
    if !std::io::stdin().is_terminal() {
        std::io::stdin().read_to_end(&mut piped)?;
    }
    let piped = String::from_utf8_lossy(&piped);
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
    setup.signals = Signals::Handled;
    let built = setup.agent(run)?;
    let mut agent = built.agent;
    let manager = setup.start_servers(ServerFlags::of(run), Attended::Never)?.clone();
    let servers = ServerTools::new(&manager, &agent.tools);
    servers.begin(&mut agent, run.sdk.mcp_wait.map(Duration::from_secs)).await;
    servers.follow(&agent.inbox);
    let prompt = wiring::expand_command(&manager, prompt).await?;
    setup.record(&mut agent, run)?;
    let frames = Frames { session_id: setup.session_id.clone() };
    if run.output_format == OutputFormat::StreamJson {
        print_line(&frames.init(&init(&setup, &agent, &manager, built.key_source)).to_string())?;
    }
    let interrupt = Interrupt::listen();
    let about = RunInfoOf {
        session: setup.session_id.as_str(),
        model: &agent.settings.model,
        provider: &built.provider_name,
        prompt: &prompt,
    };
    let telemetry = Settings::from_env(&|name| setup.variable(name, run));
    let mut telemetry = telemetry.map(|settings| Telemetry::new(settings, about));
    let shown = show(built.events, shower(run, &agent, frames), &interrupt, &mut telemetry);
    let end = async {
        let end = follow(&mut agent, prompt, &interrupt, &mut setup, &servers).await;
        setup.close(&agent.tools).await;
        let (spent, model) = (*agent.spending(), agent.settings.model.clone());
        // The agent goes, and with it the sender of events: showing ends too.
        drop(agent);
        (end, spent, model)
    };
    let ((end, spent, model), shown) = tokio::join!(end, shown);
    if let Some(mut telemetry) = telemetry {
        telemetry.end(&end);
        if let Err(problem) = telemetry.send().await
            && run.verbose
        {
            complain(&format!("telemetry was not sent: {problem}"));
        }
    }
    shown?;
    let (code, outcome) = outcome(&end, run.allow_denials, &interrupt);
    match run.output_format {
        OutputFormat::Text => {
            print_text(&end)?;
            if let Some(lost) = lost_line(&end.busts) {
                complain(&lost);
            }
        }
        OutputFormat::Json | OutputFormat::StreamJson => {
            let mut frame = result_frame(&setup.session_id, &end, &spent, &model);
            frame["outcome"] = Value::from(outcome);
            frame["exit_code"] = Value::from(code);
            for (denial, listed) in
                end.denials.iter().zip(frame["permission_denials"].as_array_mut().into_iter().flatten())
            {
                listed["reason"] = json!(denial.reason);
            }
            print_line(&frame.to_string())?;
        }
    }
    Ok(ExitCode::from(code))
}

/// How often settings are looked at while the agent works.
const SETTINGS_EVERY: Duration = Duration::from_secs(1);

/// Works on the prompt, and follows settings and servers meanwhile.
async fn follow(
    agent: &mut Agent,
    prompt: String,
    interrupt: &Interrupt,
    setup: &mut Setup,
    servers: &ServerTools,
) -> TurnEnd {
    let (pipeline, inbox) = (Arc::clone(&agent.tools.pipeline), agent.inbox.clone());
    let running = agent.run(UserInput::text(prompt), &interrupt.cancel);
    tokio::pin!(running);
    loop {
        tokio::select! {
            biased;
            end = &mut running => return end,
            () = tokio::time::sleep(SETTINGS_EVERY) => {
                if setup.refresh(&pipeline) {
                    servers.announce(&inbox);
                }
            }
        }
    }
}

fn init(setup: &Setup, agent: &Agent, manager: &Manager, key_source: String) -> Init {
    Init {
        cwd: setup.cwd.display().to_string(),
        tools: agent.tools.pool.get().names().map(str::to_owned).collect(),
        model: agent.settings.model.clone(),
        permission_mode: agent.tools.pipeline.gate.mode().name().to_owned(),
        api_key_source: key_source,
        mcp_servers: mcp_servers(manager),
        output_style: String::from("default"),
        agents: Vec::new(),
    }
}

/// Who shows what happens.
enum Shower {
    /// A program reads it from standard output.
    Frames(Frames),
    /// A person watches standard error.
    Watcher(Box<Watcher<Stderr>>),
    /// Nobody; only what must be known is said.
    Quiet { verbose: bool },
}

fn shower(run: &RunArgs, agent: &Agent, frames: Frames) -> Shower {
    if run.output_format == OutputFormat::StreamJson {
        return Shower::Frames(frames);
    }
    if !std::io::stderr().is_terminal() {
        return Shower::Quiet { verbose: run.verbose };
    }
    let colours = std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
    let detail = if run.verbose { Detail::Full } else { Detail::Calls };
    let look = Look { colours, live: true, width: width(std::io::stderr()), detail };
    let state = &agent.tools.state;
    let watcher = Watcher::new(std::io::stderr(), look, agent.tools.pool.clone(), Arc::clone(&state.cwd));
    Shower::Watcher(Box::new(watcher))
}

/// Shows events until there are none. When nobody reads them any more, the run
/// is stopped.
async fn show(
    mut events: mpsc::UnboundedReceiver<AgentEvent>,
    mut shower: Shower,
    interrupt: &Interrupt,
    telemetry: &mut Option<Telemetry>,
) -> Result<(), Failure> {
    let mut ended = Ok(());
    while let Some(event) = events.recv().await {
        if let Some(telemetry) = telemetry {
            telemetry.hear(&event);
        }
        if ended.is_ok() {
            ended = shower.take(&event);
            if ended.is_err() {
                interrupt.cancel.cancel();
            }
        }
    }
    ended
}

impl Shower {
    fn take(&mut self, event: &AgentEvent) -> Result<(), Failure> {
        match self {
            Self::Frames(frames) => match frames.frame(event) {
                Some(frame) => print_line(&frame.to_string()),
                None => Ok(()),
            },
            Self::Watcher(watcher) => {
                // Standard error may be gone while the answer is still wanted.
                watcher.take(event).ok();
                Ok(())
            }
            Self::Quiet { verbose } => {
                say_quietly(event, *verbose);
                Ok(())
            }
        }
    }
}

fn say_quietly(event: &AgentEvent, verbose: bool) {
    match event {
        AgentEvent::Notice(text) => complain(text),
        AgentEvent::Retrying(retry) => {
            complain(&format!("retry {} of {}: {}", retry.attempt, retry.most, retry.reason));
        }
        AgentEvent::Repaired(it) => {
            complain(&format!("repaired before sending: {} ({})", it.detail, it.place));
        }
        AgentEvent::Result(it) if verbose => {
            let mark = if it.report.error.is_some() { "failed" } else { "done" };
            complain(&format!("{} {mark}", it.report.name));
        }
        _ => (),
    }
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
        EndReason::Exhausted(bound) => format!("stopped: {}", in_words(bound)),
        EndReason::Interrupted => String::from("interrupted"),
        EndReason::Stopped(reason) | EndReason::NoProgress(reason) => format!("stopped: {reason}"),
        EndReason::OutputTruncated => {
            String::from("stopped: the answers were cut by the output limit again and again")
        }
        EndReason::NoStructuredOutput(tried) => {
            format!("the model did not deliver the output that was asked for: {}", tried.join("; "))
        }
        EndReason::Refused => String::from("the model declined"),
    };
    complain(&problem);
    Ok(())
}

fn in_words(bound: &Exhausted) -> String {
    match bound {
        Exhausted::Turns(most) => format!("the limit of {most} turns was reached (--max-turns)"),
        Exhausted::Budget(most) => format!("the budget of ${most} is spent (--max-budget-usd)"),
        Exhausted::Tokens(most) => format!("the limit of {most} tokens was reached"),
        Exhausted::Time(most) => format!("the time limit of {} s was reached", most.as_secs()),
    }
}

/// What scripts branch on: the exit code and its word.
fn outcome(end: &TurnEnd, allow_denials: bool, interrupt: &Interrupt) -> (u8, &'static str) {
    match &end.reason {
        EndReason::Completed if end.denials.is_empty() || allow_denials => (0, "success"),
        EndReason::Completed => (3, "denied"),
        EndReason::Exhausted(Exhausted::Turns(_)) => (4, "incomplete"),
        EndReason::Exhausted(_) => (5, "incomplete"),
        EndReason::Failed(_) => (6, "failed"),
        EndReason::Interrupted => (interrupt.code(), "interrupted"),
        EndReason::Stopped(_)
        | EndReason::NoProgress(_)
        | EndReason::OutputTruncated
        | EndReason::NoStructuredOutput(_)
        | EndReason::Refused => (1, "incomplete"),
    }
}
