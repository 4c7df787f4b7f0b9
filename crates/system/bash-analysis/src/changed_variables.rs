//! Finds the variables that commands may change.

use super::{
    analysis::WorkingDir,
    expansion::{self, WordContext as Where},
    shell_state::{ShellState, VariableBinding},
    syntax::{
        AssignedValue, Assignment, CommandKind, CommandList, ExpansionAction, ParsedCommand, PipedCommands,
        Word, WordPiece,
    },
};

/// Commands that may set any variable.
const SETTERS: &[&str] = &[
    ".",
    "declare",
    "eval",
    "exec",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "set",
    "shift",
    "source",
    "trap",
    "typeset",
    "unset",
    "wait",
];

/// Commands that may change the working directory.
const MOVERS: &[&str] = &[".", "cd", "eval", "exec", "popd", "pushd", "source", "builtin", "command"];

/// Removes from `state` what a command with these words may change.
pub(crate) fn forget(words: &[Option<&str>], state: &mut ShellState) {
    let Some(name) = words.first().copied().flatten() else { return };
    match name {
        "read" | "unset" | "export" | "readonly" | "local" | "declare" | "typeset" => {
            for word in &words[1..] {
                match word {
                    Some(word) => state.set(word.split('=').next().unwrap_or(word), None),
                    None => state.forget_variables(),
                }
            }
        }
        "printf" | "wait"
            if !words.contains(&Some("-v"))
                && !words.contains(&Some("-p"))
                && words.iter().take(2).all(Option::is_some) => {}
        "set" => (),
        _ if SETTERS.contains(&name) => {
            state.forget_variables();
            if MOVERS.contains(&name) {
                state.enter(WorkingDir::Unknown);
            }
        }
        _ => (),
    }
}

/// Removes from `state` everything that the bodies of a loop may assign, before the loop is evaluated.
pub(crate) fn forget_assigned(lists: &[&CommandList], state: &mut ShellState) {
    let mut changes = ChangedVariables::default();
    lists.iter().for_each(|list| changes.list(list));
    if changes.everything {
        state.forget_variables();
    }
    for name in &changes.names {
        state.set(name, None);
    }
    if changes.moves {
        state.enter(WorkingDir::Unknown);
    }
}

#[derive(Default)]
struct ChangedVariables {
    names: Vec<String>,
    everything: bool,
    moves: bool,
}

impl ChangedVariables {
    fn list(&mut self, list: &CommandList) {
        for item in &list.items {
            self.pipeline(&item.first);
            item.rest.iter().for_each(|(_, pipeline)| self.pipeline(pipeline));
        }
    }

    fn pipeline(&mut self, pipeline: &PipedCommands) {
        pipeline.commands.iter().for_each(|command| self.command(command));
    }

    /// Subshells count too: removing too much is safe. An expansion that assigns (`${x:=1}`, arithmetic)
    /// counts as setting any variable.
    fn command(&mut self, command: &ParsedCommand) {
        self.everything |= words_of(command).into_iter().any(assigns_inside);
        match &command.kind {
            CommandKind::Simple { assignments, words } => {
                self.names.extend(assignments.iter().map(|assignment| assignment.name.clone()));
                let computed = words.first().is_some_and(|word| word.literal().is_none());
                let name = words.first().and_then(Word::literal).unwrap_or_default();
                self.everything |= computed || SETTERS.contains(&name.as_str());
                self.moves |= computed || MOVERS.contains(&name.as_str());
            }
            CommandKind::Subshell(list) | CommandKind::Group(list) => self.list(list),
            CommandKind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    self.list(condition);
                    self.list(body);
                }
                otherwise.iter().for_each(|list| self.list(list));
            }
            CommandKind::Loop { condition, body } => {
                self.list(condition);
                self.list(body);
            }
            CommandKind::For { name, body, .. } => {
                self.names.push(name.clone());
                self.list(body);
            }
            CommandKind::ForArithmetic { body, .. } => {
                self.everything = true;
                self.list(body);
            }
            CommandKind::Case { arms, .. } => arms.iter().for_each(|arm| self.list(&arm.body)),
            CommandKind::Function { .. } | CommandKind::Coprocess(_) | CommandKind::Arithmetic(_) => {
                self.everything = true;
                self.moves = true;
            }
            CommandKind::Test(_) => (),
        }
    }
}

/// All words of a command, wherever they occur in it.
fn words_of(command: &ParsedCommand) -> Vec<&Word> {
    let mut out: Vec<&Word> = match &command.kind {
        CommandKind::Simple { assignments, words } => {
            let values = assignments.iter().flat_map(|assignment| match &assignment.value {
                AssignedValue::Scalar(word) => std::slice::from_ref(word),
                AssignedValue::Array(words) => words,
            });
            values.chain(words).collect()
        }
        CommandKind::For { words, .. } => words.iter().flatten().collect(),
        CommandKind::Case { subject, arms } => {
            std::iter::once(subject).chain(arms.iter().flat_map(|arm| &arm.patterns)).collect()
        }
        CommandKind::Test(words) => words.iter().collect(),
        _ => Vec::new(),
    };
    for redirect in &command.redirects {
        out.push(&redirect.target);
        out.extend(redirect.heredoc.as_ref().and_then(|body| body.get()));
    }
    out
}

/// Whether expanding a word assigns a variable.
fn assigns_inside(word: &Word) -> bool {
    word.pieces.iter().any(|piece| match piece {
        WordPiece::Expansion(expansion) => {
            expansion.action == ExpansionAction::Assign || expansion.operands.iter().any(assigns_inside)
        }
        WordPiece::Arithmetic { .. } => true,
        WordPiece::Translated { body } => assigns_inside(body),
        _ => false,
    })
}

/// The value of an assignment if it is known.
pub(crate) fn assigned(assignment: &Assignment, state: &ShellState) -> Option<VariableBinding> {
    let AssignedValue::Scalar(word) = &assignment.value else { return None };
    if assignment.append || assignment.subscript.is_some() {
        return None;
    }
    let alternatives = expansion::expand(word, state, Where::Value)?;
    let texts: Option<Vec<String>> = alternatives
        .iter()
        .map(|fields| match &fields[..] {
            [] => Some(String::new()),
            [field] => field.literal().map(str::to_owned),
            _ => None,
        })
        .collect();
    texts.map(VariableBinding::OneOf)
}
