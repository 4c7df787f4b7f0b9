//! Output for a command line that cannot be parsed.

use std::process::ExitCode;

use clap::{
    CommandFactory as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use haft_console::stdout::write_error;

/// Advice if the prompt was not quoted, or a subcommand is misspelled.
fn unquoted_prompt(err: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = err.get(ContextKind::InvalidArg) else { return None };
    let given: Vec<String> = std::env::args_os().skip(1).filter_map(|it| it.into_string().ok()).collect();
    let first = given.iter().find(|it| !it.starts_with('-'))?;
    let is_prompt = !word.starts_with('-') && crate::args::Args::command().find_subcommand(first).is_none();
    if err.kind() != ErrorKind::UnknownArgument || !is_prompt {
        return None;
    }
    let quoted = format!("A prompt of several words goes into quotes: haft \"{first} {word} …\"");
    let prints = given.iter().any(|it| it == "-p" || it == "--print");
    let meant = if prints { None } else { crate::run::print::nearest_command(first) };
    Some(match meant {
        Some(meant) => format!("There is no command {first}; did you mean `haft {meant}`? {quoted}"),
        None => quoted,
    })
}

/// Prints a usage error and returns its exit code. Under an SDK it is one line and exit code 1; at a
/// terminal it includes help.
pub(crate) fn refuse(err: &clap::Error) -> ExitCode {
    let is_sdk = std::env::args_os().any(|it| it.to_string_lossy().starts_with("--input-format"));
    if !is_sdk || !err.use_stderr() {
        super::help::print(err).ok();
        if let Some(tip) = unquoted_prompt(err) {
            write_error(&tip);
        }
        return ExitCode::from(u8::try_from(err.exit_code()).unwrap_or(2));
    }
    write_error(err.render().to_string().lines().next().unwrap_or("error: bad flags"));
    ExitCode::FAILURE
}
