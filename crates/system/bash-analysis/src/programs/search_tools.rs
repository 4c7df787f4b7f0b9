//! `grep`, `rg`, `find`, `fd`, `jq`, `bat`.

use super::{
    ProgramAnalysis, TouchedFile, files,
    getopt::{Parsed, UnknownWordRule, parse},
};
use crate::{
    analysis::{EffectAccess, EffectScope},
    expansion::Field,
};

pub(super) const GREP: &str = "-abcEFGhHiIlLnoPqrRsTuUvVwxyzZ -# -A: -B: -C: -d: -D: -e: -f:R -m: --extended-regexp \
    --fixed-strings --basic-regexp --perl-regexp --regexp: --file:R --ignore-case --no-ignore-case --word-regexp \
    --line-regexp --null-data --no-messages --invert-match --version --help --max-count: --byte-offset --line-number \
    --line-buffered --with-filename --no-filename --label: --only-matching --quiet --silent --binary-files: --text \
    --directories: --devices: --recursive --dereference-recursive --include: --exclude: --exclude-from:R \
    --exclude-dir: --files-without-match --files-with-matches --count --initial-tab --null --before-context: \
    --after-context: --context: --color? --colour? --binary";

pub(super) const RG: &str = "-abcFHhiIlLnNopPqsSuUvVwx0 -A: -B: -C: -d: -e: -E: -f:R -g: -j: -m: -M: -r: -t: -T: --after-context: \
    --auto-hybrid-regex --before-context: --binary --block-buffered --byte-offset --case-sensitive --color: --colors: \
    --column --context: --context-separator: --count --count-matches --crlf --debug --dfa-size-limit: --encoding: \
    --engine: --field-context-separator: --field-match-separator: --file:R --files --files-with-matches \
    --files-without-match --fixed-strings --follow --glob: --glob-case-insensitive --heading --help --hidden --iglob: \
    --ignore-case --ignore-file:R --include-zero --invert-match --json --line-buffered --line-number --line-regexp \
    --max-columns: --max-columns-preview --max-count: --max-depth: --max-filesize: --mmap --multiline \
    --multiline-dotall --no-binary --no-column --no-config --no-context-separator --no-filename --no-follow \
    --no-heading --no-hidden --no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global \
    --no-ignore-parent --no-ignore-vcs --no-line-number --no-messages --no-mmap --no-multiline --no-pcre2-unicode \
    --no-require-git --no-unicode --null --null-data --one-file-system --only-matching --passthru --path-separator: \
    --pcre2 --pcre2-version --pretty --quiet --regex-size-limit: --regexp: --replace: --smart-case --sort: --sortr: \
    --stats --stop-on-nonmatch --text --threads: --trim --type: --type-add: --type-clear: --type-list --type-not: \
    --unrestricted --version --vimgrep --with-filename --word-regexp";

pub(super) const FD: &str = "-HIuisgFaLp01q -d: -t: -e: -E: -c: -S: -o: -j: --hidden --no-ignore --unrestricted --case-sensitive \
    --ignore-case --glob --fixed-strings --absolute-path --follow --full-path --print0 --max-depth: --min-depth: \
    --exact-depth: --type: --extension: --exclude: --size: --changed-within: --changed-before: --owner: --color: \
    --max-results: --quiet --show-errors --strip-cwd-prefix? --no-ignore-vcs --no-ignore-parent --one-file-system \
    --help --version";

const JQ: &str = "-ncCMSrjaesRhV --null-input --compact-output --color-output --monochrome-output --sort-keys \
    --raw-output --raw-output0 --join-output --ascii-output --exit-status --slurp --raw-input --seq --stream \
    --stream-errors --tab --unbuffered --help --version --args --jsonargs";

const BAT: &str = "-nApPu -l: -r: -H: --plain --number --show-all --style: --line-range: --language: --color: \
    --decorations: --paging: --theme: --wrap: --tabs: --highlight-line: --no-config --squeeze-blank";

pub(super) fn classify(name: &str, args: &[Field]) -> Option<ProgramAnalysis> {
    match name {
        "grep" | "egrep" | "fgrep" => grep(args),
        "rg" => rg(args),
        "find" => find(args),
        "fd" | "fdfind" => fd(args),
        "jq" => jq(args),
        "yq" => yq(args),
        "bat" | "batcat" => {
            let parsed = parse(BAT, args, UnknownWordRule::Refused)?;
            let pager = parsed.values(&["paging"]).any(|value| value.literal() != Some("never"));
            (!pager).then(|| {
                ProgramAnalysis::reads(files(&parsed.operands, EffectAccess::Read, EffectScope::Itself))
            })
        }
        _ => None,
    }
}

/// The file read by a search in exactly one file.
pub(crate) fn sole_file(name: &str, args: &[Field]) -> Option<Field> {
    let (parsed, given) = match name {
        "grep" | "egrep" | "fgrep" => {
            (parse(GREP, args, UnknownWordRule::Refused)?, &["e", "f", "regexp", "file"])
        }
        "rg" => (parse(RG, args, UnknownWordRule::Refused)?, &["e", "f", "regexp", "file"]),
        _ => return None,
    };
    let skip = usize::from(!parsed.has(given));
    match parsed.operands.get(skip..) {
        Some([file]) if parsed.operands.len() == skip + 1 => Some(file.clone()),
        _ => None,
    }
}

fn grep(args: &[Field]) -> Option<ProgramAnalysis> {
    let parsed = parse(GREP, args, UnknownWordRule::Fine)?;
    let recursive = parsed.has(&["r", "R", "recursive", "dereference-recursive"])
        || parsed.values(&["d", "directories"]).any(|value| value.literal() != Some("skip"));
    let skip = usize::from(!parsed.has(&["e", "f", "regexp", "file"]));
    let paths = parsed.operands.get(skip..).unwrap_or_default();
    // An unknown pattern may be an option, which would make the next operand the pattern.
    let is_unknown = |field: &Field| field.literal().is_none() && field.may_be_option();
    let moved = parsed.operands.iter().take(skip).any(is_unknown);
    let linked = parsed.has(&["R", "dereference-recursive"]) || moved;
    let reach = match (linked, recursive) {
        (true, _) => EffectScope::LinkedTree,
        (false, true) => EffectScope::Tree,
        (false, false) => EffectScope::Itself,
    };
    let mut touches = reads(&parsed, paths, reach);
    if moved || (recursive && paths.is_empty()) {
        touches.push(TouchedFile::here(EffectAccess::Read, reach));
    }
    Some(ProgramAnalysis::reads(touches))
}

fn rg(args: &[Field]) -> Option<ProgramAnalysis> {
    let parsed = parse(RG, args, UnknownWordRule::Refused)?;
    let skip = usize::from(!parsed.has(&["e", "f", "regexp", "file", "files", "type-list"]));
    let paths = parsed.operands.get(skip..).unwrap_or_default();
    let access = if parsed.has(&["files"]) { EffectAccess::List } else { EffectAccess::Read };
    let reach = if parsed.has(&["L", "follow"]) { EffectScope::LinkedTree } else { EffectScope::Tree };
    let mut touches = reads(&parsed, &[], EffectScope::Itself);
    touches.extend(files(paths, access, reach));
    if paths.is_empty() && !parsed.has(&["type-list", "version", "V", "help", "h"]) {
        touches.push(TouchedFile::here(access, reach));
    }
    Some(ProgramAnalysis::reads(touches))
}

fn fd(args: &[Field]) -> Option<ProgramAnalysis> {
    let parsed = parse(FD, args, UnknownWordRule::Refused)?;
    let reach = if parsed.has(&["L", "follow"]) { EffectScope::LinkedTree } else { EffectScope::Tree };
    let places = parsed.operands.get(1..).unwrap_or_default();
    let mut touches = files(places, EffectAccess::List, reach);
    if places.is_empty() {
        touches.push(TouchedFile::here(EffectAccess::List, reach));
    }
    Some(ProgramAnalysis::reads(touches))
}

fn reads(parsed: &Parsed, paths: &[Field], reach: EffectScope) -> Vec<TouchedFile> {
    let mut touches = files(paths, EffectAccess::Read, reach);
    touches.extend(parsed.reads.iter().map(|file| TouchedFile::new(EffectAccess::Read, file)));
    touches
}

/// `find` predicates without and with a value. Those that run a command, write or delete are missing.
const FIND_PLAIN: &[&str] = &[
    "!",
    "(",
    ")",
    ",",
    "-a",
    "-and",
    "-d",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-follow",
    "-help",
    "-ignore_readdir_race",
    "-ls",
    "-mount",
    "-nogroup",
    "-noignore_readdir_race",
    "-noleaf",
    "-not",
    "-nouser",
    "-nowarn",
    "-o",
    "-or",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-readable",
    "-true",
    "-version",
    "-warn",
    "-writable",
    "-xdev",
];

const FIND_VALUED: &[&str] = &[
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-context",
    "-ctime",
    "-fstype",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mtime",
    "-name",
    "-newer",
    "-newerat",
    "-newerct",
    "-newermt",
    "-path",
    "-perm",
    "-printf",
    "-regex",
    "-regextype",
    "-samefile",
    "-size",
    "-type",
    "-uid",
    "-used",
    "-user",
    "-wholename",
    "-xtype",
];

/// Globs must be quoted: their matches may be taken for predicates.
fn find(args: &[Field]) -> Option<ProgramAnalysis> {
    let starts = args
        .iter()
        .skip_while(|arg| matches!(arg.literal(), Some("-H" | "-L" | "-P")))
        .take_while(|arg| arg.literal().is_none_or(|text| !text.starts_with(['-', '(', '!'])));
    let starts: Vec<Field> = starts.cloned().collect();
    let plain = |field: &Field| matches!(field, Field::Literal(_));
    if !starts.iter().all(plain) {
        return None;
    }
    let follows = args.iter().any(|arg| matches!(arg.literal(), Some("-L" | "-follow")));
    let reach = if follows { EffectScope::LinkedTree } else { EffectScope::Tree };
    let mut rest =
        args.iter().skip_while(|arg| matches!(arg.literal(), Some("-H" | "-L" | "-P"))).skip(starts.len());
    while let Some(arg) = rest.next() {
        let word = arg.literal()?;
        if FIND_VALUED.contains(&word) {
            rest.next().filter(|value| value.is_single())?;
        } else if !FIND_PLAIN.contains(&word) {
            return None;
        }
    }
    let mut touches = files(&starts, EffectAccess::List, reach);
    if starts.is_empty() {
        touches.push(TouchedFile::here(EffectAccess::List, reach));
    }
    Some(ProgramAnalysis::reads(touches))
}

/// A filter can import modules; apart from that it has no side effects.
fn jq(args: &[Field]) -> Option<ProgramAnalysis> {
    let mut plain = Vec::new();
    let mut extra = Vec::new();
    // No options after `--`.
    let end = args.iter().position(|arg| arg.literal() == Some("--")).unwrap_or(args.len());
    let (front, back) = args.split_at(end);
    let mut iter = front.iter();
    while let Some(arg) = iter.next() {
        match arg.literal() {
            Some("--indent") => {
                let digits = |field: &&Field| field.literal().is_some_and(|it| it.parse::<u8>().is_ok());
                iter.next().filter(digits)?;
            }
            Some("--arg" | "--argjson") => {
                iter.next().filter(|field| field.is_single())?;
                iter.next().filter(|field| field.is_single())?;
            }
            Some("--slurpfile" | "--rawfile") => {
                iter.next().filter(|field| field.is_single())?;
                extra.push(TouchedFile::new(
                    EffectAccess::Read,
                    iter.next().filter(|field| field.is_single())?,
                ));
            }
            _ => plain.push(arg.clone()),
        }
    }
    plain.extend_from_slice(back);
    let parsed = parse(JQ, &plain, UnknownWordRule::Refused)?;
    let (filter, rest) = match parsed.operands.split_first() {
        Some((filter, rest)) => (filter.literal()?, rest),
        None => ("", &[][..]),
    };
    if filter.contains("import") || filter.contains("include") {
        return None;
    }
    // Words before `--args` are files; words after it may look like files.
    let mut touches = files(rest, EffectAccess::Read, EffectScope::Itself);
    touches.append(&mut extra);
    Some(ProgramAnalysis::reads(touches))
}

/// Two programs have this name. Options that are harmless only in one of them are not listed (`-s`
/// writes files in one, `-i` in both).
const YQ: &str = "-rnPCMNejcyYhV -o: -p: -I: --raw-output --null-input --prettyPrint --colors --no-colors --no-doc \
    --exit-status --tojson --output-format: --input-format: --unwrapScalar? --help --version";

/// An expression can read files, and run programs by name.
fn yq(args: &[Field]) -> Option<ProgramAnalysis> {
    let parsed = parse(YQ, args, UnknownWordRule::Refused)?;
    let operands = match parsed.operands.split_first() {
        Some((first, rest)) if matches!(first.literal(), Some("e" | "eval" | "ea" | "eval-all")) => rest,
        _ => &parsed.operands[..],
    };
    let calls = ["load", "import", "include", "system", "exec", "split", "eval"];
    let expression = match operands.first() {
        Some(first) => first.literal()?,
        None => "",
    };
    if calls.iter().any(|word| expression.contains(word)) {
        return None;
    }
    // The first operand may also be a file.
    Some(ProgramAnalysis::reads(files(operands, EffectAccess::Read, EffectScope::Itself)))
}
