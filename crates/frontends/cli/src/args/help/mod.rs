//! Builds the output of `-h` and `--help`: `haft -h` fits on one screen, `--help` is complete and
//! grouped. The reference page of the command line uses the same texts.
//!
//! The parser knows no groups, so that normal starts pay nothing for them: a command line that asks for
//! help is parsed a second time with them.

mod command_groups;
mod global_flags;
mod width;

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _, Write as _},
};

use clap::{Command, CommandFactory as _, error::ErrorKind};
use haft_console::style;

use super::{Args, is_tool_name, list_flags};

/// Maximum columns of help, also used when the output is not a terminal.
pub(crate) const COLUMNS: usize = 100;

/// Which of the two help texts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HelpDetail {
    Short,
    Complete,
}

/// Prints the help or the usage error that clap returned.
pub(crate) fn print(said: &clap::Error) -> io::Result<()> {
    let is_help =
        matches!(said.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
    let Some((path, detail)) = is_help.then(|| asked(std::env::args_os().collect())).flatten() else {
        return said.print();
    };
    let columns = width::columns();
    let help = text(&path, detail, columns.map_or(COLUMNS, |it| it.min(COLUMNS)));
    let is_err = said.use_stderr();
    let is_drawn = if is_err { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    let plain = help.to_string();
    let text = match columns {
        Some(columns) if !width::fits(&plain, columns) => width::fold(&plain, columns),
        _ if is_drawn && style::wants_colours() => help.ansi().to_string(),
        _ => plain,
    };
    if is_err { io::stderr().write_all(text.as_bytes()) } else { io::stdout().write_all(text.as_bytes()) }
}

/// Which command's help the command line asks for, and in which detail. `None` if it asks for none.
fn asked(words: Vec<OsString>) -> Option<(Vec<String>, HelpDetail)> {
    let mut root = marked(Args::command(), "");
    let words = list_flags::one_word_each(words, &root, &is_tool_name);
    let said = root.try_get_matches_from_mut(words).err()?.to_string();
    let (detail, path) = match said.trim().split_once(':')? {
        ("short", path) => (HelpDetail::Short, path),
        ("complete", path) => (HelpDetail::Complete, path),
        // clap generates `haft help help` while it parses, so it has no marker.
        _ => return None,
    };
    Some((path.split_whitespace().map(str::to_owned).collect(), detail))
}

/// Replaces the help text of the command and all its subcommands by the command's path, so that the
/// output of a parse tells whose help was requested.
fn marked(command: Command, path: &str) -> Command {
    let below = |it: Command| {
        let path = format!("{path} {}", it.get_name());
        marked(it, &path)
    };
    command
        .help_template("{before-help}")
        .before_help(format!("short:{path}"))
        .before_long_help(format!("complete:{path}"))
        .mut_subcommands(below)
}

/// Help text of the command with this path below `haft`.
pub(crate) fn text(path: &[String], detail: HelpDetail, columns: usize) -> clap::builder::StyledStr {
    let mut root = Args::command().term_width(columns);
    root.build();
    if path.is_empty() {
        return match detail {
            HelpDetail::Short => command_groups::short_help(root),
            HelpDetail::Complete => command_groups::complete_help(root, columns),
        };
    }
    let mut command = &root;
    for name in path {
        command = command.find_subcommand(name).unwrap_or(command);
    }
    let note = global_flags::note(command, &path.join(" "), detail);
    let command = command.clone().mut_args(|it| if it.is_global_set() { it.hide(true) } else { it });
    let command = if detail == HelpDetail::Complete { complete(command) } else { command };
    // `haft help` has no `--help` flag.
    let mut command = command.mut_args(|it| if it.get_id() == "help" { it.help("Print help") } else { it });
    if let Some(note) = note {
        command = command.after_help(note);
    }
    command.render_help()
}

/// Returns the command with the long descriptions of `--help` in the compact layout of `-h`.
fn complete(command: Command) -> Command {
    let about = command.get_long_about().or(command.get_about()).cloned().unwrap_or_default();
    command.about(about).mut_args(|it| match it.get_long_help() {
        Some(text) => {
            let text = text.to_string().replace("\n\n", ". ");
            let text = text.trim_end_matches('.').to_owned();
            it.help(text)
        }
        None => it,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    fn help(words: &[&str]) -> String {
        let words = std::iter::once("haft").chain(words.iter().copied()).map(OsString::from).collect();
        let (path, detail) = asked(words).unwrap();
        text(&path, detail, COLUMNS).to_string()
    }

    #[test]
    fn help_is_of_the_command_that_is_asked_about() {
        for (words, path, detail) in [
            (&["-h"][..], "", HelpDetail::Short),
            (&["--help"], "", HelpDetail::Complete),
            (&["help"], "", HelpDetail::Complete),
            (&["tool", "-h"], "tool", HelpDetail::Short),
            (&["tool", "call", "--help"], "tool call", HelpDetail::Complete),
            (&["help", "tool", "call"], "tool call", HelpDetail::Complete),
            (&["--json", "fleet", "submit", "-h"], "fleet submit", HelpDetail::Short),
            (&["--allowedTools", "Read", "Edit", "tool", "list", "-h"], "tool list", HelpDetail::Short),
            // A command without its required subcommand prints its help.
            (&["tool"], "tool", HelpDetail::Short),
        ] {
            let words = std::iter::once(&"haft").chain(words).map(OsString::from).collect();
            let path = path.split_whitespace().map(str::to_owned).collect();
            assert_eq!(asked(words), Some((path, detail)));
        }
        assert_eq!(asked(["haft", "help", "help"].map(OsString::from).to_vec()), None);
    }

    #[test]
    fn short_help_fits_one_screen() {
        let help = help(&["-h"]);
        let rows = help.lines().count();
        assert!(rows <= 40, "{rows} rows\n{help}");
        assert!(width::fits(&help, 100), "{help}");
    }

    #[test]
    fn complete_help_names_every_command_and_flag_that_is_not_hidden() {
        let mut root = Args::command();
        root.build();
        let complete = help(&["--help"]);
        let rows: Vec<&str> = complete.lines().map(str::trim_start).collect();
        for command in root.get_subcommands().filter(|it| !it.is_hide_set()) {
            let start = format!("{} ", command.get_name());
            let count = rows.iter().filter(|row| row.starts_with(&start)).count();
            assert_eq!(count, 1, "{start}\n{complete}");
        }
        for flag in root.get_arguments().filter(|it| !it.is_hide_set()) {
            let Some(long) = flag.get_long() else { continue };
            let is_flag = |row: &&&str| {
                row.split_whitespace().take(2).any(|word| word == format!("--{long}")) && row.starts_with('-')
            };
            assert_eq!(rows.iter().filter(is_flag).count(), 1, "--{long}\n{complete}");
        }
    }

    /// `haft --help` explains global flags; each command only names those it uses.
    #[test]
    fn global_flags_are_named_where_they_work() {
        for (words, has, lacks) in [
            (&["tool", "call", "--help"][..], &["--json", "--allowedTools <RULES>"][..], &[][..]),
            (&["sessions", "list", "--help"], &["--json", "--cwd <DIR>"], &["--permission-mode", "--host"]),
            (&["completions", "--help"], &[], &["--json", "--cwd", "--settings"]),
            (&["tool", "call", "-h"], &["haft --help"], &["--json"]),
        ] {
            let help = help(words);
            assert!(has.iter().all(|it| help.contains(it)), "{words:?}\n{help}");
            assert!(lacks.iter().all(|it| !help.contains(it)), "{words:?}\n{help}");
        }
    }
}
