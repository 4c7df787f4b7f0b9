//! `haft -p`: runs one prompt without interaction and prints the answer.

use std::{
    io::{IsTerminal as _, Write},
    process::ExitCode,
    sync::Arc,
};

use clap::CommandFactory as _;
use haft_agent::{AgentEvent, CacheMiss, DeniedToolCall, EndReason, LimitReached, TurnEnd};
use haft_console::{
    GlobalArgs,
    event_lines::{agent_line, child_line, end_line},
    event_printer::{EventPrinter, PrintDetail, PrintStyle, width},
    interrupt::Interrupt,
    stdout::{CliError, CommandExit, print_error, print_line, print_untrusted},
};
use haft_model::StopReason;
use haft_sdk_server::{FrameOptions, Projection, local_result, turn_frame};
use haft_session::{
    Command, CommandEnded, CommandResult, EventStream, Prompt, Session, SessionEvent, SessionEventKind,
    SessionHandle, TurnEnded,
};
use haft_types::{AgentId, nearest};
use serde_json::{Value, json};

use crate::{
    args::{Args, OutputFormat, RunArgs},
    commands::cost::lost_line,
    run::{piped_input, session_spec},
};

pub(crate) fn run(run: &RunArgs, options: &GlobalArgs) -> CommandExit {
    if !run.session.print {
        return Err(CliError::Message(what_to_say(run.prompt.as_deref())));
    }
    refuse_flags(run)?;
    let prompt = prompt(run)?;
    let (run, options) = (run.clone(), options.clone());
    let face = async move { work(prompt, &run, &options).await };
    session_spec::run_with_session(&session_spec::session_runtime()?, face)
}

/// The error if `haft` is started without `-p` and without a terminal. A single word may be a misspelled
/// command.
fn what_to_say(prompt: Option<&str>) -> String {
    let help =
        "say what to do with `haft -p \"…\"`, watch `haft demo`, or see `haft --help` for the commands";
    let word = prompt.map(str::trim).filter(|it| !it.is_empty() && !it.contains(char::is_whitespace));
    let Some(word) = word else { return help.to_owned() };
    let hint = nearest_command(word).map(|it| format!("; did you mean `haft {it}`?"));
    format!("there is no command {word}{}\n{help}", hint.unwrap_or_default())
}

/// The subcommand most similar to `word`, if one is similar enough.
pub(crate) fn nearest_command(word: &str) -> Option<String> {
    let command = Args::command();
    let known = command.get_subcommands().filter(|it| !it.is_hide_set()).map(clap::Command::get_name);
    nearest(word, known, 1).first().map(|it| (*it).to_owned())
}

/// Rejects flags that need an SDK host or stream-json output where there is none.
fn refuse_flags(run: &RunArgs) -> Result<(), CliError> {
    let needs_host = "needs a host that answers: --input-format stream-json, as the Agent SDKs use it";
    let needs_frames = "needs --output-format stream-json: it adds lines to that output";
    let is_plain = run.output.output_format != OutputFormat::StreamJson;
    let (permissions, output) = (&run.permissions, &run.output);
    for (flag, given, why) in [
        (
            "--permission-prompt-tool stdio",
            permissions.permission_prompt_tool.as_deref() == Some("stdio"),
            needs_host,
        ),
        ("--permission-prompts host", permissions.permission_prompts.as_deref() == Some("host"), needs_host),
        ("--include-partial-messages", output.include_partial_messages && is_plain, needs_frames),
        ("--include-hook-events", output.include_hook_events && is_plain, needs_frames),
        ("--replay-user-messages", output.replay_user_messages && is_plain, needs_frames),
        ("--session-mirror", output.session_mirror && is_plain, needs_frames),
    ] {
        if given {
            return Err(CliError::Message(format!("{flag} {why}")));
        }
    }
    Ok(())
}

/// Combines the prompt from the command line with standard input. An error if both are empty.
fn prompt(run: &RunArgs) -> Result<String, CliError> {
    let given = run.prompt.as_deref().unwrap_or_default();
    let piped = piped_input::read(!given.trim().is_empty())?;
    let piped = String::from_utf8_lossy(&piped);
    together(given, piped.trim_end()).ok_or_else(|| {
        CliError::Message(String::from("there is nothing to do: give a prompt, or pipe one in"))
    })
}

/// Adds piped input to a prompt, marked as data. Without a prompt the input is the prompt, with Haft's
/// own tags in it neutralised. `None` if both are blank.
fn together(prompt: &str, piped: &str) -> Option<String> {
    match (prompt.trim().is_empty(), piped.trim().is_empty()) {
        (true, true) => None,
        (true, false) => Some(haft_types::tags::neutral(piped).into_owned()),
        (false, true) => Some(prompt.to_owned()),
        (false, false) => Some(haft_session::with_piped(prompt, piped)),
    }
}

async fn work(prompt: String, run: &RunArgs, options: &GlobalArgs) -> CommandExit {
    let mut spec = session_spec::of_run(run, options)?;
    spec.progress = run.output.output_format == OutputFormat::StreamJson;
    let (handle, events) = Session::open(spec)?;
    refuse_unknown_agent(&handle, run).await?;
    refuse_unknown_command(&handle, run, &prompt).await?;
    let interrupt = Interrupt::listen();
    handle.prompt(Prompt { is_verbatim: run.output.disable_slash_commands, ..Prompt::text(prompt) });
    handle.send(Command::Finish);
    let verbose = run.output.verbose || handle.premises().flag_setting("verbose") == Some(true);
    let mut printed = RunOutput {
        shower: shower(run, &handle, verbose),
        run,
        verbose,
        interrupt,
        last: None,
        denials: Vec::new(),
        busts: Vec::new(),
    };
    printed.show(events, &handle).await?;
    match printed.last.take() {
        Some(LastTurn::Turn(turn)) => printed.finish(&turn, &handle),
        Some(LastTurn::Command(command)) => finish_command(&command, run, &handle),
        None => Err(CliError::Message(String::from("the run broke off"))),
    }
}

/// Fails if `--agent` names an agent that neither a file nor a plugin defines.
async fn refuse_unknown_agent(handle: &SessionHandle, run: &RunArgs) -> Result<(), CliError> {
    let Some(name) = &run.session.agent else { return Ok(()) };
    let Some(introduction) = handle.ask(Command::Reload).await else { return Ok(()) };
    let known: Vec<&str> = introduction.agents.iter().map(|(name, _, _)| name.as_str()).collect();
    if known.contains(&name.as_str()) {
        return Ok(());
    }
    handle.close().await;
    let known = if known.is_empty() { String::from("there are none") } else { known.join(", ") };
    Err(CliError::Message(format!("--agent {name}: there is no such agent; known: {known}")))
}

/// Fails if the prompt consists only of an unknown slash command: that is a typing mistake and not a
/// task for the model.
async fn refuse_unknown_command(handle: &SessionHandle, run: &RunArgs, prompt: &str) -> Result<(), CliError> {
    let Some(name) = command_name(prompt).filter(|_| !run.output.disable_slash_commands) else {
        return Ok(());
    };
    let Some(introduction) = handle.ask(Command::Reload).await else { return Ok(()) };
    let known = introduction.commands.iter().chain(&introduction.skills);
    let mut names: Vec<&str> = Vec::new();
    for command in known {
        names.push(&command.name);
        names.extend(command.aliases);
    }
    if names.contains(&name) {
        return Ok(());
    }
    handle.close().await;
    names.sort_unstable();
    names.dedup();
    let meant = haft_types::nearest(name, names.iter().copied(), 3);
    let shown = if meant.is_empty() { names } else { meant };
    let shown: Vec<String> = shown.iter().map(|it| format!("/{it}")).collect();
    Err(CliError::Message(format!(
        "there is no command /{name}; did you mean {}? --disable-slash-commands sends it to the model as it is",
        shown.join(", ")
    )))
}

/// The name of the slash command that the prompt consists of. `None` for other text and for paths.
fn command_name(prompt: &str) -> Option<&str> {
    let first = prompt.trim().strip_prefix('/')?.split_whitespace().next()?;
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | ':');
    let is_path = std::path::Path::new("/").join(first).exists();
    // MCP prompts become commands once their server has connected, so they may be unknown now.
    let is_of_server = first.starts_with("mcp__");
    let begins = first.starts_with(|it: char| it.is_ascii_alphabetic()) && !is_of_server;
    (begins && first.chars().all(fits) && !is_path).then_some(first)
}

/// What a run prints while it works, and what its result needs.
struct RunOutput<'a> {
    shower: RunPrinter,
    run: &'a RunArgs,
    /// Whether to print more on standard error, from `--verbose` or the settings.
    verbose: bool,
    interrupt: Interrupt,
    last: Option<LastTurn>,
    /// Denied tool calls of all turns.
    denials: Vec<DeniedToolCall>,
    /// Prompt cache misses of all turns.
    busts: Vec<CacheMiss>,
}

/// How the last prompt ended.
enum LastTurn {
    Turn(Box<TurnEnded>),
    Command(Box<CommandEnded>),
}

/// Who reads the output.
enum RunPrinter {
    /// A program: stream-json lines on standard output.
    Frames(Box<Projection>),
    /// A user: events on standard error.
    Watcher(Box<EventPrinter<Box<dyn Write + Send>>>),
    /// Nobody watches: only warnings and errors are printed.
    Quiet,
}

fn shower(run: &RunArgs, handle: &SessionHandle, verbose: bool) -> RunPrinter {
    if run.output.output_format == OutputFormat::StreamJson {
        let told = FrameOptions {
            partial: run.output.include_partial_messages,
            replay: run.output.replay_user_messages,
            hooks: run.output.include_hook_events,
            ..FrameOptions::default()
        };
        return RunPrinter::Frames(Box::new(Projection::new(handle.id().clone(), told)));
    }
    if !std::io::stderr().is_terminal() {
        return RunPrinter::Quiet;
    }
    let plain = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
    let colours = !plain && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
    // If the answer goes to the same terminal, it is printed while it is generated.
    let is_read = run.output.output_format == OutputFormat::Text && std::io::stdout().is_terminal();
    let detail = match (verbose, is_read) {
        (true, _) => PrintDetail::Full,
        (false, true) => PrintDetail::Talk,
        (false, false) => PrintDetail::Calls,
    };
    let live = !plain && haft_console::style::look().can_draw();
    let look = PrintStyle { colours, live, width: width(std::io::stderr()), detail };
    let calls = handle.calls();
    let out: Box<dyn Write + Send> =
        if is_read { Box::new(std::io::stdout()) } else { Box::new(std::io::stderr()) };
    let watcher = EventPrinter::new(out, look, Arc::clone(&calls.state.cwd));
    RunPrinter::Watcher(Box::new(watcher))
}

impl RunOutput<'_> {
    /// Prints events until the session closes. An interrupt, or an output nobody reads any more, stops
    /// the run.
    async fn show(&mut self, mut events: EventStream, handle: &SessionHandle) -> Result<(), CliError> {
        let (mut interrupted, mut ended) = (false, Ok(()));
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.interrupt.cancel.cancelled(), if !interrupted => {
                    interrupted = true;
                    handle.interrupt();
                    handle.send(Command::EndAfterTurn);
                    continue;
                }
            };
            let Some(event) = event.filter(|it| !matches!(it.what, SessionEventKind::Closed)) else {
                if let RunPrinter::Watcher(watcher) = &mut self.shower {
                    watcher.leave().ok();
                }
                return ended;
            };
            if let SessionEventKind::TurnEnded(turn) = &event.what {
                self.denials.extend(turn.end.denials.iter().cloned());
                self.busts.extend(turn.end.busts.iter().cloned());
            }
            if ended.is_ok() {
                ended = self.take(&event);
                if ended.is_err() {
                    self.interrupt.cancel.cancel();
                }
            }
            match event.what {
                SessionEventKind::TurnEnded(turn) => self.last = Some(LastTurn::Turn(turn)),
                SessionEventKind::CommandEnded(command) => self.last = Some(LastTurn::Command(command)),
                _ => (),
            }
        }
    }

    fn take(&mut self, event: &SessionEvent) -> Result<(), CliError> {
        match (&mut self.shower, &event.what) {
            (RunPrinter::Frames(_), SessionEventKind::Notice(text)) => print_error(text),
            (RunPrinter::Watcher(watcher), SessionEventKind::Notice(text)) => drop(watcher.note(text)),
            (RunPrinter::Frames(_), SessionEventKind::Detail(text)) if self.verbose => print_error(text),
            (RunPrinter::Frames(projection), what) => {
                let mut frames = projection.of(event);
                if let (SessionEventKind::TurnEnded(turn), Some(last)) = (what, frames.last_mut()) {
                    self.add_outcome(last, &turn.end);
                }
                for frame in frames {
                    print_line(&frame.to_string())?;
                }
            }
            // Standard error may be closed while the answer is still wanted, so errors are ignored.
            (RunPrinter::Watcher(watcher), SessionEventKind::Agent(it)) if event.agent.is_main() => {
                drop(watcher.take(it))
            }
            (RunPrinter::Watcher(watcher), what) if child_line(what).is_some() => {
                drop(watcher.note(&child_line(what).unwrap_or_default()));
            }
            (RunPrinter::Watcher(_), _) => (),
            (RunPrinter::Quiet, what) => say_quietly(what, &event.agent, self.verbose),
        }
        Ok(())
    }

    /// Prints the result of the last turn and returns the exit code of the run.
    fn finish(&self, turn: &TurnEnded, handle: &SessionHandle) -> CommandExit {
        let (code, _) = self.outcome(&turn.end);
        match self.run.output.output_format {
            OutputFormat::Text => {
                self.print_text(&turn.end)?;
                if let Some(lost) = lost_line(&self.busts) {
                    print_error(&lost);
                }
            }
            OutputFormat::Json => {
                let mut frame = turn_frame(handle.id(), &turn.end, &turn.bill, &turn.facts);
                self.add_outcome(&mut frame, &turn.end);
                print_line(&frame.to_string())?;
            }
            OutputFormat::StreamJson => (),
        }
        // In machine-readable formats standard output has the reason as a code; standard error gets the
        // text.
        if self.run.output.output_format != OutputFormat::Text
            && let EndReason::Incomplete(_) | EndReason::Exhausted(_) = &turn.end.reason
            && let Some(problem) = end_line(&turn.end.reason)
        {
            print_error(&problem);
        }
        Ok(ExitCode::from(code))
    }

    /// Adds the fields that only the result of `haft -p` has to the result frame.
    fn add_outcome(&self, frame: &mut Value, end: &TurnEnd) {
        let (code, outcome) = self.outcome(end);
        frame["outcome"] = Value::from(outcome);
        frame["exit_code"] = Value::from(code);
        // The answer is complete, but it exceeded the budget.
        if let EndReason::Exhausted(LimitReached::Budget(_) | LimitReached::Tokens(_)) = end.reason
            && end.stop_reason == Some(StopReason::EndTurn)
        {
            frame["result"] = json!(end.text);
        }
        let listed = frame["permission_denials"].as_array_mut().into_iter().flatten();
        for (denial, listed) in end.denials.iter().zip(listed) {
            listed["reason"] = json!(denial.reason);
            if let Some(for_person) = &denial.for_person {
                listed["for_person"] = json!(for_person);
            }
        }
    }

    fn print_text(&self, end: &TurnEnd) -> Result<(), CliError> {
        if !end.text.is_empty() && !self.was_watched(&end.text) {
            if haft_console::style::colours() {
                let drawn = haft_console::style::printer().markdown(&end.text);
                haft_console::stdout::print_bytes(drawn.as_bytes())?;
            } else {
                print_untrusted(&end.text)?;
            }
        }
        if let Some(output) = &end.structured_output {
            print_line(&output.to_string())?;
        }
        for denial in &self.denials {
            print_error(denial.for_person.as_ref().unwrap_or(&denial.reason));
        }
        if let Some(problem) = end_line(&end.reason) {
            print_error(&problem);
        }
        Ok(())
    }

    /// Whether this answer was already printed to the terminal while it was generated.
    fn was_watched(&self, answer: &str) -> bool {
        let is_read = std::io::stdout().is_terminal();
        matches!(&self.shower, RunPrinter::Watcher(it) if is_read && it.said().trim() == answer.trim())
    }

    fn outcome(&self, end: &TurnEnd) -> (u8, &'static str) {
        let denied = !self.denials.is_empty() && !self.run.limits.allow_denials;
        outcome(&end.reason, denied, &self.interrupt)
    }
}

/// The exit code of a run and its name in the JSON result. Scripts depend on both.
pub(crate) fn outcome(reason: &EndReason, denied: bool, interrupt: &Interrupt) -> (u8, &'static str) {
    match haft_sdk_server::run_outcome(reason, denied) {
        (_, word @ "interrupted") => (interrupt.code(), word),
        ended => ended,
    }
}

fn say_quietly(what: &SessionEventKind, agent: &AgentId, verbose: bool) {
    match what {
        what if verbose && child_line(what).is_some() => print_error(&child_line(what).unwrap_or_default()),
        SessionEventKind::Notice(text) | SessionEventKind::Agent(AgentEvent::Notice(text)) => {
            print_error(text)
        }
        SessionEventKind::Detail(text) if verbose => print_error(text),
        // Print only the first retry; the final error is printed at the end.
        SessionEventKind::Agent(AgentEvent::Retrying(retry)) if retry.attempt == 1 => {
            print_error(&format!("{}; trying again, up to {} times", retry.reason, retry.most));
        }
        SessionEventKind::Agent(AgentEvent::Retrying(retry)) if verbose => {
            print_error(&format!("retry {} of {}: {}", retry.attempt, retry.most, retry.reason));
        }
        SessionEventKind::Agent(event @ AgentEvent::Repaired(_)) => {
            print_error(&agent_line(event).unwrap_or_default());
        }
        SessionEventKind::Agent(AgentEvent::CallFinished(it)) if verbose && agent.is_main() => {
            let mark = if it.report.error.is_some() { "failed" } else { "done" };
            print_error(&format!("{} {mark}", it.report.name));
        }
        _ => (),
    }
}

/// Prints the result of a prompt that was a slash command and returns the exit code.
fn finish_command(command: &CommandEnded, run: &RunArgs, handle: &SessionHandle) -> CommandExit {
    let (name, text, failed) = match &command.result {
        CommandResult::Cleared => ("clear", String::new(), false),
        CommandResult::Compacted { .. } => ("compact", String::from("Compacted"), false),
        CommandResult::NotCompacted(why) => ("compact", format!("Not compacted: {why}"), true),
        CommandResult::Context(text) => ("context", text.clone(), false),
        CommandResult::Cost(text) => ("cost", text.clone(), false),
        CommandResult::Failed(_, problem) => return Err(CliError::Message(problem.clone())),
    };
    match run.output.output_format {
        OutputFormat::Text if text.is_empty() => (),
        OutputFormat::Text if failed => print_error(&text),
        OutputFormat::Text => print_untrusted(&text)?,
        OutputFormat::Json => {
            let frame = local_result(handle.id(), name, &text, &command.bill, &command.facts);
            print_line(&frame.to_string())?;
        }
        OutputFormat::StreamJson => (),
    }
    Ok(ExitCode::from(u8::from(failed)))
}
