//! Commands that read archives and compressed files.

use super::{
    ProgramAnalysis, TouchedFile, files,
    getopt::{UnknownWordRule, parse},
    literals,
};
use crate::{
    analysis::{EffectAccess, EffectScope},
    expansion::Field,
};

/// The outer `Option` is `None` if the name is not one of these programs.
pub(super) fn classify(name: &str, args: &[Field]) -> Option<Option<ProgramAnalysis>> {
    let verdict = match name {
        "gzip" | "gunzip" | "bzip2" | "xz" | "zstd" => decompress(args),
        "zcat" | "bzcat" | "xzcat" | "zstdcat" | "lz4cat" => print(args),
        "tar" => tar(args),
        "unzip" => unzip(args),
        "zipinfo" => zipinfo(args),
        _ => return None,
    };
    Some(verdict)
}

/// Decompression to standard output, or listing. The last of several mode options wins, so a mode that
/// writes is accepted only together with `-c`.
fn decompress(args: &[Field]) -> Option<ProgramAnalysis> {
    let parsed = parse(
        "-cdlkqtvf --stdout --to-stdout --decompress --list --test --keep --quiet",
        args,
        UnknownWordRule::Refused,
    )?;
    let printed = parsed.has(&["c", "stdout", "to-stdout"]);
    let looks = parsed.has(&["l", "list", "t", "test"]) && !parsed.has(&["d", "decompress"]);
    (printed || looks).then(|| ProgramAnalysis::reads(found_files(&parsed.operands, COMPRESSED)))
}

/// `zcat` and similar programs.
fn print(args: &[Field]) -> Option<ProgramAnalysis> {
    let parsed = parse("-f", args, UnknownWordRule::Refused)?;
    Some(ProgramAnalysis::reads(found_files(&parsed.operands, COMPRESSED)))
}

/// Suffixes tried when a file does not exist.
const COMPRESSED: &[&str] = &[".gz", ".z", "-z", ".Z"];
const ZIPPED: &[&str] = &[".zip", ".ZIP"];

/// Files that these operands may mean, with and without the suffixes.
fn found_files(operands: &[Field], endings: &[&str]) -> Vec<TouchedFile> {
    let mut all = operands.to_vec();
    let names = operands.iter().filter_map(Field::literal).filter(|name| *name != "-");
    all.extend(names.flat_map(|name| endings.iter().map(move |it| Field::Literal(format!("{name}{it}")))));
    files(&all, EffectAccess::Read, EffectScope::Itself)
}

/// `tar tf a.tar`: lists an archive. An archive name with a colon would be on a remote host.
fn tar(args: &[Field]) -> Option<ProgramAnalysis> {
    let words = literals(args)?;
    let (first, rest) = words.split_first()?;
    let mut cluster =
        first.strip_prefix('-').filter(|text| !text.starts_with('-')).unwrap_or(first).to_owned();
    if *first == "--list" {
        "t".clone_into(&mut cluster);
    }
    // A second `f` would name a second archive.
    let known = cluster.contains('t')
        && cluster.bytes().all(|b| b"tvfzjJa".contains(&b))
        && cluster.matches('f').count() == 1;
    let plain = |word: &&&str| !word.starts_with('-') && !word.contains(':');
    let (archive, members) = match rest.split_first() {
        Some((archive, members)) if cluster.ends_with('f') => (archive, members),
        _ => return None,
    };
    let sound = known && plain(&archive) && members.iter().all(|word| plain(&word));
    sound.then(|| {
        ProgramAnalysis::reads(vec![TouchedFile::new(
            EffectAccess::Read,
            &Field::Literal((*archive).to_owned()),
        )])
    })
}

fn unzip(args: &[Field]) -> Option<ProgramAnalysis> {
    match args {
        [form, archive] => {
            matches!(form.literal()?, "-l" | "-v" | "-Z" | "-Z1" | "-t").then_some(())?;
            zipped(std::slice::from_ref(archive))
        }
        _ => None,
    }
}

fn zipinfo(args: &[Field]) -> Option<ProgramAnalysis> {
    zipped(&parse("-12smlvhtz", args, UnknownWordRule::Refused)?.operands)
}

/// Archives that are looked up by glob by the program itself.
fn zipped(archives: &[Field]) -> Option<ProgramAnalysis> {
    let plain = |field: &Field| {
        let Some(name) = field.literal() else { return false };
        !name.starts_with('-') && !name.contains(['*', '?', '[', '\\'])
    };
    archives.iter().all(plain).then(|| ProgramAnalysis::reads(found_files(archives, ZIPPED)))
}
