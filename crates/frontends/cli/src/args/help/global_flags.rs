//! Which global flags each command uses. The parser accepts global flags everywhere; help lists them
//! only where they have an effect.

use clap::{Arg, Command};

use super::HelpDetail;

const JSON: &[&str] = &["json"];
const DIRECTORY: &[&str] = &["cwd"];
const SETTINGS: &[&str] = &["settings", "managed_settings", "setting_sources"];
const WORKSPACE: &[&str] = &["add_dir"];
const PERMISSIONS: &[&str] = &["permission_mode", "allowed_tools", "disallowed_tools"];
const HOSTS: &[&str] = &["host"];

/// Command path → groups of global flags it uses. An entry also applies to the subcommands; the longest
/// matching path wins.
const USED: &[(&str, &[&[&str]])] = &[
    ("acp", &[DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS, HOSTS]),
    ("agents", &[JSON, DIRECTORY, SETTINGS, WORKSPACE]),
    ("bug", &[JSON, DIRECTORY, SETTINGS]),
    ("context", &[JSON, DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS, HOSTS]),
    ("cost", &[JSON, DIRECTORY]),
    ("cron list", &[JSON]),
    ("cron logs", &[JSON]),
    ("diff", &[JSON, DIRECTORY, SETTINGS]),
    ("doctor", &[JSON, DIRECTORY, SETTINGS]),
    ("fleet cost", &[JSON]),
    ("fleet doctor", &[JSON]),
    ("fleet logs", &[JSON]),
    ("fleet map", &[JSON, &["settings", "setting_sources"], PERMISSIONS]),
    ("fleet results", &[JSON]),
    ("fleet schedule", &[JSON, &["settings", "setting_sources"], PERMISSIONS]),
    ("fleet serve", &[DIRECTORY, SETTINGS]),
    ("fleet status", &[JSON]),
    ("fleet submit", &[JSON, &["settings", "setting_sources"], PERMISSIONS]),
    ("history", &[JSON, DIRECTORY, SETTINGS, HOSTS]),
    ("import", &[JSON, DIRECTORY, SETTINGS]),
    ("init", &[JSON, DIRECTORY, SETTINGS]),
    ("login", &[DIRECTORY, SETTINGS]),
    ("logout", &[DIRECTORY, SETTINGS]),
    ("mcp", &[DIRECTORY, SETTINGS]),
    ("mcp doctor", &[JSON, DIRECTORY, SETTINGS]),
    ("mcp list", &[JSON, DIRECTORY, SETTINGS]),
    ("mcp get", &[JSON, DIRECTORY, SETTINGS]),
    ("mcp serve", &[DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS]),
    ("models", &[JSON, DIRECTORY, SETTINGS]),
    ("new", &[DIRECTORY]),
    ("permissions allow", &[JSON, DIRECTORY, SETTINGS]),
    ("permissions ask", &[JSON, DIRECTORY, SETTINGS]),
    ("permissions deny", &[JSON, DIRECTORY, SETTINGS]),
    ("permissions explain", &[JSON, DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS]),
    ("permissions list", &[JSON, DIRECTORY, SETTINGS, PERMISSIONS]),
    ("permissions log", &[JSON, DIRECTORY]),
    ("permissions revoke", &[DIRECTORY, SETTINGS]),
    ("permissions test", &[JSON, DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS]),
    ("plugins", &[JSON, DIRECTORY, SETTINGS]),
    ("redo", &[JSON, DIRECTORY, SETTINGS, HOSTS]),
    ("replay", &[DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS]),
    ("rewind", &[JSON, DIRECTORY, SETTINGS]),
    ("sandbox check", &[JSON, DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS]),
    ("sandbox run", &[DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS]),
    ("sessions", &[JSON, DIRECTORY]),
    ("sessions path", &[DIRECTORY]),
    ("sessions title", &[DIRECTORY]),
    ("skills", &[JSON, DIRECTORY, SETTINGS, WORKSPACE]),
    ("tasks list", &[JSON]),
    ("tool", &[JSON, DIRECTORY, SETTINGS]),
    ("tool call", &[JSON, DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS, HOSTS]),
    ("tool run", &[DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS, HOSTS]),
    ("tool-host", &[DIRECTORY, SETTINGS, WORKSPACE, PERMISSIONS]),
    ("triggers", &[DIRECTORY, SETTINGS]),
    ("triggers list", &[JSON, DIRECTORY, SETTINGS]),
    ("triggers logs", &[JSON, DIRECTORY, SETTINGS]),
    ("trust", &[DIRECTORY, SETTINGS]),
    ("undo", &[JSON, DIRECTORY, SETTINGS, HOSTS]),
    ("update", &[JSON]),
    ("view", &[DIRECTORY, SETTINGS]),
    ("worktrees", &[JSON, DIRECTORY, SETTINGS]),
];

/// The text below a command's help: names the global flags the command uses, or refers to `haft --help`.
/// `None` if it uses none.
pub(super) fn note(command: &Command, path: &str, detail: HelpDetail) -> Option<String> {
    if detail == HelpDetail::Short || command.has_subcommands() {
        return (command.has_subcommands() || !used(path).is_empty())
            .then(|| String::from("Global options: see `haft --help`"));
    }
    let ids = used(path);
    let flags =
        command.get_arguments().filter(|it| it.is_global_set() && ids.contains(&it.get_id().as_str()));
    let names: Vec<String> = flags.map(spelling).collect();
    (!names.is_empty()).then(|| format!("Global options (see `haft --help`): {}", names.join(", ")))
}

fn used(path: &str) -> Vec<&'static str> {
    let fits =
        |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let best = USED.iter().filter(|it| fits(it.0)).max_by_key(|it| it.0.len());
    best.map(|it| it.1.concat()).unwrap_or_default()
}

/// The flag as typed on the command line, with its value name.
fn spelling(flag: &Arg) -> String {
    let long = flag.get_long().unwrap_or_default();
    let takes_value = flag.get_action().takes_values();
    let value = flag.get_value_names().and_then(|it| it.first()).filter(|_| takes_value);
    value.map_or_else(|| format!("--{long}"), |value| format!("--{long} <{value}>"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    #[test]
    fn table_names_commands_and_flags_that_exist() {
        let mut root = Args::command();
        root.build();
        for (path, flags) in USED {
            let mut command = &root;
            for name in path.split(' ') {
                command = command.find_subcommand(name).unwrap_or_else(|| panic!("{path}"));
            }
            for flag in flags.concat() {
                let is_it = |it: &&Arg| it.is_global_set() && it.get_id() == flag;
                assert!(command.get_arguments().any(|it| is_it(&it)), "{path}: {flag}");
            }
        }
    }
}
