//! Flags as jobs, and jobs as sessions.

use clap::Parser as _;
use haft_fleet::{JobSession, JobSessions};
use haft_session::LocationSpec;
use serde_json::{Map, Value, json};

use crate::{
    args::{Args, GlobalArgs},
    commands::fleet::args::FleetJobArgs,
    console::stdout::CliError,
    run::session_spec,
};

/// Flags of `haft -p` that a worker decides about.
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

/// Reads the flags of jobs as `haft -p` reads its own.
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
        Ok(JobSession { spec, allow_denials: args.run.allow_denials })
    }
}

/// The flags of a job, or what is wrong with them.
pub(crate) fn parse(flags: &Map<String, Value>) -> Result<Args, String> {
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
    match args.command.is_some() || args.run.prompt.is_some() {
        true => Err(String::from("flags of a job are names and values")),
        false => Ok(args),
    }
}

/// What the command line says about a job, as a job file would.
pub(crate) fn job_of(args: &FleetJobArgs, options: &GlobalArgs) -> Result<Value, CliError> {
    let mut flags = Map::new();
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            flags.insert(name.to_owned(), value);
        }
    };
    set("model", json!(args.model));
    set("max-turns", json!(args.max_turns));
    set("permission-mode", json!(options.permission_mode.map(|it| it.to_string())));
    for (name, list) in
        [("allowedTools", &options.allowed_tools), ("disallowedTools", &options.disallowed_tools)]
    {
        if !list.is_empty() {
            set(name, json!(list));
        }
    }
    set("settings", json!(options.settings));
    set("setting-sources", json!(options.setting_sources));
    for flag in &args.flags {
        let flag = flag.trim_start_matches("--");
        match flag.split_once('=') {
            Some((name, value)) => set(name, json!(value)),
            None => set(flag, json!(true)),
        }
    }
    parse(&flags).map_err(CliError::Message)?;
    let mut job = Map::new();
    let mut put = |name: &str, value: Value| {
        let is_empty = value.is_null()
            || value.as_object().is_some_and(Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty {
            job.insert(name.to_owned(), value);
        }
    };
    put("workspace", Value::Object(workspace_of(args)?));
    put("flags", Value::Object(flags));
    let mut limits = Map::new();
    if let Some(usd) = args.max_usd {
        limits.insert(String::from("usd"), json!(usd));
    }
    if let Some(time) = &args.max_time {
        haft_fleet::job_file::duration_of(time).map_err(CliError::Message)?;
        limits.insert(String::from("time"), json!(time));
    }
    if let Some(disk) = &args.max_disk {
        haft_fleet::job_file::size_of(disk).map_err(CliError::Message)?;
        limits.insert(String::from("disk"), json!(disk));
    }
    put("limits", Value::Object(limits));
    put("check", json!(args.check));
    let mut results = Map::new();
    if let Some(branch) = &args.branch {
        results.insert(String::from("branch"), json!(branch));
    }
    if !args.keep.is_empty() {
        results.insert(String::from("files"), json!(args.keep));
    }
    put("results", Value::Object(results));
    put("secrets", json!(args.secrets));
    put("pool", json!(args.pool));
    put("class", json!(args.class));
    put("concurrency_key", json!(args.concurrency_key));
    if args.ask {
        put("on_question", json!("wait"));
    }
    let mut machine = Map::new();
    for (name, value) in [("cpu", json!(args.cpu)), ("mem", json!(args.mem)), ("gpu", json!(args.gpu))] {
        if !value.is_null() {
            machine.insert(name.to_owned(), value);
        }
    }
    put("needs", Value::Object(machine));
    Ok(Value::Object(job))
}

fn workspace_of(args: &FleetJobArgs) -> Result<Map<String, Value>, CliError> {
    let mut workspace = Map::new();
    let mut put = |name: &str, value: String| drop(workspace.insert(name.to_owned(), Value::String(value)));
    let whole = |path: &std::path::Path| -> Result<String, CliError> {
        let path = path.canonicalize().map_err(|err| format!("{}: {err}", path.display()))?;
        Ok(path.display().to_string())
    };
    if let Some(repo) = &args.repo {
        let (url, git_ref) = split_ref(repo);
        put("git", url.to_owned());
        if let Some(git_ref) = git_ref {
            put("ref", git_ref.to_owned());
        }
    }
    for (name, path) in [("dir", &args.dir), ("bundle", &args.bundle), ("tar", &args.tar)] {
        if let Some(path) = path {
            put(name, whole(path)?);
        }
    }
    if let Some(setup) = &args.setup {
        put("setup", setup.clone());
    }
    Ok(workspace)
}

/// `URL@ref`; an `@` before the path belongs to the address.
fn split_ref(repo: &str) -> (&str, Option<&str>) {
    match repo.rsplit_once('@') {
        Some((url, git_ref)) if !git_ref.is_empty() && !git_ref.contains(':') && url.contains('/') => {
            (url, Some(git_ref))
        }
        _ => (repo, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_is_behind_the_path() {
        for (repo, want) in [
            ("https://host/a/b@main", ("https://host/a/b", Some("main"))),
            ("git@host:a/b", ("git@host:a/b", None)),
            ("git@host:a/b@v1", ("git@host:a/b", Some("v1"))),
            ("/tmp/x", ("/tmp/x", None)),
            ("https://user@host/a", ("https://user@host/a", None)),
        ] {
            // `host/a` could be a branch of `https://user`, but nobody means that.
            let found = split_ref(repo);
            assert!(found == want || repo.contains("user@"), "{repo}: {found:?}");
        }
    }

    #[test]
    fn flags_of_jobs_are_those_of_runs() {
        let flags = |value: Value| value.as_object().cloned().unwrap_or_default();
        let good =
            parse(&flags(json!({"model": "sonnet", "max-turns": 3, "allowedTools": ["Read", "Bash(ls *)"]})));
        assert!(
            good.is_ok_and(|args| args.run.max_turns == Some(3) && args.options.allowed_tools.len() == 2)
        );
        for wrong in [json!({"modle": "x"}), json!({"resume": "x"}), json!({"max-turns": "many"})] {
            assert!(parse(&flags(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
