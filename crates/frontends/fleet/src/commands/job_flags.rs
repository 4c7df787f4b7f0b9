//! Turns command line flags into a job, in the format of a job file.

use haft_console::stdout::CliError;
use serde_json::{Map, Value, json};

use super::{FleetContext, args::FleetJobArgs};

/// Builds the job that the command line describes, in the format of a job file.
pub(super) fn job_of(args: &FleetJobArgs, context: &FleetContext) -> Result<Value, CliError> {
    let options = &context.options;
    let mut flags = Map::new();
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            flags.insert(name.to_owned(), value);
        }
    };
    set("model", json!(args.model));
    set("max-turns", json!(args.limits.max_turns));
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
    context.program.check_flags(&flags).map_err(CliError::Message)?;
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
    if let Some(usd) = args.limits.max_usd {
        limits.insert(String::from("usd"), json!(usd));
    }
    if let Some(time) = &args.limits.max_time {
        crate::job_file::duration_of(time).map_err(CliError::Message)?;
        limits.insert(String::from("time"), json!(time));
    }
    if let Some(disk) = &args.limits.max_disk {
        crate::job_file::size_of(disk).map_err(CliError::Message)?;
        limits.insert(String::from("disk"), json!(disk));
    }
    put("limits", Value::Object(limits));
    put("check", json!(args.checkout.check));
    let mut results = Map::new();
    if let Some(branch) = &args.checkout.branch {
        results.insert(String::from("branch"), json!(branch));
    }
    if !args.checkout.keep.is_empty() {
        results.insert(String::from("files"), json!(args.checkout.keep));
    }
    put("results", Value::Object(results));
    put("secrets", json!(args.secrets));
    put("pool", json!(args.placement.pool));
    put("class", json!(args.placement.class));
    put("concurrency_key", json!(args.placement.concurrency_key));
    if args.ask {
        put("on_question", json!("wait"));
    }
    let mut machine = Map::new();
    for (name, value) in [
        ("cpu", json!(args.placement.cpu)),
        ("mem", json!(args.placement.mem)),
        ("gpu", json!(args.placement.gpu)),
    ] {
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
    if let Some(repo) = &args.checkout.repo {
        let (url, git_ref) = split_ref(repo);
        put("git", url.to_owned());
        if let Some(git_ref) = git_ref {
            put("ref", git_ref.to_owned());
        }
    }
    for (name, path) in
        [("dir", &args.checkout.dir), ("bundle", &args.checkout.bundle), ("tar", &args.checkout.tar)]
    {
        if let Some(path) = path {
            put(name, whole(path)?);
        }
    }
    if let Some(setup) = &args.checkout.setup {
        put("setup", setup.clone());
    }
    Ok(workspace)
}

/// Splits `URL@ref`. An `@` before the path is part of the URL (a user name).
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
            // `host/a` could be a branch of a repository `https://user`, but a user name is far more
            // likely.
            let found = split_ref(repo);
            assert!(found == want || repo.contains("user@"), "{repo}: {found:?}");
        }
    }
}
