//! List flags with several values: `--allowedTools Read "Bash(git log *)"`. Other agents accept this
//! form, clap does not without swallowing the prompt.
//!
//! **Invariant:** a prompt, a subcommand or its argument never becomes part of a list. Before the
//! prompt only words that cannot be a prompt are taken; after `--` none is.

use std::{ffi::OsString, path::Path};

use clap::Command;
use haft_session::split_rules;

/// What kind of values a list flag has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ListFlagKind {
    Rules,
    Directories,
    ServerConfigs,
}

impl ListFlagKind {
    fn of_flag(long: &str) -> Option<Self> {
        match long {
            "allowedTools" | "disallowedTools" | "tools" => Some(Self::Rules),
            "add-dir" => Some(Self::Directories),
            "mcp-config" => Some(Self::ServerConfigs),
            _ => None,
        }
    }
}

/// Whether the next plain word could be the prompt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PromptPosition {
    /// No prompt or command was seen yet.
    Open,
    /// The prompt was seen, or the command takes none.
    Taken,
    /// Plain words are arguments of a subcommand.
    OfCommand,
}

/// Rewrites the command line so that each list flag has exactly one value, for clap. `is_tool`
/// recognises tool names. Without a list flag the words are returned unchanged.
pub(crate) fn one_word_each(
    words: Vec<OsString>,
    root: &Command,
    is_tool: &dyn Fn(&str) -> bool,
) -> Vec<OsString> {
    let has_list = |it: &OsString| {
        let flag = it.to_str().and_then(|it| it.strip_prefix("--")).and_then(|it| flag_of(root, root, it));
        flag.and_then(|it| it.get_long()).and_then(ListFlagKind::of_flag).is_some()
    };
    if !words.iter().any(has_list) {
        return words;
    }
    let mut line = FlagReader { root, at: root, prompt: PromptPosition::Open, written: Vec::new(), is_tool };
    let mut rest = words.into_iter().peekable();
    line.written.extend(rest.next());
    while let Some(word) = rest.next() {
        if word == "--" {
            line.written.push(word);
            break;
        }
        let text = word.to_string_lossy().into_owned();
        if !is_flag(&text) {
            line.plain_word(word, &text);
            continue;
        }
        line.written.push(word.clone());
        let flag = text.strip_prefix("--").and_then(|name| flag_of(root, line.at, name));
        let Some(flag) = flag else { continue };
        let takes = flag.get_num_args().unwrap_or_default();
        let is_value = |it: &OsString| 0 < takes.min_values() || !is_flag(&it.to_string_lossy());
        if takes.max_values() == 0 {
            continue;
        }
        let Some(value) = rest.next_if(is_value) else { continue };
        line.written.push(value);
        let Some(kind) = flag.get_long().and_then(ListFlagKind::of_flag) else { continue };
        while let Some(more) = rest.next_if(|it| line.belongs(kind, it)) {
            line.written.push(word.clone());
            line.written.push(more);
        }
    }
    line.written.extend(rest);
    line.written
}

/// State while the command line is read from left to right.
struct FlagReader<'a> {
    root: &'a Command,
    /// The subcommand seen last, or the root.
    at: &'a Command,
    prompt: PromptPosition,
    written: Vec<OsString>,
    is_tool: &'a dyn Fn(&str) -> bool,
}

impl FlagReader<'_> {
    fn plain_word(&mut self, word: OsString, text: &str) {
        self.written.push(word);
        match self.at.find_subcommand(text) {
            Some(command) if self.prompt != PromptPosition::Taken => {
                self.at = command;
                let takes_words = command.get_positionals().next().is_some();
                self.prompt = if takes_words || command.has_subcommands() {
                    PromptPosition::OfCommand
                } else {
                    PromptPosition::Taken
                };
            }
            _ if std::ptr::eq(self.at, self.root) => self.prompt = PromptPosition::Taken,
            _ => (),
        }
    }

    fn belongs(&self, kind: ListFlagKind, word: &OsString) -> bool {
        let text = word.to_string_lossy();
        if is_flag(&text) || text == "--" || self.at.find_subcommand(text.as_ref()).is_some() {
            return false;
        }
        match self.prompt {
            PromptPosition::OfCommand => false,
            PromptPosition::Taken => match kind {
                ListFlagKind::Rules => all_rules(&text, &looks_like_rule),
                ListFlagKind::Directories | ListFlagKind::ServerConfigs => true,
            },
            PromptPosition::Open => match kind {
                ListFlagKind::Rules => all_rules(&text, &|rule| {
                    let name = rule.split('(').next().unwrap_or_default();
                    looks_like_rule(rule) && (name.starts_with("mcp__") || (self.is_tool)(name))
                }),
                ListFlagKind::Directories => {
                    let is_relative = text == ".." || text.starts_with("./") || text.starts_with("../");
                    Path::new(word).is_dir() || is_relative && !text.contains(char::is_whitespace)
                }
                ListFlagKind::ServerConfigs => {
                    let is_json = text.trim_start().starts_with('{');
                    let is_file = Path::new(word).extension().is_some_and(|it| it == "json");
                    is_json || is_file && !text.contains(char::is_whitespace) || Path::new(word).is_file()
                }
            },
        }
    }
}

fn is_flag(text: &str) -> bool {
    1 < text.len() && text.starts_with('-') && text != "--"
}

/// Finds a flag by its long name or alias (without dashes), first in the subcommand, then in the root.
fn flag_of<'a>(root: &'a Command, at: &'a Command, name: &str) -> Option<&'a clap::Arg> {
    let mut flags = at.get_arguments().chain(root.get_arguments());
    flags
        .find(|it| it.get_long() == Some(name) || it.get_all_aliases().is_some_and(|all| all.contains(&name)))
}

fn all_rules(text: &str, is_rule: &dyn Fn(&str) -> bool) -> bool {
    let rules = split_rules(&[text.to_owned()]);
    !rules.is_empty() && rules.iter().all(|it| is_rule(it))
}

/// Whether the word looks like a permission rule: `Read`, `Bash(git log *)`, `mcp__server__*`, `Web*`.
fn looks_like_rule(rule: &str) -> bool {
    let (name, is_whole) = match rule.split_once('(') {
        Some((name, inside)) => (name, inside.ends_with(')')),
        None => (rule, true),
    };
    let is_name = name.chars().all(|it| it.is_alphanumeric() || "_-*.:".contains(it));
    let begins = name == "*" || name.starts_with(char::is_uppercase) || name.starts_with("mcp__");
    is_whole && is_name && begins
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::args::Args;

    /// Parses a command line and describes the result: prompt, allow, deny, tools, directories, configs.
    fn read(words: &[&str]) -> Result<Vec<String>, String> {
        let root = Args::command();
        let words = std::iter::once("haft").chain(words.iter().copied()).map(OsString::from).collect();
        let is_tool = |name: &str| ["Read", "Edit", "Grep", "Bash", "Agent", "WebFetch"].contains(&name);
        let words = one_word_each(words, &root, &is_tool);
        let matches = root.try_get_matches_from(words).map_err(|err| err.to_string())?;
        let args = Args::from_arg_matches(&matches).unwrap();
        let mut said: Vec<String> = Vec::new();
        said.extend(args.command.map(|it| format!("{it:?}").split([' ', '(']).next().unwrap().to_owned()));
        said.extend(args.run.prompt.map(|it| format!("say {it}")));
        let mut list = |name: &str, rules: &[String]| match rules {
            [] => (),
            rules => said.push(format!("{name} {}", split_rules(rules).join("|"))),
        };
        list("allow", &args.options.allowed_tools);
        list("deny", &args.options.disallowed_tools);
        list("tools", &args.run.permissions.tools.unwrap_or_default());
        let dirs: Vec<String> = args.options.add_dir.iter().map(|it| it.display().to_string()).collect();
        said.extend((!dirs.is_empty()).then(|| format!("dirs {}", dirs.join("|"))));
        let configs = args.run.extensions.mcp_config;
        said.extend((!configs.is_empty()).then(|| format!("servers {}", configs.join("|"))));
        Ok(said)
    }

    #[test]
    fn words_behind_a_flag_are_its_list_and_a_prompt_stays_a_prompt() {
        for (words, want) in [
            // After a prompt every word belongs to the list.
            (
                &["-p", "do it", "--allowedTools", "Read", "Bash(git log *)"][..],
                "say do it; allow Read|Bash(git log *)",
            ),
            (
                &["-p", "do it", "--allowedTools", "Read", "Bash(git log *)", "--model", "x"],
                "say do it; allow Read|Bash(git log *)",
            ),
            (
                &["do it", "-p", "--allowed-tools", "Read", "Unheard", "Web*"],
                "say do it; allow Read|Unheard|Web*",
            ),
            (
                &["-p", "do it", "--disallowedTools", "Edit", "Bash(rm *)", "mcp__a"],
                "say do it; deny Edit|Bash(rm *)|mcp__a",
            ),
            (&["-p", "do it", "--tools", "Read", "Grep"], "say do it; tools Read|Grep"),
            (&["-p", "do it", "--add-dir", "../a", "b", "/c"], "say do it; dirs ../a|b|/c"),
            (
                &["-p", "do it", "--mcp-config", "a.json", "{\"mcpServers\":{}}"],
                "say do it; servers a.json|{\"mcpServers\":{}}",
            ),
            // Before a prompt only words that cannot be the prompt belong to the list.
            (&["-p", "--allowedTools", "Read", "do it"], "say do it; allow Read"),
            (
                &["-p", "--allowedTools", "Read", "Edit", "Read the file"],
                "say Read the file; allow Read|Edit",
            ),
            (
                &["-p", "--allowedTools", "Read", "Bash(git log *)", "do it"],
                "say do it; allow Read|Bash(git log *)",
            ),
            (&["-p", "--allowedTools", "Read", "Summarize"], "say Summarize; allow Read"),
            (
                &["-p", "--allowedTools", "Read", "mcp__git__*", "mcp__x", "do it"],
                "say do it; allow Read|mcp__git__*|mcp__x",
            ),
            (&["-p", "--tools", "Read", "Grep", "do it"], "say do it; tools Read|Grep"),
            (&["-p", "--tools", "", "do it"], "say do it; tools "),
            (&["-p", "--tools", "default", "do it"], "say do it; tools default"),
            (&["-p", "--add-dir", "..", "../..", "do it"], "say do it; dirs ..|../.."),
            (&["-p", "--add-dir", "..", "src", "/review"], "say /review; dirs ..|src"),
            (&["-p", "--mcp-config", "a.json", "b.json", "do it"], "say do it; servers a.json|b.json"),
            (
                &["-p", "--mcp-config", "{\"mcpServers\":{}}", "do it"],
                "say do it; servers {\"mcpServers\":{}}",
            ),
            // Commas and spaces within a word.
            (
                &["-p", "--allowedTools", "Read,Edit", "Grep Bash(a b, c)", "do it"],
                "say do it; allow Read|Edit|Grep|Bash(a b, c)",
            ),
            (&["-p", "--allowedTools", "Read, Edit,", "do it"], "say do it; allow Read|Edit"),
            // After `--` no list takes words.
            (&["-p", "--allowedTools", "Read", "--", "Edit"], "say Edit; allow Read"),
            (&["-p", "--allowedTools", "Read", "Edit", "--", "--tools"], "say --tools; allow Read|Edit"),
            (&["-p", "--tools", "Read", "--", "do it"], "say do it; tools Read"),
            (&["-p", "--add-dir", "..", "--", "src"], "say src; dirs .."),
            // `--flag=value` takes no further word, flags may repeat, values of other flags are not
            // flags.
            (&["-p", "--allowedTools=Read", "Edit"], "say Edit; allow Read"),
            (&["-p", "--allowedTools", "Read", "--allowedTools", "Edit", "Grep"], "allow Read|Edit|Grep"),
            (&["-p", "--tools", "Read", "--tools", "Grep"], "tools Read|Grep"),
            (&["-p", "--tools="], "tools "),
            (&["--append-system-prompt", "--tools", "Edit", "-p"], "say Edit"),
            (
                &["--model", "m", "--allowedTools", "Read", "Edit", "-p", "do it"],
                "say do it; allow Read|Edit",
            ),
            (
                &["--allowedTools", "Read", "Edit", "--disallowedTools", "Bash", "Agent(x)"],
                "allow Read|Edit; deny Bash|Agent(x)",
            ),
            // Subcommands keep their arguments; where one takes none, the list gets the words.
            (&["--allowedTools", "Read", "history"], "History; allow Read"),
            (&["--add-dir", "..", "history"], "History; dirs .."),
            (&["tool", "call", "--allowedTools", "Read", "Edit", "{}"], "Tool; allow Read"),
            (&["tool", "list", "--allowedTools", "Read", "Edit"], "Tool; allow Read|Edit"),
            (&["history", "--add-dir", "..", "../.."], "History; dirs ..|../.."),
        ] {
            assert_eq!(read(words).map(|it| it.join("; ")).as_deref(), Ok(want), "{words:?}");
        }
    }

    #[test]
    fn words_that_fit_nowhere_are_refused() {
        for words in [
            &["-p", "do it", "--allowedTools", "Read", "and more"][..],
            &["-p", "do it", "--allowedTools", "Read", "Bash(unclosed"],
            &["-p", "do it", "--allowedTools"],
            &["-p", "do it", "--add-dir"],
            &["-p", "--allowedTools", "Read", "one", "two"],
        ] {
            assert!(read(words).is_err(), "{words:?}: {:?}", read(words));
        }
    }
}
