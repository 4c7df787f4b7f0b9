//! Pages about the program, written from its own definitions: `haft dev docs` and the manual pages.

use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};

use crate::{args::Args, dev_command::tools_page, output::CliError};

/// Commands by what they are for. Every command that is not hidden is in one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["demo", "login", "logout", "models", "init", "import", "doctor"]),
    ("Review, undo", &["diff", "history", "undo", "redo", "rewind", "view"]),
    ("Permissions", &["permissions", "trust", "sandbox"]),
    ("Sessions", &["sessions", "context", "cost", "tasks", "worktrees", "replay"]),
    ("Extend", &["agents", "skills", "plugins", "mcp", "new"]),
    ("Integrate", &["acp", "tool", "tool-host"]),
    ("Automate", &["cron", "triggers", "fleet"]),
    ("Maintain", &["update", "bug", "reset", "completions", "dev"]),
];

/// Every generated page of `docs/`, with its path there.
pub(crate) fn pages() -> Result<Vec<(&'static str, String)>, CliError> {
    Ok(vec![
        ("reference/cli.md", cli_page()),
        ("reference/slash-commands.md", haft_tui::slash_commands_page()),
        ("reference/keys.md", haft_tui::keys_page()),
        ("reference/settings.md", haft_config::settings_page()),
        ("reference/environment.md", haft_types::environment_page()),
        ("reference/tools.md", tools_page()?),
        ("reference/hooks.md", haft_hooks::events_page()),
        ("reference/stream-json.md", haft_sdk_server::frames_page()),
        ("reference/exit-codes.md", haft_types::exit_codes::exit_codes_page()),
        ("reference/models.md", haft_model::models_page()),
    ])
}

/// Every command with its whole help. Flags that all commands take are shown once, with `haft`.
fn cli_page() -> String {
    let mut root = Args::command().term_width(100);
    root.build();
    let mut page = String::from(
        "# Command line\n\nEvery command and flag, as `haft --help` prints them. Written by `cargo xtask docs`; do not \
         edit.\n\n```sh\nhaft -p \"explain this repository\" --output-format json\n```\n\nThe flags under Everywhere in \
         the section [haft](#haft) belong to every command; the other sections do not repeat them. Flags of a run with \
         a model are refused by commands that have no use for them. How a command ended: [exit codes](exit-codes.md).\n",
    );
    page.push_str("\n## Commands by group\n\n| group | command | |\n|---|---|---|\n");
    for (group, names) in GROUPS {
        let found = names.iter().filter_map(|name| root.find_subcommand(name));
        found.for_each(|command| page.push_str(&command_row(group, command)));
    }
    let hidden: Vec<String> = root.get_arguments().filter(|arg| arg.is_hide_set()).map(hidden_row).collect();
    section(&mut root, "haft", &mut page);
    page.push_str(
        "\n## Flags that --help does not show\n\nThey work with `haft` and `haft -p` as well; most exist for the Agent \
         SDKs. Flags without a description are accepted for programs that pass them, and have no effect.\n\n\
         | flag | |\n|---|---|\n",
    );
    page.push_str(&hidden.concat());
    page.push_str(
        "\nOther spellings: `--permissionMode`, `--allowed-tools`, `--disallowed-tools`, `--addDir`.\n",
    );
    page
}

fn command_row(group: &str, command: &Command) -> String {
    let name = command.get_name();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    format!("| {group} | [`haft {name}`](#haft-{name}) | {} |\n", cell(&about))
}

fn hidden_row(flag: &Arg) -> String {
    let value = match (flag.get_action().takes_values(), flag.get_value_names()) {
        (true, Some([name, ..])) => format!(" <{name}>"),
        _ => String::new(),
    };
    let about = flag.get_help().map(ToString::to_string).unwrap_or_default();
    format!("| `--{}{value}` | {} |\n", flag.get_long().unwrap_or_default(), cell(&about))
}

/// Text that may stand in a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

fn section(command: &mut Command, name: &str, page: &mut String) {
    if name != "haft" {
        let own = std::mem::take(command);
        *command = own.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
    }
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    let is_shown = |it: &&mut Command| !it.is_hide_set() && it.get_name() != "help";
    for inner in command.get_subcommands_mut().filter(is_shown) {
        let name = format!("{name} {}", inner.get_name());
        section(inner, &name, page);
    }
}

/// Writes a manual page for every command.
pub(crate) fn manual(dir: &Path) -> Result<(), CliError> {
    let failed = |err: std::io::Error| CliError::Message(format!("{}: {err}", dir.display()));
    clap_mangen::generate_to(Args::command(), dir).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_pages_equal_the_files_in_docs() {
        for (name, page) in pages().unwrap() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(name);
            let written = std::fs::read_to_string(path).unwrap_or_default();
            assert!(written == page, "docs/{name} is out of date; run `cargo xtask docs`");
        }
    }

    #[test]
    fn every_visible_command_is_in_exactly_one_group() {
        let root = Args::command();
        let mut visible: Vec<&str> =
            root.get_subcommands().filter(|it| !it.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|it| it.1).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn global_flags_and_hidden_flags_are_on_the_page_once() {
        let page = cli_page();
        assert_eq!(page.matches("--add-dir <DIR>").count(), 1);
        assert_eq!(page.matches("--dangerously-skip-permissions`").count(), 1);
        assert!(page.contains("| `--debug") && page.contains("## haft tool call"));
    }
}
