//! `xargs` and the input that the preceding commands give it.
//!
//! The arguments that `xargs` adds are known only at run time. If they come from a command that prints
//! names of files below certain directories, the command is treated as if these directories were its
//! arguments.

use super::{
    ProgramAnalysis, TouchedFile,
    getopt::{UnknownWordRule, parse},
    search_tools,
};
use crate::{
    analysis::{CommandClass, ConfigDependence, EffectAccess, EffectScope},
    expansion::{Field, UnknownText},
};

const FLAGS: &[&str] = &["-0", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--verbose", "--exit"];
/// Programs for which every option is harmless. Builtins do not count.
const READERS: &[&str] = &[
    "basename", "cat", "diff", "dirname", "du", "echo", "egrep", "fgrep", "grep", "head", "ls", "nl", "pr",
    "printf", "stat", "tac", "tail", "wc", "which",
];
/// Options with a value, separate or attached.
const VALUED: &[&str] = &["-n", "-L", "-P", "-d", "-s"];
const LONG: &[&str] = &["--max-args", "--max-lines", "--max-procs", "--delimiter", "--max-chars"];

/// Classifies the command that `xargs` runs. `feed` is its input, if known.
pub(crate) fn classify(args: &[Field], feed: Option<&[TouchedFile]>) -> Option<ProgramAnalysis> {
    let words = super::literals(args)?;
    let (command, replaced) = command(&words)?;
    let mut inner: Vec<Field> = command.iter().map(|word| Field::Literal((*word).to_owned())).collect();
    let (name, rest) = inner.split_first_mut()?;
    let added = |field: &Field| field.literal().is_some_and(|text| Some(text) == replaced);
    match replaced {
        None => inner.push(Field::Many(UnknownText::Any)),
        // The replaced text is part of a word or the command itself, which may become anything.
        Some(mark) if name.literal().is_some_and(|text| text.contains(mark)) => return None,
        Some(mark) => {
            let partly = |it: &Field| !added(it) && it.literal().is_some_and(|text| text.contains(mark));
            if rest.iter().any(partly) {
                return None;
            }
            rest.iter_mut().filter(|it| added(it)).for_each(|it| *it = Field::One(UnknownText::Any));
        }
    }
    // A program that only reads with any further arguments.
    if !READERS.contains(&inner.first()?.literal()?) {
        return None;
    }
    let verdict = super::classify(&inner).filter(|it| it.class == CommandClass::ReadOnly)?;
    let mut touches = Vec::new();
    for touch in verdict.touches {
        match (&touch.field, feed) {
            (Field::One(_) | Field::Many(_), Some(feed)) => {
                touches.extend(feed.iter().map(|place| match place.access {
                    EffectAccess::Obey(_) => place.clone(),
                    _ => TouchedFile {
                        access: touch.access,
                        field: place.field.clone(),
                        reach: EffectScope::LinkedTree,
                    },
                }));
            }
            _ => touches.push(touch),
        }
    }
    Some(ProgramAnalysis::reads(touches))
}

/// The command after the options, and the replacement string (`-I`).
fn command<'a>(words: &'a [&'a str]) -> Option<(&'a [&'a str], Option<&'a str>)> {
    let mut at = 0;
    let mut mark = None;
    while let Some(word) = words.get(at).copied().filter(|word| word.starts_with('-')) {
        if word == "--" {
            at += 1;
            break;
        }
        if let Some(delimiter) = delimiter(word, words.get(at + 1).copied()) {
            // With other delimiters, names would be split.
            matches!(delimiter, "\\n" | "\\0" | "\n").then_some(())?;
        }
        // Limiting the number of arguments turns off `-I`; its replacement string becomes literal.
        let counts = ["-n", "-L", "--max-args", "--max-lines"].iter().any(|it| word.starts_with(it));
        if mark.is_some() && counts {
            return None;
        }
        let attached = VALUED.iter().any(|option| word.len() > 2 && word.starts_with(option))
            || LONG.iter().any(|option| word.strip_prefix(option).is_some_and(|it| it.starts_with('=')));
        if FLAGS.contains(&word) || attached {
            at += 1;
        } else if VALUED.contains(&word) {
            words.get(at + 1)?;
            at += 2;
        } else if word == "-I" {
            mark = Some(words.get(at + 1).copied().filter(|it| !it.is_empty())?);
            at += 2;
        } else if let Some(attached) = word.strip_prefix("-I") {
            mark = Some(attached);
            at += 1;
        } else {
            return None;
        }
    }
    let command = &words[at.min(words.len())..];
    Some((if command.is_empty() { &["echo"] } else { command }, mark))
}

/// The delimiter, if this word sets it.
fn delimiter<'a>(word: &'a str, next: Option<&'a str>) -> Option<&'a str> {
    match word {
        "-d" | "--delimiter" => Some(next.unwrap_or_default()),
        _ => word.strip_prefix("-d").or_else(|| word.strip_prefix("--delimiter=")),
    }
}

/// The directories below which a command prints file names and nothing else.
pub(crate) fn names_below(words: &[Field]) -> Option<Vec<TouchedFile>> {
    let (name, args) = words.split_first()?;
    let literals = super::literals(args)?;
    let has = |options: &[&str]| literals.iter().any(|word| options.contains(word));
    let names_only = match name.literal()? {
        "find" => !has(&["-printf", "-ls", "-L", "-follow", "-H", "-help", "-version"]),
        "fd" | "fdfind" => parse(search_tools::FD, args, UnknownWordRule::Refused)
            .is_some_and(|it| !it.has(&["L", "follow", "help", "version"])),
        "rg" => parse(search_tools::RG, args, UnknownWordRule::Refused).is_some_and(|it| {
            it.has(&["l", "files", "files-with-matches", "files-without-match"])
                && !it.has(&["L", "follow", "json", "stats", "type-list", "V", "version", "h", "help"])
                && !it.has(&["path-separator", "c", "count", "count-matches"])
        }),
        "grep" => parse(search_tools::GREP, args, UnknownWordRule::Refused).is_some_and(|it| {
            it.has(&["l", "L", "files-with-matches", "files-without-match"])
                && !it.has(&["R", "dereference-recursive", "label", "V", "version", "help"])
        }),
        "git" => match &literals[..] {
            ["ls-files", rest @ ..] => rest.iter().all(|word| {
                !word.starts_with('-')
                    || ["-c", "-d", "-m", "-o", "-z", "--cached", "--deleted", "--modified", "--others"]
                        .contains(word)
                    || *word == "--exclude-standard"
                    || *word == "--"
            }),
            // A revision has its own file names, which are not in the index.
            ["diff", rest @ ..] => {
                rest.contains(&"--name-only")
                    && rest.iter().all(|it| matches!(*it, "--name-only" | "-z" | "--no-ext-diff"))
            }
            ["grep", rest @ ..] => lists_files(rest),
            _ => false,
        },
        "ls" => literals.iter().all(|word| matches!(*word, "-1" | "-A" | "-t" | "-r" | "-S" | "-tr" | "-1t")),
        _ => false,
    };
    let verdict = super::classify(words).filter(|it| names_only && it.class == CommandClass::ReadOnly)?;
    let shows = |it: &TouchedFile| matches!(it.access, EffectAccess::Read | EffectAccess::List);
    let mut places: Vec<TouchedFile> = verdict.touches.into_iter().filter(shows).collect();
    if places.is_empty() || matches!(name.literal(), Some("git" | "ls" | "fd" | "fdfind")) {
        places.push(TouchedFile::here(EffectAccess::List, EffectScope::Tree));
    }
    if name.literal() == Some("git") {
        places.push(TouchedFile::here(EffectAccess::Obey(ConfigDependence::GitIndex), EffectScope::Itself));
    }
    // A directory name that would be split when read again means other places.
    let falls_apart = |place: &TouchedFile| {
        let Some(text) = place.field.literal() else { return true };
        text.starts_with('-') || text.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '\\'))
    };
    (!places.iter().any(falls_apart)).then_some(places)
}

/// Whether `git grep` with these words only prints names of files in the index: one pattern and no
/// operand that may be a revision.
fn lists_files(words: &[&str]) -> bool {
    let (options, operands): (Vec<&str>, Vec<&str>) = words.iter().partition(|it| it.starts_with('-'));
    let plain = ["-l", "--name-only", "--files-with-matches", "-i", "-w", "-F", "-E", "-n", "-z", "-I", "-q"];
    operands.len() == 1
        && options.iter().all(|it| plain.contains(it))
        && options.iter().any(|it| matches!(*it, "-l" | "--name-only" | "--files-with-matches"))
}

/// Whether a command prints only lines that it reads.
pub(crate) fn passes_lines(words: &[Field]) -> bool {
    let Some((name, args)) = words.split_first() else { return false };
    if super::literals(args).is_none() {
        return false;
    }
    let options =
        |list: &str| parse(list, args, UnknownWordRule::Refused).filter(|parsed| parsed.reads.is_empty());
    let reads_input = |list: &str| options(list).is_some_and(|parsed| parsed.operands.is_empty());
    match name.literal() {
        Some("head" | "tail") => reads_input("-n: -# --lines:"),
        Some("sort") => reads_input("-bdfghiMnRrVsuz -k: -t: --key: --reverse --unique --numeric-sort"),
        Some("uniq") => reads_input("-duiz --repeated --unique"),
        Some("grep" | "egrep" | "fgrep") => {
            let list = "-vEFiPwxz -e: -m: --invert-match --extended-regexp --fixed-strings --ignore-case";
            // Without a pattern option, the first operand is the pattern.
            options(list).is_some_and(|it| it.operands.len() <= usize::from(!it.has(&["e"])))
        }
        _ => false,
    }
}
