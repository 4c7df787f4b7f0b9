//! Command hooks: a program that gets the input on standard input and answers with standard output and
//! exit status.

use std::{ffi::OsString, io, path::Path, sync::Arc, time::Duration};

use haft_process::ProcessOwner;
use tokio::{process::Command, time::Instant};

use crate::{
    CommandHandler, ErrorPolicy, HookCall, HookEnvironment, HookFailure, HookId,
    parse_answer::{FinishedProcess, HandlerAnswer, of_process},
    ports::working_directory,
    process_group::{HookName, HookStragglers},
    running_process::{Announcement, EndedProcess, RunningHook, Waited},
    script_check::{ScriptContext, never_ran},
};

/// A command hook with its context.
pub(crate) struct CommandRun<'a> {
    /// Name of the hook in process lists.
    pub(crate) id: &'a HookId,
    pub(crate) processes: &'a Arc<ProcessOwner>,
    pub(crate) handler: &'a CommandHandler,
    pub(crate) environment: &'a HookEnvironment,
    /// Variables of this hook.
    pub(crate) env: &'a [(String, String)],
    pub(crate) call: &'a HookCall,
    pub(crate) timeout: Duration,
    pub(crate) policy: ErrorPolicy,
}

/// Result of waiting for a command.
pub(crate) enum CommandEnd {
    Answered(Box<HandlerAnswer>, Option<Stragglers>),
    /// It continues in the background, for at most this long.
    Announced(Box<RunningHook>, Duration),
}

/// Processes a command left running, and how long they may run.
pub(crate) struct Stragglers {
    pub(crate) leftover: HookStragglers,
    pub(crate) deadline: Instant,
}

impl CommandRun<'_> {
    /// Runs the command and waits for it.
    pub(crate) async fn run(&self, announcement: Announcement) -> CommandEnd {
        let deadline = Instant::now() + self.timeout;
        match self.start() {
            Ok(running) => self.wait(running, deadline, announcement).await,
            Err(error) => {
                CommandEnd::Answered(Box::new(HandlerAnswer::broken(not_started(self.handler, &error))), None)
            }
        }
    }

    /// Waits for a running command.
    pub(crate) async fn wait(
        &self,
        running: RunningHook,
        deadline: Instant,
        announcement: Announcement,
    ) -> CommandEnd {
        match running.wait(deadline, announcement).await {
            Waited::Announced(running, asked) => {
                CommandEnd::Announced(running, asked.unwrap_or(self.timeout).min(self.timeout))
            }
            Waited::Ended(ended) => {
                let EndedProcess { end, stdout, stderr, leftover } = ended;
                let finished = FinishedProcess {
                    end,
                    stdout,
                    stderr,
                    limit: self.timeout,
                    never_ran: &|status, stderr| self.never_ran(status, stderr),
                };
                let answer = of_process(finished, self.call.event(), self.policy);
                CommandEnd::Answered(
                    Box::new(answer),
                    leftover.map(|leftover| Stragglers { leftover, deadline }),
                )
            }
        }
    }

    fn start(&self) -> io::Result<RunningHook> {
        let variables = self.environment.variables(self.call, self.env);
        let directory = working_directory(self.call, self.environment);
        let mut command = match self.handler {
            CommandHandler::Shell { line, shell } => {
                let mut command = Command::new(shell.as_deref().unwrap_or(default_shell()));
                command.arg("-c").arg(line);
                command
            }
            CommandHandler::Exec { program, args } => {
                let fill = |text: &str| filled(text, &variables);
                let mut command = Command::new(fill(program));
                command.args(args.iter().map(|arg| fill(arg)));
                command
            }
        };
        command.current_dir(directory).env_clear().envs(variables);
        let line = match self.handler {
            CommandHandler::Shell { line, .. } => line.clone(),
            CommandHandler::Exec { program, args } => [&[program.clone()][..], args].concat().join(" "),
        };
        let name = HookName { id: self.id.as_str(), command: &line };
        RunningHook::start(self.processes, name, command, self.call.bytes.clone())
    }

    fn never_ran(&self, status: i32, stderr: &str) -> Option<String> {
        let variables = self.environment.variables(self.call, self.env);
        let variable = |name: &str| lookup(name, &variables);
        let cwd = working_directory(self.call, self.environment);
        let filled = match self.handler {
            CommandHandler::Exec { program, args } => CommandHandler::Exec {
                program: filled(program, &variables),
                args: args.iter().map(|arg| filled(arg, &variables)).collect(),
            },
            shell @ CommandHandler::Shell { .. } => shell.clone(),
        };
        never_ran(&filled, status, stderr, &ScriptContext { cwd, variable: &variable })
    }
}

/// The last assignment counts, as in the process itself.
fn lookup(name: &str, variables: &[(OsString, OsString)]) -> Option<String> {
    let found = variables.iter().rev().find(|(it, _)| it == name);
    found.and_then(|(_, value)| value.to_str()).map(str::to_owned)
}

/// Expands `${NAME}` for hook directories, because without a shell nothing else would.
fn filled(text: &str, variables: &[(OsString, OsString)]) -> String {
    const NAMES: [&str; 5] =
        ["CLAUDE_PROJECT_DIR", "HAFT_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "HOME"];
    let fill = |text: String, name: &&str| match lookup(name, variables) {
        Some(value) => text.replace(&format!("${{{name}}}"), &value),
        None => text,
    };
    NAMES.iter().fold(text.to_owned(), fill)
}

/// Bash is the documented default; falls back to the system's shell.
fn default_shell() -> &'static str {
    let paths = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash"];
    paths.into_iter().find(|path| Path::new(path).exists()).unwrap_or("/bin/sh")
}

fn not_started(handler: &CommandHandler, error: &io::Error) -> HookFailure {
    let program = match handler {
        CommandHandler::Shell { shell, .. } => shell.as_deref().unwrap_or(default_shell()),
        CommandHandler::Exec { program, .. } => program,
    };
    let why = match error.kind() {
        io::ErrorKind::NotFound => format!("there is no program {program}, or its interpreter is missing"),
        io::ErrorKind::PermissionDenied => format!("{program} is not executable"),
        _ => format!("{program}: {error}"),
    };
    HookFailure::NotStarted(why)
}
