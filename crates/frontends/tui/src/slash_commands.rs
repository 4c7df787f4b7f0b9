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
    entry("help", &["?"], "", "keys and commands", SlashTarget::Terminal),
    entry("clear", &["new", "reset"], "", "begin a new session; the old one stays", SlashTarget::Session),
    entry(
        "compact",
        &[],
        "[what to keep in mind]",
        "sum the conversation up to make room",
        SlashTarget::Session,
    ),
    entry("context", &[], "", "what fills the window", SlashTarget::Face),
    entry("cost", &["usage"], "", "what the session has used", SlashTarget::Face),
    entry("resume", &["sessions"], "", "go on with another session", SlashTarget::Face),
    entry("model", &[], "[name]", "another model from the next request on", SlashTarget::Face),
    entry("effort", &[], "[low|medium|high|xhigh|max]", "how hard the model tries", SlashTarget::Face),
    entry("mode", &[], "[name]", "another permission mode", SlashTarget::Face),
    entry(
        "permissions",
        &["allowed-tools"],
        "",
        "the rules in force, and where each comes from",
        SlashTarget::Face,
    ),
    entry("diff", &[], "", "what changed in this session", SlashTarget::Face),
    entry("undo", &[], "", "take the last change of a file back", SlashTarget::Face),
    entry("redo", &[], "", "bring back what the last undo took", SlashTarget::Face),
    entry(
        "rewind",
        &["checkpoint"],
        "",
        "go back to an earlier message: files, talk or both",
        SlashTarget::Face,
    ),
    entry(
        "tasks",
        &["bashes"],
        "",
        "commands in the background and agents: look, stop",
        SlashTarget::Terminal,
    ),
    entry("mcp", &[], "", "MCP servers and how they are", SlashTarget::Face),
    entry("agents", &[], "", "agents the model may start", SlashTarget::Face),
    entry("skills", &[], "", "skills the model may use", SlashTarget::Face),
    entry("hooks", &[], "", "programs that run at certain moments", SlashTarget::Face),
    entry("memory", &[], "", "which memory files are read", SlashTarget::Face),
    entry("doctor", &[], "", "what works here, and what does not", SlashTarget::Face),
    entry("status", &[], "", "session, model, place, settings", SlashTarget::Face),
    entry("export", &[], "[file]", "write the conversation into a file, as Markdown", SlashTarget::Face),
    entry("copy", &[], "", "copy the last answer", SlashTarget::Terminal),
    entry("transcript", &[], "", "everything that was said and done, whole", SlashTarget::Terminal),
    entry("editor", &[], "", "write in $EDITOR", SlashTarget::Terminal),
    entry("history", &[], "", "search what was sent before", SlashTarget::Terminal),
    entry("paste", &[], "", "paste a picture of the clipboard", SlashTarget::Terminal),
    entry("background", &[], "", "let running commands go on in the background", SlashTarget::Terminal),
    entry("redraw", &[], "", "draw the screen anew", SlashTarget::Terminal),
    entry(
        "screen",
        &[],
        "",
        "the conversation on a screen of its own, or in the scrollback",
        SlashTarget::Terminal,
    ),
    entry("vim", &[], "", "keys of vi, on or off", SlashTarget::Terminal),
    entry("quit", &["exit"], "", "leave; everything is kept", SlashTarget::Terminal),
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

/// Returns the documentation of keys and commands.
pub fn commands_page() -> String {
    let mut page = String::from("| command | what it does |\n|---|---|\n");
    for it in SLASH_COMMANDS {
        let hint =
            if it.hint.is_empty() { String::new() } else { format!(" {}", it.hint.replace('|', "\\|")) };
        page.push_str(&format!("| `/{}{hint}` | {} |\n", it.name, it.about));
    }
    page.push_str("| `!command` | run a command yourself; the model sees what it printed |\n");
    page.push_str("| `#note` | keep a note in the project's memory |\n");
    page.push_str("| `@file` | name a file; the model sees it |\n");
    page
}

/// Returns the built-in help as Markdown.
pub(crate) fn help_page() -> String {
    format!("# Commands\n\n{}\n# Keys\n\n{}", commands_page(), key_table())
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
