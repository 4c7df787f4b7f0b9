//! Slash commands: one table, used for completion, help and documentation.

use crate::{keymap::key_table, ui_update::SlashName};

/// Who runs a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SlashTarget {
    /// The user interface itself.
    Terminal,
    /// The session; sent as a prompt.
    Session,
    /// The frontend, as [`TermEffect::Command`](crate::TermEffect::Command).
    Face,
}

/// A slash command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlashEntry {
    /// Name without the slash.
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// Description of its arguments.
    pub hint: &'static str,
    /// Description.
    pub about: &'static str,
    pub target: SlashTarget,
    /// Whether it runs immediately even during a turn.
    pub at_once: bool,
}

const fn entry(
    name: &'static str,
    aliases: &'static [&'static str],
    hint: &'static str,
    about: &'static str,
    target: SlashTarget,
) -> SlashEntry {
    SlashEntry { name, aliases, hint, about, target, at_once: !matches!(target, SlashTarget::Session) }
}

/// All built-in commands in display order.
pub const SLASH_COMMANDS: &[SlashEntry] = &[
    entry("help", &["?"], "", "show commands and keys", SlashTarget::Terminal),
    entry("clear", &["new", "reset"], "", "start a new session; the old one is kept", SlashTarget::Session),
    entry(
        "compact",
        &[],
        "[what to keep in mind]",
        "summarize the conversation to free context",
        SlashTarget::Session,
    ),
    entry("context", &[], "", "show what fills the context window", SlashTarget::Face),
    entry("cost", &["usage"], "", "show what the session has used", SlashTarget::Face),
    entry("resume", &["sessions"], "", "resume another session", SlashTarget::Face),
    entry("model", &[], "[name]", "switch the model from the next request on", SlashTarget::Face),
    entry("effort", &[], "[low|medium|high|xhigh|max]", "set the reasoning effort", SlashTarget::Face),
    entry("mode", &[], "[name]", "switch the permission mode", SlashTarget::Face),
    entry(
        "permissions",
        &["allowed-tools"],
        "",
        "list the permission rules in force and their files",
        SlashTarget::Face,
    ),
    entry("diff", &[], "", "show what changed in this session", SlashTarget::Face),
    entry("undo", &[], "", "undo the last change of a file", SlashTarget::Face),
    entry("redo", &[], "", "redo the last undo", SlashTarget::Face),
    entry(
        "rewind",
        &["checkpoint"],
        "",
        "return to an earlier message: files, conversation or both",
        SlashTarget::Face,
    ),
    entry("tasks", &["bashes"], "", "show and stop background commands and agents", SlashTarget::Terminal),
    entry("mcp", &[], "", "list MCP servers and their state", SlashTarget::Face),
    entry("agents", &[], "", "list agents the model may start", SlashTarget::Face),
    entry("skills", &[], "", "list skills the model may use", SlashTarget::Face),
    entry("hooks", &[], "", "list hooks", SlashTarget::Face),
    entry("memory", &[], "", "list the memory files that are read", SlashTarget::Face),
    entry("doctor", &[], "", "check the installation", SlashTarget::Face),
    entry("status", &[], "", "show session, model, directory and settings", SlashTarget::Face),
    entry("export", &[], "[file]", "write the conversation to a Markdown file", SlashTarget::Face),
    entry("copy", &[], "", "copy the last answer", SlashTarget::Terminal),
    entry("transcript", &[], "", "show the whole conversation", SlashTarget::Terminal),
    entry("editor", &[], "", "write the prompt in $EDITOR", SlashTarget::Terminal),
    entry("history", &[], "", "search earlier prompts", SlashTarget::Terminal),
    entry("paste", &[], "", "paste an image from the clipboard", SlashTarget::Terminal),
    entry("background", &[], "", "move running commands to the background", SlashTarget::Terminal),
    entry("redraw", &[], "", "redraw the screen", SlashTarget::Terminal),
    entry("screen", &[], "", "switch between full screen and scrollback", SlashTarget::Terminal),
    entry("vim", &[], "", "turn vi keys on or off", SlashTarget::Terminal),
    entry("quit", &["exit"], "", "exit; everything is kept", SlashTarget::Terminal),
];

/// The commands of the help, in groups; each is in one.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Session", &["help", "clear", "resume", "rewind", "compact", "export", "quit"]),
    ("Review and undo", &["diff", "undo", "redo", "transcript", "copy"]),
    ("Model and cost", &["model", "effort", "mode", "context", "cost"]),
    ("Status", &["status", "permissions", "mcp", "agents", "skills", "hooks", "memory", "doctor", "tasks"]),
    ("Screen and input", &["editor", "history", "paste", "background", "redraw", "screen", "vim"]),
];

/// Returns the command with this name or alias.
pub(crate) fn find(name: &str) -> Option<&'static SlashEntry> {
    SLASH_COMMANDS.iter().find(|it| it.name == name || it.aliases.contains(&name))
}

/// Returns commands that match what was typed, prefix matches first, built-in ones before those of the
/// session.
pub(crate) fn fitting(typed: &str, others: &[SlashName]) -> Vec<SlashName> {
    let ours = SLASH_COMMANDS.iter().map(|it| SlashName {
        name: it.name.to_owned(),
        about: it.about.to_owned(),
        hint: it.hint.to_owned(),
    });
    let is_ours = |name: &str| SLASH_COMMANDS.iter().any(|it| it.name == name);
    let all: Vec<SlashName> = ours.chain(others.iter().filter(|it| !is_ours(&it.name)).cloned()).collect();
    let typed = typed.to_lowercase();
    let begins = all.iter().filter(|it| it.name.to_lowercase().starts_with(&typed));
    let holds = all.iter().filter(|it| {
        let name = it.name.to_lowercase();
        !name.starts_with(&typed) && is_within(&typed, &name)
    });
    begins.chain(holds).cloned().collect()
}

/// Whether the letters occur in the name in this order.
pub(crate) fn is_within(letters: &str, name: &str) -> bool {
    let mut rest = name.chars();
    letters.chars().all(|letter| rest.any(|it| it == letter))
}

/// The commands in groups, with headings of this level.
fn commands_page(level: &str) -> String {
    let mut page = String::new();
    for (heading, names) in GROUPS {
        page.push_str(&format!("{level} {heading}\n\n| command | what it does |\n|---|---|\n"));
        for it in names.iter().filter_map(|name| find(name)) {
            let hint =
                if it.hint.is_empty() { String::new() } else { format!(" {}", it.hint.replace('|', "\\|")) };
            page.push_str(&format!("| `/{}{hint}` | {} |\n", it.name, it.about));
        }
        page.push('\n');
    }
    page.push_str(&format!("{level} In a prompt\n\n| prefix | what it does |\n|---|---|\n"));
    page.push_str("| `!command` | run a command yourself; the model sees its output |\n");
    page.push_str("| `#note` | add a note to the memory of the project |\n");
    page.push_str("| `@file` | attach a file |\n");
    page
}

/// The help of the terminal, as Markdown.
pub(crate) fn help_page() -> String {
    format!("# Commands\n\n{}\n# Keys\n\n{}", commands_page("##"), key_table())
}

/// The reference of slash commands.
pub fn slash_commands_page() -> String {
    let mut page = String::from(
        "# Slash commands\n\nWhat you can type at the prompt of a session beside a message. Written by `cargo xtask docs`; \
         do not edit.\n\n```text\n/help\n```\n\n`/` lists the commands while you type. Skills and commands of the user, \
         the project and plugins ([Skills and commands](../guides/skills-and-commands.md)) and prompts of MCP servers \
         are in the same list.\n\n| command | other names | what it does |\n|---|---|---|\n",
    );
    for it in SLASH_COMMANDS {
        let hint =
            if it.hint.is_empty() { String::new() } else { format!(" {}", it.hint.replace('|', "\\|")) };
        let others: Vec<String> = it.aliases.iter().map(|name| format!("`/{name}`")).collect();
        page.push_str(&format!("| `/{}{hint}` | {} | {} |\n", it.name, others.join(", "), it.about));
    }
    page.push_str(
        "| `!command` | | run a shell command yourself; the model sees the output with your next message |\n\
         | `#note` | | add a note to the project's memory file |\n\
         | `@file` | | attach a file |\n",
    );
    page
}

/// The reference of keys.
pub fn keys_page() -> String {
    format!(
        "# Keys\n\nThe keys of the terminal, how to change them, and the settings of its look. Written by `cargo xtask \
         docs`; do not edit. `?` on an empty prompt shows the keys in force.\n\n{}{}",
        key_table(),
        include_str!("keys_page_settings.md")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|it| it.1).copied().collect();
        for command in SLASH_COMMANDS {
            assert_eq!(grouped.iter().filter(|it| **it == command.name).count(), 1, "{}", command.name);
        }
        assert_eq!(grouped.len(), SLASH_COMMANDS.len());
    }
}
