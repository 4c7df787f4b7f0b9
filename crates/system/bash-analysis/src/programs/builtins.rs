//! Shell builtins.

use super::{
    ProgramAnalysis, TouchedFile,
    getopt::{UnknownWordRule, parse},
};
use crate::{analysis::EffectAccess, expansion::Field, safe_variables};

pub(super) fn classify(name: &str, args: &[Field]) -> Option<ProgramAnalysis> {
    match name {
        ":" | "true" | "false" | "help" | "times" | "exit" | "return" | "break" | "continue" | "type" => {
            Some(ProgramAnalysis::harmless())
        }
        "echo" => Some(ProgramAnalysis::reads(shown_names(args))),
        // `jobs -x` would run a command; `wait -p` would set a variable.
        "jobs" => only(args, &["-l", "-n", "-p", "-r", "-s"]),
        "wait" => only(args, &["-n", "-f"]),
        "cd" => cd(args),
        "command" => lookup(args),
        "dirs" | "umask" | "ulimit" | "alias" => {
            let shows = args.iter().all(|arg| matches!(arg.literal(), Some("-a" | "-S" | "-p" | "-v")));
            shows.then(ProgramAnalysis::harmless)
        }
        "export" => export(args),
        "printf" => printf(args),
        "read" => read(args),
        "set" => set(args),
        // Other forms change the history or write it to a file.
        "history" => match args {
            [] | [Field::Number] => Some(ProgramAnalysis::harmless()),
            [Field::Literal(text)] if text.bytes().all(|b| b.is_ascii_digit()) => {
                Some(ProgramAnalysis::harmless())
            }
            _ => None,
        },
        "test" => test(args),
        "[" => {
            let (last, args) = args.split_last()?;
            (last.literal() == Some("]")).then_some(())?;
            test(args)
        }
        _ => None,
    }
}

/// Accepts only job and process numbers and these options.
fn only(args: &[Field], options: &[&str]) -> Option<ProgramAnalysis> {
    let known = args.iter().all(|arg| match arg {
        Field::Number => true,
        Field::Literal(text) => {
            options.contains(&text.as_str())
                || text.starts_with('%')
                || text.bytes().all(|b| b.is_ascii_digit())
        }
        _ => false,
    });
    known.then(ProgramAnalysis::harmless)
}

/// Globs show the names they match.
fn shown_names(args: &[Field]) -> Vec<TouchedFile> {
    let patterns = args.iter().filter(|arg| matches!(arg, Field::Glob(_) | Field::Match(_)));
    patterns.map(|arg| TouchedFile::new(EffectAccess::List, arg)).collect()
}

/// Target directory of a `cd`; `None` for home, `-` and anything unknown.
pub(crate) fn target_of_cd(args: &[Field]) -> Option<Field> {
    let parsed = parse("-L", args, UnknownWordRule::Refused)?;
    match &parsed.operands[..] {
        [target] if target.is_single() && target.literal() != Some("-") => Some(target.clone()),
        _ => None,
    }
}

fn cd(args: &[Field]) -> Option<ProgramAnalysis> {
    let target = target_of_cd(args)?;
    Some(ProgramAnalysis::reads(vec![TouchedFile::new(EffectAccess::Enter, &target)]))
}

/// `command -v name`
fn lookup(args: &[Field]) -> Option<ProgramAnalysis> {
    let first = args.first()?.literal()?;
    matches!(first, "-v" | "-V").then(ProgramAnalysis::harmless)
}

/// `export NAME` and `export NAME=value` for variables without effect on programs.
fn export(args: &[Field]) -> Option<ProgramAnalysis> {
    let harmless = args.iter().all(|arg| match arg.literal() {
        Some("-p") => true,
        Some(text) => match text.split_once('=') {
            Some((name, value)) => safe_variables::is_harmless_in_environment(name, Some(value)),
            None => safe_variables::is_harmless_in_script(text),
        },
        None => false,
    });
    harmless.then(ProgramAnalysis::harmless)
}

/// `-v` and `%n` would assign variables.
fn printf(args: &[Field]) -> Option<ProgramAnalysis> {
    let args = match args.first()?.literal()? {
        "--" => &args[1..],
        text if text.starts_with('-') => return None,
        _ => args,
    };
    let format = args.first()?.literal()?;
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        rest = rest[at + 1..].trim_start_matches(['-', '+', ' ', '#', '0', '\'', '*', '.']);
        rest = rest.trim_start_matches(|c: char| {
            c.is_ascii_digit() || matches!(c, '.' | '*' | 'h' | 'l' | 'L' | 'j' | 'z' | 't')
        });
        match rest.chars().next() {
            Some('n') => return None,
            Some('%') => rest = &rest[1..],
            _ => (),
        }
    }
    Some(ProgramAnalysis::reads(shown_names(args)))
}

fn read(args: &[Field]) -> Option<ProgramAnalysis> {
    let parsed = parse("-rs -d: -n: -N: -p: -t: -u:", args, UnknownWordRule::Refused)?;
    let names = super::literals(&parsed.operands)?;
    names.iter().all(|name| safe_variables::is_harmless_in_script(name)).then(ProgramAnalysis::harmless)
}

/// Only options that make the shell exit earlier: `set -euo pipefail`.
fn set(args: &[Field]) -> Option<ProgramAnalysis> {
    let words = super::literals(args)?;
    let mut expects_name = false;
    for word in &words {
        if expects_name {
            matches!(*word, "pipefail" | "errexit" | "nounset").then_some(())?;
            expects_name = false;
            continue;
        }
        let letters = word.strip_prefix(['-', '+'])?;
        let (flags, named) = letters.strip_suffix('o').map_or((letters, false), |flags| (flags, true));
        flags.bytes().all(|b| b"euE".contains(&b)).then_some(())?;
        expects_name = named;
    }
    (!words.is_empty() && !expects_name).then(ProgramAnalysis::harmless)
}

const UNARY: &[&str] = &[
    "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-L", "-n", "-N", "-O", "-p", "-r", "-s", "-S", "-t",
    "-u", "-w", "-x", "-z", "-a", "-G",
];

const BINARY: &[&str] =
    &["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];

/// `-v` evaluates its operand. An unknown operand may turn out to be an operator, so operators must be
/// known and in their position.
fn test(args: &[Field]) -> Option<ProgramAnalysis> {
    if !args.iter().all(Field::is_single) {
        return None;
    }
    let negated = args.len() > 1 && args[0].literal() == Some("!");
    let rest = if negated { &args[1..] } else { args };
    let operator = |field: &Field, list: &[&str]| field.literal().is_some_and(|text| list.contains(&text));
    let sound = match rest {
        [] | [_] => true,
        [unary, _] => operator(unary, UNARY),
        [_, binary, _] => operator(binary, BINARY) || operator(binary, &["-a", "-o"]),
        many => long_test(many),
    };
    sound.then(ProgramAnalysis::harmless)
}

/// Known terms joined by `-a` and `-o`.
fn long_test(words: &[Field]) -> bool {
    let Some(words) = super::literals(words) else { return false };
    words.split(|word| matches!(*word, "-a" | "-o")).all(|term| {
        let term = term.strip_prefix(&["!"]).unwrap_or(term);
        match term {
            [word] => !word.starts_with('-'),
            [unary, _] => UNARY.contains(unary),
            [_, binary, _] => BINARY.contains(binary),
            _ => false,
        }
    })
}
