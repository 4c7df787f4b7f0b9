//! Wrappers: commands that only run another command.

use super::{analysis::FormCoverage, programs};

/// A word; `None` if it is known only at run time.
type KnownWord<'a> = Option<&'a str>;

/// Commands for which a prefix rule would allow any command.
const EXECUTORS: &[&str] = &["flock", "ionice", "setsid", "watch"];

/// `find` actions that run commands or change files.
pub(crate) const FIND_ACTIONS: &[&str] =
    &["-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir"];

/// Number of leading words that belong to transparent wrappers.
pub(crate) fn transparent_words(words: &[KnownWord<'_>]) -> usize {
    let mut skipped = 0;
    while let Some(more) = words.get(skipped..).and_then(one_wrapper) {
        skipped += more;
    }
    skipped
}

/// Whether a wrapper starts the command as a separate process, so that builtins such as `cd` do not
/// affect the shell.
pub(crate) fn starts_program(wrappers: &[KnownWord<'_>]) -> bool {
    wrappers.iter().flatten().any(|word| ["nice", "nohup", "stdbuf", "timeout"].contains(word))
}

/// Number of words of the first wrapper; `None` if its options are unknown or no command follows.
fn one_wrapper(words: &[KnownWord<'_>]) -> Option<usize> {
    let name = words.first().copied().flatten()?;
    let rest = &words[1..];
    let taken = match name {
        "nohup" | "noglob" | "builtin" => options(rest, &[], &[])?,
        "command" | "time" => options(rest, &["-p"], &[])?,
        "nice" => nice(rest)?,
        "stdbuf" => options(rest, &[], &["-i", "-o", "-e", "--input", "--output", "--error"])?,
        "timeout" => {
            let flags = ["--foreground", "--preserve-status", "-v", "--verbose"];
            let taken = options(rest, &flags, &["-k", "-s", "--kill-after", "--signal"])?;
            let duration = rest.get(taken).copied().flatten()?;
            duration.starts_with(|c: char| c.is_ascii_digit()).then_some(taken + 1)?
        }
        _ => return None,
    };
    let follows = rest.get(taken).copied().flatten()?;
    (!follows.starts_with('-')).then_some(1 + taken)
}

/// Number of words taken by these options; `None` if there is another option.
fn options(words: &[KnownWord<'_>], flags: &[&str], valued: &[&str]) -> Option<usize> {
    let mut at = 0;
    loop {
        let Some(word) = words.get(at).copied()? else { return Some(at) };
        if !word.starts_with('-') {
            return Some(at);
        }
        if word == "--" {
            return Some(at + 1);
        }
        let attached = |option: &&&str| {
            let long =
                word.split_once('=').is_some_and(|(name, _)| name == **option && option.starts_with("--"));
            long || (option.len() == 2 && word.len() > 2 && word.starts_with(**option))
        };
        if flags.contains(&word) || valued.iter().any(|option| attached(&option)) {
            at += 1;
        } else if valued.contains(&word) {
            words.get(at + 1).copied().flatten()?;
            at += 2;
        } else {
            return None;
        }
    }
}

/// `nice` accepts `-n 5`, `-n5`, `-5` and `--adjustment=5`.
fn nice(words: &[KnownWord<'_>]) -> Option<usize> {
    let first = words.first().copied().flatten()?;
    let old_form =
        first.len() > 1 && first.strip_prefix('-').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    if old_form { Some(1) } else { options(words, &[], &["-n", "--adjustment"]) }
}

/// Which rules may allow a command (without wrappers).
pub(crate) fn cover(words: &[KnownWord<'_>]) -> FormCoverage {
    let Some(name) = words.first().copied().flatten() else { return FormCoverage::Exact };
    let name = name.rsplit('/').next().unwrap_or(name);
    let acts = |word: &KnownWord<'_>| word.is_none_or(|word| FIND_ACTIONS.contains(&word));
    if EXECUTORS.contains(&name)
        || (name == "find" && words.iter().any(acts))
        || (name == "git" && programs::runs_named_program(words))
    {
        FormCoverage::Exact
    } else {
        FormCoverage::Any
    }
}
