//! Generates pages of `docs/` and the manual pages.

use std::path::Path;

use clap::{Command, CommandFactory as _};
use haft_console::stdout::CliError;

use super::tools_page;
use crate::args::{
    Args,
    help::{self, HelpDetail},
};

/// All generated pages: path in `docs/`, and text.
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

/// The page with the complete help of every command.
fn cli_page() -> String {
    let mut page = String::from(
        "# Command line\n\nEvery command and flag, as `haft --help` prints them. Written by `cargo xtask docs`; do not \
         edit.\n\n```sh\nhaft -p \"explain this repository\" --output-format json\n```\n\nFlags of a run with a model are \
         refused by commands that have no use for them. How a command ended: [exit codes](exit-codes.md). Other \
         spellings: `--permissionMode`, `--allowed-tools`, `--disallowed-tools`, `--addDir`.\n",
    );
    let mut root = Args::command();
    root.build();
    section(&root, &[], &mut page);
    page
}

fn section(command: &Command, path: &[String], page: &mut String) {
    let help = help::text(path, HelpDetail::Complete, help::COLUMNS).to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let name = [&[String::from("haft")], path].concat().join(" ");
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    let is_shown = |it: &&Command| !it.is_hide_set() && it.get_name() != "help";
    for inner in command.get_subcommands().filter(is_shown) {
        section(inner, &[path, &[inner.get_name().to_owned()]].concat(), page);
    }
}

/// Writes one manual page per command into `dir`.
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
    fn cli_page_has_commands_of_every_depth_and_flags_of_the_sdks() {
        let page = cli_page();
        assert!(page.contains("## haft tool call") && page.contains("--dangerously-skip-permissions"));
    }
}
