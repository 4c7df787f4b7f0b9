//! Commands a person types with a slash, and skills, which are commands a model
//! may use too.

use std::path::PathBuf;

use haft_types::MessageBlock;

use super::markdown::Page;

/// A command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlashCommand {
    /// What is typed after the slash.
    pub name: String,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it does.
    pub description: String,
    /// What may follow its name.
    pub argument_hint: String,
    /// The model it wants.
    pub(crate) model: Option<String>,
    /// Whether a model may use it by itself.
    pub(crate) is_for_model: bool,
    /// Whether people are offered it.
    pub(crate) is_for_person: bool,
    pub(crate) kind: SlashKind,
}

/// What a command does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum SlashKind {
    /// Something of ours, without the model.
    Local(LocalCommand),
    /// Says this to the model.
    Prompt(String),
    /// Says this to the model; the directory has more.
    Skill {
        /// What it says.
        body: String,
        /// Where its files are.
        dir: PathBuf,
    },
}

/// Commands of ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocalCommand {
    /// Begins a new session.
    Clear,
    /// Sums the conversation up.
    Compact,
    /// Shows what fills the window.
    Context,
    /// Shows what the session has used.
    Cost,
}

impl LocalCommand {
    pub(crate) const ALL: [Self; 4] = [Self::Clear, Self::Compact, Self::Context, Self::Cost];
}

/// A prompt that a command became.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpandedCommand {
    pub(crate) content: Vec<MessageBlock>,
    pub(crate) model: Option<String>,
}

impl SlashCommand {
    pub(super) fn of_haft(local: LocalCommand) -> Self {
        let (name, aliases, description, hint): (_, &'static [&'static str], _, _) = match local {
            LocalCommand::Clear => ("clear", &["reset", "new"], "Begin a new session; the old one stays", ""),
            LocalCommand::Compact => {
                ("compact", &[], "Sum up the conversation to make room", "[what to keep in mind]")
            }
            LocalCommand::Context => ("context", &[], "Show what fills the context", ""),
            LocalCommand::Cost => ("cost", &["usage"], "Show what the session has used", ""),
        };
        Self {
            name: name.to_owned(),
            aliases,
            description: description.to_owned(),
            argument_hint: hint.to_owned(),
            model: None,
            is_for_model: false,
            is_for_person: true,
            kind: SlashKind::Local(local),
        }
    }

    pub(super) fn typed(name: String, description: String, page: &Page) -> Self {
        Self::of_page(name, description, page, SlashKind::Prompt(page.body.clone()))
    }

    pub(super) fn skill(name: String, description: String, dir: PathBuf, page: &Page) -> Self {
        Self::of_page(name, description, page, SlashKind::Skill { body: page.body.clone(), dir })
    }

    fn of_page(name: String, description: String, page: &Page, kind: SlashKind) -> Self {
        let told = |key: &str| page.head.get(key).cloned().filter(|it| !it.is_empty());
        Self {
            name,
            aliases: &[],
            description,
            argument_hint: told("argument-hint").unwrap_or_default(),
            model: told("model").filter(|it| it != "inherit"),
            is_for_model: told("disable-model-invocation").as_deref() != Some("true"),
            is_for_person: told("user-invocable").as_deref() != Some("false"),
            kind,
        }
    }

    pub(crate) fn is_skill(&self) -> bool {
        matches!(self.kind, SlashKind::Skill { .. })
    }

    /// Whether it is a skill: a model may use it too, unless it says no.
    pub fn is_skill_for_model(&self) -> bool {
        self.is_skill() && self.is_for_model
    }

    /// Where the files of a skill are.
    pub fn skill_dir(&self) -> Option<&std::path::Path> {
        match &self.kind {
            SlashKind::Skill { dir, .. } => Some(dir),
            _ => None,
        }
    }

    /// Whether it is a command of ours.
    pub fn is_local(&self) -> bool {
        matches!(self.kind, SlashKind::Local(_))
    }

    /// What the model is told; nothing for commands of ours.
    pub(crate) fn text(&self, args: &str) -> Option<String> {
        match &self.kind {
            SlashKind::Local(_) => None,
            SlashKind::Prompt(body) => Some(filled(body, args)),
            SlashKind::Skill { body, dir } => {
                Some(format!("Base directory for this skill: {}\n\n{}", dir.display(), filled(body, args)))
            }
        }
    }

    /// The prompt it becomes.
    pub(crate) fn expand(&self, args: &str) -> Option<ExpandedCommand> {
        let name = &self.name;
        let mut typed =
            format!("<command-message>{name}</command-message>\n<command-name>/{name}</command-name>");
        if !args.is_empty() {
            typed.push_str(&format!("\n<command-args>{args}</command-args>"));
        }
        let texts = [typed, self.text(args)?];
        let content = texts.into_iter().map(|text| MessageBlock::Text { text }).collect();
        Some(ExpandedCommand { content, model: self.model.clone() })
    }
}

/// Puts arguments where a text wants them: `$ARGUMENTS` for all, `$0`, `$1`, …
/// for one word. Where it wants none, they come after it.
fn filled(body: &str, args: &str) -> String {
    let words: Vec<&str> = args.split_whitespace().collect();
    let (mut text, mut rest, mut used) = (String::new(), body, false);
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        let digits = after.len() - after.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        if let Some(after) = after.strip_prefix("ARGUMENTS") {
            (used, rest) = (true, after);
            text.push_str(args);
            continue;
        }
        match after[..digits].parse::<usize>().ok().and_then(|at| words.get(at)) {
            Some(word) => {
                (used, rest) = (true, &after[digits..]);
                text.push_str(word);
            }
            None => {
                rest = after;
                text.push('$');
            }
        }
    }
    text.push_str(rest);
    if !used && !args.is_empty() {
        text.push_str(&format!("\n\nARGUMENTS: {args}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_where_they_are_wanted() {
        for (body, args, want) in [
            ("Hi $ARGUMENTS!", "Bob Lee", "Hi Bob Lee!"),
            ("$1 then $0", "a b", "b then a"),
            ("$1 of $9 costs $5", "a b", "b of $9 costs $5"),
            ("plain", "", "plain"),
            ("plain", "x y", "plain\n\nARGUMENTS: x y"),
            ("$", "", "$"),
            ("$$ARGUMENTS ü$", "$0", "$$0 ü$"),
        ] {
            assert_eq!(filled(body, args), want, "{body} {args}");
        }
    }
}
