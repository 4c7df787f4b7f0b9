//! Strict bash parser: returns a syntax tree, or the reason why not.
//!
//! Own code, because a safety decision needs what other parsers drop: which characters of a word were
//! quoted, the source position of each command, and a bound on nesting that holds on a 2 MiB stack. The
//! grammar is deliberately narrower than bash's: every corner case that bash itself parses twice (a
//! heredoc still open at `)`, `$((` that turns out to be a command, quotes in arithmetic) is rejected
//! instead of guessed. An independent parser must agree before a parse counts as certain
//! (`cross_check`).
//!
//! **Invariant:** linear in the input, except for nesting, which is bounded by [`cursor::MAX_DEPTH`].

mod ansi;
mod ast;
mod command;
mod compound;
mod cursor;
mod heredoc;
mod parameter;
mod test;
mod word;

pub(crate) use ast::*;
pub(crate) use cursor::SyntaxStop;

use cursor::Parser;

/// Parses a whole command line.
pub(crate) fn parse(source: &str) -> Result<ShellScript, SyntaxStop> {
    let mut parser = Parser::new(source);
    let list = parser.script()?;
    Ok(ShellScript { list, notes: parser.notes })
}

#[cfg(test)]
mod tests;
