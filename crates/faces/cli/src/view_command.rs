//! `haft view`: a session as a page, or as a trace.

use std::{path::PathBuf, process::ExitCode};

use haft_view::{LoggedSession, page, trace};

use crate::{
    args::{Options, ViewArgs},
    output::{Ended, Failure, print_line},
    sessions_command, spec,
};

pub(crate) fn run(args: &ViewArgs, options: &Options) -> Ended {
    let path = log_path(args.session.as_deref(), options)?;
    let session = LoggedSession::read(&path).map_err(|err| format!("{}: {err}", path.display()))?;
    if let Some(file) = &args.html {
        write(file, &page(&session))?;
    }
    if let Some(file) = &args.perfetto {
        write(file, &trace(&session).to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A session of this directory, or a log anywhere.
fn log_path(named: Option<&str>, options: &Options) -> Result<PathBuf, Failure> {
    if let Some(path) = named.map(PathBuf::from).filter(|it| it.extension().is_some_and(|it| it == "jsonl")) {
        return Ok(options.cwd.clone().unwrap_or_default().join(path));
    }
    let logs = spec::logs(options)?;
    let id = sessions_command::named_or_newest(&logs, named)?;
    Ok(logs.path(&id))
}

fn write(file: &PathBuf, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|err| format!("{}: {err}", file.display()))?;
    print_line(&file.display().to_string())
}
