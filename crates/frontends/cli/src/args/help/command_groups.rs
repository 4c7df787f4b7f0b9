//! The groups of commands and flags in `haft -h` and `haft --help`.

use std::fmt::Write as _;

use clap::{Command, builder::StyledStr};

use super::complete;

/// Commands listed under one heading.
pub(super) struct CommandGroup {
    /// Name of the group in `haft -h`.
    label: &'static str,
    /// Heading of the group in `haft --help`.
    heading: &'static str,
    commands: &'static [&'static str],
}

const fn group(
    label: &'static str,
    heading: &'static str,
    commands: &'static [&'static str],
) -> CommandGroup {
    CommandGroup { label, heading, commands }
}

/// Every visible command exactly once (a test checks it).
const GROUPS: [CommandGroup; 9] = [
    group("Start", "Start", &["demo", "login", "logout", "models", "init", "import", "doctor"]),
    group("Review, undo", "Review and undo", &["diff", "history", "undo", "redo", "rewind", "view"]),
    group("Permissions", "Permissions and sandbox", &["permissions", "trust", "sandbox"]),
    group(
        "Sessions, cost",
        "Sessions and cost",
        &["sessions", "context", "cost", "tasks", "worktrees", "replay"],
    ),
    group("Extend", "Extend", &["agents", "skills", "plugins", "mcp", "new"]),
    group("Integrate", "Integrate", &["acp", "tool", "tool-host"]),
    group("Automate", "Automate", &["cron", "triggers"]),
    group("Fleet", "Fleet", &["fleet"]),
    group("Maintain", "Maintain", &["update", "bug", "reset", "completions", "dev", "help"]),
];

/// The flags in `haft -h`, in this order.
const SHORT_FLAGS: [&str; 17] = [
    "print",
    "continue_",
    "resume",
    "model",
    "provider",
    "effort",
    "permission_mode",
    "allowed_tools",
    "disallowed_tools",
    "max_turns",
    "max_budget_usd",
    "output_format",
    "add_dir",
    "host",
    "json",
    "help",
    "version",
];

const USAGE: &str = "haft [OPTIONS] [PROMPT]        start a session (-p: run once and exit)\n       haft \
                     [OPTIONS] <COMMAND>";
const EXAMPLES: &str = "Try: haft demo    haft \"explain this repository\"    git diff | haft -p \"review\"";

/// Builds `haft -h`, which fits on one screen.
pub(super) fn short_help(root: Command) -> StyledStr {
    let mut commands = String::new();
    for CommandGroup { label, commands: names, .. } in &GROUPS {
        let _ = writeln!(commands, "{}{}", bold(&format!("{label:<16}")), names.join("  "));
    }
    let position = |id: &str| SHORT_FLAGS.iter().position(|it| *it == id);
    let help = root
        .mut_args(|it| match position(it.get_id().as_str()) {
            Some(position) => it.display_order(position).hide_possible_values(true).hide_default_value(true),
            None => it.hide(true),
        })
        .mut_arg("effort", |it| it.help("Reasoning effort: low, medium, high, xhigh, max"))
        .mut_arg("help", |it| it.help("This summary (-h), or everything (--help)"))
        .override_usage(USAGE)
        .after_help(EXAMPLES)
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{COMMANDS}{{options}}{{after-help}}"
        ))
        .render_help();
    with_commands(&help, &commands)
}

/// Placeholder that is replaced by the list of commands; clap would re-wrap the rows.
const COMMANDS: &str = "@commands@\n\n";

fn with_commands(help: &StyledStr, commands: &str) -> StyledStr {
    StyledStr::from(help.ansi().to_string().replace(COMMANDS, &format!("{commands}\n")))
}

/// Builds `haft --help`: every visible command and flag, in groups, wrapped at `columns`.
pub(super) fn complete_help(root: Command, columns: usize) -> StyledStr {
    let commands = GROUPS.iter().map(|it| rows(&root, it, columns)).collect::<Vec<_>>().join("\n");
    let help = complete(root)
        .mut_subcommands(|it| it.hide(true))
        .mut_arg("help", |it| it.help_heading("Other options").help("A summary (-h), or everything (--help)"))
        .mut_arg("version", |it| it.help_heading("Other options"))
        .override_usage(USAGE)
        .after_help(format!("`haft <COMMAND> --help` explains a command.\n{EXAMPLES}"))
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{COMMANDS}{{all-args}}{{after-help}}"
        ))
        .render_help();
    with_commands(&help, &commands)
}

/// One row per command of a group: name and description.
fn rows(root: &Command, group: &CommandGroup, columns: usize) -> String {
    let mut text = format!("{}\n", heading(&format!("{} commands:", group.heading)));
    for name in group.commands {
        let about = root.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let mut lines = wrapped(&about, columns.saturating_sub(NAME_WIDTH + 2).max(20)).into_iter();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(text, "  {}{first}", bold(&format!("{name:<NAME_WIDTH$}")));
        for line in lines {
            let _ = writeln!(text, "  {:NAME_WIDTH$}{line}", "");
        }
    }
    text
}

/// Columns reserved for a command's name.
const NAME_WIDTH: usize = 13;

fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Bold, in the style clap uses for flag names.
fn bold(text: &str) -> String {
    format!("\u{1b}[1m{text}\u{1b}[0m")
}

/// Styled like clap's headings.
fn heading(text: &str) -> String {
    format!("\u{1b}[1m\u{1b}[4m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    #[test]
    fn every_command_is_in_one_group() {
        let mut root = Args::command();
        root.build();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|it| it.commands).copied().collect();
        for command in root.get_subcommands().filter(|it| !it.is_hide_set()) {
            let count = grouped.iter().filter(|it| **it == command.get_name()).count();
            assert_eq!(count, 1, "{}", command.get_name());
        }
        for name in grouped {
            assert!(root.find_subcommand(name).is_some(), "{name}");
        }
        for flag in SHORT_FLAGS {
            assert!(root.get_arguments().any(|it| it.get_id() == flag), "{flag}");
        }
    }
}
