//! Commands that change nothing but the files they name.

use super::{
    ProgramAnalysis, TouchedFile,
    getopt::{Parsed, UnknownWordRule, parse},
};
use crate::{
    analysis::{EditKind, EffectAccess, EffectScope},
    expansion::Field,
};

pub(super) fn classify(name: &str, args: &[Field]) -> Option<ProgramAnalysis> {
    match name {
        "mkdir" => {
            let parsed = parse("-pv -m: --parents --verbose --mode:", args, UnknownWordRule::Refused)?;
            Some(ProgramAnalysis::edits(EditKind::Create, each(&parsed.operands, EffectAccess::Write)?))
        }
        "touch" => {
            let options = "-acmh -d: -t: -r:R --no-create --date: --reference:R --time: --no-dereference";
            let parsed = parse(options, args, UnknownWordRule::Refused)?;
            let mut touches = each(&parsed.operands, EffectAccess::Write)?;
            touches.extend(parsed.reads.iter().map(|file| TouchedFile::new(EffectAccess::List, file)));
            Some(ProgramAnalysis::edits(EditKind::Create, touches))
        }
        "rm" => {
            let options = "-rRfiIvd --recursive --force --verbose --dir --one-file-system --preserve-root";
            let parsed = parse(options, args, UnknownWordRule::Refused)?;
            let mut touches = each(&parsed.operands, EffectAccess::Delete)?;
            if parsed.has(&["r", "R", "recursive"]) {
                touches.iter_mut().for_each(|touch| touch.reach = EffectScope::Tree);
            }
            Some(ProgramAnalysis::edits(EditKind::Remove, touches))
        }
        "rmdir" => {
            let parsed = parse("-v --verbose --ignore-fail-on-non-empty", args, UnknownWordRule::Refused)?;
            Some(ProgramAnalysis::edits(EditKind::Remove, each(&parsed.operands, EffectAccess::Delete)?))
        }
        "cp" => {
            let options = "-afinpRruvTdxLP -t: --archive --force --interactive --no-clobber --recursive --update? \
                           --verbose --preserve? --no-dereference --dereference --target-directory: \
                           --no-target-directory";
            transfer(&parse(options, args, UnknownWordRule::Refused)?, EditKind::Copy)
        }
        "mv" => {
            let options = "-finuvT -t: --force --interactive --no-clobber --update? --verbose --target-directory: \
                           --no-target-directory";
            transfer(&parse(options, args, UnknownWordRule::Refused)?, EditKind::Move)
        }
        _ => None,
    }
}

fn each(operands: &[Field], access: EffectAccess) -> Option<Vec<TouchedFile>> {
    (!operands.is_empty()).then(|| operands.iter().map(|field| TouchedFile::new(access, field)).collect())
}

/// Sources are read or removed; the target is written, whether it is a file or
/// the directory the sources end up in.
fn transfer(parsed: &Parsed, verb: EditKind) -> Option<ProgramAnalysis> {
    let directory = parsed.values(&["t", "target-directory"]).next();
    let (target, sources) = match directory {
        Some(directory) => (directory, &parsed.operands[..]),
        None => parsed.operands.split_last()?,
    };
    if sources.is_empty() {
        return None;
    }
    let target = target.literal()?;
    let follows = parsed.has(&["L", "dereference"]);
    let reach = if follows { EffectScope::LinkedTree } else { EffectScope::Tree };
    let mut touches = vec![TouchedFile::new(EffectAccess::Write, &Field::Literal(target.to_owned()))];
    for source in sources {
        // A pattern could name anything, `dir/.` would spread over the target.
        let name = source.literal()?;
        let last = name.trim_end_matches('/').rsplit('/').next()?;
        if matches!(last, "" | "." | "..") {
            return None;
        }
        let access = if verb == EditKind::Move { EffectAccess::Delete } else { EffectAccess::Read };
        touches.push(TouchedFile { reach, ..TouchedFile::tree(EffectAccess::Read, source) });
        touches.push(TouchedFile { reach, ..TouchedFile::tree(access, source) });
        let inside = format!("{}/{last}", target.trim_end_matches('/'));
        touches.push(TouchedFile::new(EffectAccess::Write, &Field::Literal(inside)));
    }
    Some(ProgramAnalysis::edits(verb, touches))
}

/// What a command would remove, whatever its options are.
pub(super) fn removals(words: &[Field]) -> Vec<TouchedFile> {
    let Some((name, args)) = words.split_first() else { return Vec::new() };
    let name = name.literal().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    match name {
        // What is moved away is gone from where it was.
        "mv" => {
            let operands: Vec<&Field> =
                args.iter().filter(|arg| arg.literal().is_none_or(|text| !text.starts_with('-'))).collect();
            let sources = operands.len().saturating_sub(1);
            operands[..sources].iter().map(|arg| TouchedFile::tree(EffectAccess::Delete, arg)).collect()
        }
        "rm" | "rmdir" | "unlink" | "shred" | "srm" | "trash" => args
            .iter()
            .filter(|arg| arg.literal().is_none_or(|text| !text.starts_with('-')))
            .map(|arg| TouchedFile::tree(EffectAccess::Delete, arg))
            .collect(),
        "find" if args.iter().any(|arg| matches!(arg.literal(), Some("-delete"))) || runs_rm(args) => args
            .iter()
            .take_while(|arg| arg.literal().is_none_or(|text| !text.starts_with(['-', '(', '!'])))
            .map(|arg| {
                if is_narrowed(args) {
                    TouchedFile::new(EffectAccess::Delete, arg)
                } else {
                    TouchedFile::tree(EffectAccess::Delete, arg)
                }
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Whether `find` looks for something in particular, so that what it starts from
/// stays.
fn is_narrowed(args: &[Field]) -> bool {
    let tests = ["-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-newer", "-size"];
    let times = ["-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin"];
    let any = |text: &str| text.is_empty() || text.chars().all(|it| matches!(it, '*' | '?' | '.' | '/'));
    // Whether a pattern was quoted is not known any more.
    let text = |field: &Field| match field {
        Field::Literal(text) | Field::Glob(text) => Some(text.clone()),
        _ => None,
    };
    let tested = args.windows(2).any(|pair| match (pair[0].literal(), text(&pair[1])) {
        (Some(test), Some(value)) => (tests.contains(&test) || times.contains(&test)) && !any(&value),
        _ => false,
    });
    // An alternative or a negation may let everything through again.
    let widening = |text: String| matches!(&*text, "-o" | "-or" | "!" | "-not" | ",");
    let widened = args.iter().any(|arg| text(arg).is_none_or(widening));
    tested && !widened
}

/// `find … -exec rm …` without a condition that narrows it down much.
fn runs_rm(args: &[Field]) -> bool {
    args.windows(2).any(|pair| {
        matches!(pair[0].literal(), Some("-exec" | "-execdir" | "-ok" | "-okdir"))
            && matches!(pair[1].literal(), Some("rm" | "/bin/rm" | "/usr/bin/rm"))
    })
}
