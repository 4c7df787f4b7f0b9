//! Cross-checks the parse with a second, independent parser.
//!
//! Two parsers that share no code rarely misread the same text in the same way. Each parse is reduced to
//! a [`CommandShape`]: the words of every simple command and the targets of every redirection, at any
//! nesting. Only equal shapes count as certain.

mod own_ast;
mod shuck;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::syntax::ShellScript;

/// Placeholder for text known only at run time.
const HOLE: char = '\u{1}';

/// Content of a command line, independent of order.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct CommandShape {
    commands: Vec<Vec<String>>,
    redirects: Vec<String>,
}

impl CommandShape {
    /// Backslashes are not compared, because the other parser keeps some that escape a quote.
    fn sorted(mut self) -> Self {
        for text in self.commands.iter_mut().flatten().chain(&mut self.redirects) {
            text.retain(|c| c != '\\');
        }
        self.commands.sort_unstable();
        self.redirects.sort_unstable();
        self
    }
}

/// Whether the other parser reads `source` like `script`.
///
/// A panic in the other parser counts as disagreement.
pub(crate) fn agrees(source: &str, script: &ShellScript) -> bool {
    let other = catch_unwind(AssertUnwindSafe(|| shuck::shape(source))).ok().flatten();
    other.is_some_and(|other| other.sorted() == own_ast::shape(script).sorted())
}
