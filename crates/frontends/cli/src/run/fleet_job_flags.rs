//! Fleet jobs as sessions. A job takes the flags of `haft -p`.

use std::sync::Arc;

use clap::Parser as _;
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit},
};
use haft_fleet::{
    JobSession, JobSessions,
    commands::{FleetContext, FleetProgram, args::FleetCommand},
};
use haft_session::{LocationSpec, SessionEnvironment};
use serde_json::{Map, Value};

use crate::{args::Args, run::session_spec};

/// Flags of `haft -p` that a job may not set, because the worker decides them.
const OWN: [&str; 14] = [
    "print",
    "output-format",
    "input-format",
    "resume",
    "continue",
    "fork-session",
    "session-id",
    "record",
    "cwd",
    "json",
    "verbose",
    "ide",
    "permission-prompts",
    "no-session-persistence",
];

pub(crate) fn run_command(command: FleetCommand, options: &GlobalArgs) -> CommandExit {
    let context = FleetContext { options: options.clone(), program: Arc::new(FlagSessions) };
    haft_fleet::commands::run(command, &context)
}

/// Builds the sessions of fleet jobs by parsing their flags like those of `haft -p`.
pub(crate) struct FlagSessions;

impl JobSessions for FlagSessions {
    fn session(&self, flags: &Map<String, Value>, place: LocationSpec) -> Result<JobSession, String> {
        let args = parse(flags)?;
        let failed = |failure: CliError| match failure {
            CliError::Message(message) => message,
            CliError::ClosedPipe => String::from("the output is closed"),
        };
        let mut spec = session_spec::of_run(&args.run, &args.options).map_err(failed)?;
        spec.place = LocationSpec { extra_dirs: args.options.add_dir.clone(), ..place };
        Ok(JobSession { spec, allow_denials: args.run.limits.allow_denials })
    }
}

impl FleetProgram for FlagSessions {
    fn check_flags(&self, flags: &Map<String, Value>) -> Result<(), String> {
        parse(flags).map(drop)
    }

    fn environment(&self, options: &GlobalArgs) -> Result<Arc<SessionEnvironment>, CliError> {
        session_spec::premises(options)
    }
}

/// Parses the flags of a job. The error says which flag is wrong.
fn parse(flags: &Map<String, Value>) -> Result<Args, String> {
    let mut words = vec![String::from("haft"), String::from("--print")];
    for (name, value) in flags {
        if OWN.contains(&name.as_str()) {
            return Err(format!("--{name} is not for jobs: the worker decides about it"));
        }
        let mut add = |value: &Value| match value {
            Value::Bool(true) => words.push(format!("--{name}")),
            Value::Bool(false) | Value::Null => (),
            Value::String(text) => words.push(format!("--{name}={text}")),
            other => words.push(format!("--{name}={other}")),
        };
        match value {
            Value::Array(items) => items.iter().for_each(add),
            one => add(one),
        }
    }
    let args = Args::try_parse_from(words).map_err(|err| {
        let text = err.to_string();
        let first = text.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).to_owned()
    })?;
    if args.command.is_some() || args.run.prompt.is_some() {
        Err(String::from("flags of a job are names and values"))
    } else {
        Ok(args)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flags_of_jobs_are_those_of_runs() {
        let flags = |value: Value| value.as_object().cloned().unwrap_or_default();
        let good =
            parse(&flags(json!({"model": "sonnet", "max-turns": 3, "allowedTools": ["Read", "Bash(ls *)"]})));
        assert!(
            good.is_ok_and(
                |args| args.run.limits.max_turns == Some(3) && args.options.allowed_tools.len() == 2
            )
        );
        for wrong in [json!({"modle": "x"}), json!({"resume": "x"}), json!({"max-turns": "many"})] {
            assert!(parse(&flags(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
