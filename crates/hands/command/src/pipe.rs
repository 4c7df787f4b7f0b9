//! Names that one command hands to the next through a pipe.

use super::{
    field::Field,
    known::{self, Touch},
    part::WrittenWord,
    syntax::{Operator, Redirect},
};

/// What comes through the pipe in front of a command, and whether one reads
/// what it prints.
pub(crate) struct Pipe {
    pub(crate) feed: Option<Vec<Touch>>,
    pub(crate) hands_on: bool,
}

/// What a command prints for the next one in the pipe, if that is names.
pub(crate) fn handed_on(words: &[WrittenWord], feed: Option<Vec<Touch>>) -> Option<Vec<Touch>> {
    let literal = |word: &WrittenWord| word.literal.clone().map(Field::Literal);
    let fields: Vec<Field> = words.iter().map(literal).collect::<Option<_>>()?;
    match known::names_below(&fields) {
        Some(places) => Some(places),
        None => feed.filter(|_| known::passes_lines(&fields)),
    }
}

/// Whether redirections do nothing but throw away what is printed.
pub(crate) fn only_silences(redirects: &[Redirect]) -> bool {
    redirects.iter().all(|it| {
        it.operator == Operator::Write
            && it.variable.is_none()
            && it.target.literal().as_deref() == Some("/dev/null")
    })
}
