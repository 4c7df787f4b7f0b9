//! File names that one command passes to the next through a pipe.

use super::{
    expansion::Field,
    programs::{self, TouchedFile},
    simple_command::WrittenWord,
    syntax::{CommandKind, CommandList, Redirect, RedirectOperator, Word, WordPiece},
};

/// What a command receives through its pipe, and whether another command reads its output.
pub(crate) struct PipedNames {
    pub(crate) feed: Option<Vec<TouchedFile>>,
    /// Output of the preceding command, if its words determine it.
    pub(crate) printed: Vec<String>,
    pub(crate) hands_on: bool,
}

/// The files whose names a command prints for the next command of the pipe, if it prints names.
pub(crate) fn handed_on(words: &[WrittenWord], feed: Option<Vec<TouchedFile>>) -> Option<Vec<TouchedFile>> {
    let literal = |word: &WrittenWord| word.literal.clone().map(Field::Literal);
    let fields: Vec<Field> = words.iter().map(literal).collect::<Option<_>>()?;
    match programs::names_below(&fields) {
        Some(places) => Some(places),
        None => feed.filter(|_| programs::passes_lines(&fields)),
    }
}

/// Output of `echo` and `printf`, with the known values of variables.
pub(crate) fn expanded(words: &[WrittenWord]) -> Vec<String> {
    let prints = words.first().and_then(|word| word.literal.as_deref());
    if !matches!(prints, Some("echo" | "printf")) {
        return Vec::new();
    }
    let known = words[1..].iter().filter_map(|word| match &word.alternatives[..] {
        [fields] => match &fields[..] {
            [Field::Literal(text)] => Some(text.clone()),
            _ => None,
        },
        _ => None,
    });
    known.collect()
}

/// Output of a command, if its words determine it: `echo`, `printf`, and `cat` with a heredoc.
pub(crate) fn printed(words: &[Word], redirects: &[Redirect]) -> Vec<String> {
    let literals: Vec<String> = words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    let Some((name, rest)) = literals.split_first() else { return Vec::new() };
    match name.rsplit('/').next() {
        Some("echo" | "printf") => {
            let text = rest.join(" ");
            let unescaped = text.replace("\\n", "\n").replace("%s", "").replace("%b", "");
            let mut out: Vec<String> = rest.to_vec();
            out.extend([text, unescaped]);
            out
        }
        Some("cat" | "tee" | "base64" | "tr" | "sed" | "head" | "tail" | "grep" | "sort") => redirects
            .iter()
            .filter_map(|it| match it.operator {
                RedirectOperator::HereString => it.target.literal(),
                _ => it.heredoc.as_ref().and_then(|body| body.get()).and_then(|body| body.literal()),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Like [`printed`], for every command of a list.
pub(crate) fn printed_by(list: &CommandList) -> Vec<String> {
    let commands = list.items.iter().flat_map(|item| {
        let rest = item.rest.iter().flat_map(|(_, pipeline)| &pipeline.commands);
        item.first.commands.iter().chain(rest)
    });
    commands
        .flat_map(|command| match &command.kind {
            CommandKind::Simple { words, .. } => printed(words, &command.redirects),
            _ => Vec::new(),
        })
        .collect()
}

/// Whether the redirections only discard output.
pub(crate) fn only_silences(redirects: &[Redirect]) -> bool {
    redirects.iter().all(|it| {
        it.operator == RedirectOperator::Write
            && it.variable.is_none()
            && it.target.literal().as_deref() == Some("/dev/null")
    })
}

/// Output of process substitutions among the words: `bash <(echo …)`.
pub(crate) fn substituted(words: &[Word]) -> Vec<String> {
    let pieces = words.iter().flat_map(|word| &word.pieces);
    pieces
        .flat_map(|piece| match piece {
            WordPiece::Process { list } | WordPiece::Command { list, .. } => printed_by(list),
            _ => Vec::new(),
        })
        .collect()
}
