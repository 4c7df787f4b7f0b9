//! Bash grammar, read strictly: text in, tree out, or the reason why not.
//!
//! Own code although parsers exist, because a decision about safety needs what
//! they drop: which characters of a word were quoted, where in the source each
//! command stands, and a bound on nesting that holds on a 2 MiB stack. The
//! grammar is deliberately narrower than bash's: every corner in which bash
//! itself looks twice (a heredoc still open at `)`, `$((` that turns out to be
//! a command, quotes in arithmetic) is refused instead of guessed. A parser
//! from elsewhere has to agree with this one before anything counts as certain
//! (`witness`).
//!
//! **Invariant:** linear in the input, except for nesting, which is bounded by
//! [`cursor::MAX_DEPTH`].

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

/// Reads a whole command line.
pub(crate) fn parse(source: &str) -> Result<ShellScript, SyntaxStop> {
    let mut parser = Parser::new(source);
    let list = parser.script()?;
    Ok(ShellScript { list, notes: parser.notes })
}

#[cfg(test)]
mod tests;
