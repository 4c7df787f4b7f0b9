//! `haft tasks`: lists the processes that commands, hooks and MCP servers of all sessions have running,
//! and stops them.

use std::{path::Path, process::ExitCode, time::Duration};

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes, print_error, print_line},
    style,
};
use haft_process::{LiveProcesses, ProcessPurpose, everything};
use haft_shell::run::Shell;
use serde_json::{Value, json};

use crate::{args::TasksCommand, run::session_spec};

/// Maximum time to wait for the processes of a stopped task to end.
const TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn run(command: Option<TasksCommand>, options: &GlobalArgs) -> CommandExit {
    let state = session_spec::premises(options)?.state_dir();
    let running = everything(&Shell::registries(&state));
    match command.unwrap_or(TasksCommand::List) {
        TasksCommand::List => list(&running, &state, options),
        TasksCommand::Stop { id } => stop(&running, id.as_deref()),
        TasksCommand::Output { id } => output(&running, &state, &id),
    }
}

fn list(running: &[LiveProcesses], state: &Path, options: &GlobalArgs) -> CommandExit {
    for task in running {
        if options.json {
            print_line(&line(task, state).to_string())?;
            continue;
        }
        let pids: Vec<String> = task.processes.iter().map(|it| it.id.pid.to_string()).collect();
        let about = format!("{}  {}  pid {}", name_of(task), standing(task), pids.join(", "));
        let text = format!("{about}\n    {}\n    session {}\n", task.command, task.session);
        print_bytes(style::clean(&text).as_bytes())?;
    }
    if running.is_empty() && !options.json {
        print_line("nothing is running")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(task: &LiveProcesses, state: &Path) -> Value {
    let processes: Vec<Value> =
        task.processes.iter().map(|it| json!({"pid": it.id.pid, "command": it.command})).collect();
    let file = Shell::output_of(state, &task.session, &task.task);
    json!({
        "id": id_of(task), "owner": task.purpose.label(), "call": task.call, "session": task.session, "command": task.command,
        "standing": standing(task), "processes": processes, "output": file.exists().then(|| file.to_string_lossy()),
    })
}

/// The task's id in its session; the call's id if it has none.
fn id_of(task: &LiveProcesses) -> &str {
    if task.task.is_empty() { &task.call } else { &task.task }
}

/// Like [`id_of`], with the purpose in front for hooks and MCP servers.
fn name_of(task: &LiveProcesses) -> String {
    match task.purpose {
        ProcessPurpose::Command => id_of(task).to_owned(),
        purpose => format!("{} {}", purpose.label(), id_of(task)),
    }
}

fn standing(task: &LiveProcesses) -> &'static str {
    match (task.session_lives, task.detached) {
        (_, true) => "detached",
        (true, false) => "running",
        (false, false) => "left by a session that is gone",
    }
}

/// Whether `id` names this task: by call, hook, server, task or process id.
fn means(task: &LiveProcesses, id: &str) -> bool {
    let pid = || task.processes.iter().any(|it| it.id.pid.to_string() == id);
    task.call == id || task.task == id || pid()
}

fn stop(running: &[LiveProcesses], id: Option<&str>) -> CommandExit {
    let wanted: Vec<&LiveProcesses> = match id {
        Some(id) => named(running, id)?,
        None => running.iter().filter(|it| !it.session_lives && !it.detached).collect(),
    };
    let mut all = true;
    for task in &wanted {
        if task.end(TIMEOUT) {
            print_line(&style::clean(&format!("ended {} ({})", name_of(task), task.command)))?
        } else {
            all = false;
            print_error(&format!("{} is still running", name_of(task)));
        }
    }
    if wanted.is_empty() {
        print_line("no session that is gone left anything running")?;
    }
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn output(running: &[LiveProcesses], state: &Path, id: &str) -> CommandExit {
    let tasks = named(running, id)?;
    let mut files = tasks.iter().map(|it| Shell::output_of(state, &it.session, &it.task));
    let Some(file) = files.find(|it| it.is_file()) else {
        return Err(CliError::Message(format!("the output of {id} is in the memory of its session")));
    };
    print_bytes(&std::fs::read(file)?)
}

fn named<'a>(running: &'a [LiveProcesses], id: &str) -> Result<Vec<&'a LiveProcesses>, CliError> {
    let found: Vec<&LiveProcesses> = running.iter().filter(|it| means(it, id)).collect();
    if found.is_empty() {
        Err(CliError::Message(format!("nothing that runs is called {id}; see `haft tasks`")))
    } else {
        Ok(found)
    }
}
