//! A second opinion on the grammar.
//!
//! Two parsers that share no code rarely misread the same text in the same
//! way. Each reading is reduced to a [`CommandShape`]: the words of every simple
//! command and the targets of every redirection, wherever they are nested. Only
//! equal shapes count as certain.

mod own_ast;
mod shuck;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::syntax::ShellScript;

/// Stands for whatever is only known when the command runs.
const HOLE: char = '\u{1}';

/// What a command line consists of, whatever the order.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct CommandShape {
    commands: Vec<Vec<String>>,
    redirects: Vec<String>,
}

impl CommandShape {
    /// Backslashes are left out of the comparison: the other parser keeps some
    /// of those that escape a quote.
    fn sorted(mut self) -> Self {
        for text in self.commands.iter_mut().flatten().chain(&mut self.redirects) {
            text.retain(|c| c != '\\');
        }
        self.commands.sort_unstable();
        self.redirects.sort_unstable();
        self
    }
}

/// Whether another parser reads `source` as `script`.
///
/// A panic over there is its opinion, not our end.
pub(crate) fn agrees(source: &str, script: &ShellScript) -> bool {
    let other = catch_unwind(AssertUnwindSafe(|| shuck::shape(source))).ok().flatten();
    other.is_some_and(|other| other.sorted() == own_ast::shape(script).sorted())
}
