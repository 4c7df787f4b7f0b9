//! `git`, the forms that only look.

use super::{
    ProgramAnalysis, TouchedFile,
    getopt::{Parsed, UnknownWordRule, parse},
};
use crate::{
    analysis::{ConfigDependence, EffectAccess, EffectScope, OutputRestriction},
    expansion::Field,
};

const DIFF: &str = "-psuwbaRzWt -# -M? -C? -D? -B? -X? -U? -G: -S: -O:R -l: --patch --no-patch --unified? --raw \
    --patch-with-raw --minimal --patience --histogram --anchored: --diff-algorithm: --stat? --compact-summary \
    --numstat --shortstat --dirstat? --cumulative --summary --name-only --name-status --submodule? --color? --no-color \
    --color-moved? --color-moved-ws: --word-diff? --word-diff-regex: --color-words? --no-renames --rename-empty \
    --no-rename-empty --check --full-index --binary --abbrev? --break-rewrites? --find-renames? --find-copies? \
    --find-copies-harder --irreversible-delete --diff-filter: --find-object: --pickaxe-all --pickaxe-regex --skip-to: \
    --rotate-to: --relative? --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change \
    --ignore-all-space --ignore-blank-lines --ignore-matching-lines: --inter-hunk-context: --function-context \
    --exit-code --quiet --no-ext-diff --no-textconv --ignore-submodules? --src-prefix: --dst-prefix: --no-prefix \
    --default-prefix --line-prefix: --ita-invisible-in-index --merge-base --cached --staged --cc --combined-all-paths \
    --base --ours --theirs";

const LOG: &str = "-giEFPcmr -n: -L: --follow --oneline --graph --no-graph --decorate? --no-decorate --decorate-refs: \
    --decorate-refs-exclude: --all --branches? --tags? --remotes? --glob: --exclude: --since: --until: --after: \
    --before: --since-as-filter: --author: --committer: --grep: --all-match --invert-grep --regexp-ignore-case \
    --extended-regexp --fixed-strings --perl-regexp --basic-regexp --merges --no-merges --min-parents? --max-parents? \
    --first-parent --reverse --topo-order --date-order --author-date-order --max-count: --skip: --left-right --cherry \
    --cherry-mark --cherry-pick --left-only --right-only --boundary --simplify-by-decoration --full-history --dense \
    --sparse --simplify-merges --ancestry-path? --show-pulls --walk-reflogs --grep-reflog: --pretty? --format? \
    --abbrev-commit --no-abbrev-commit --date: --relative-date --parents --children --source --mailmap --no-mailmap \
    --use-mailmap --log-size --notes? --no-notes --encoding: --expand-tabs? --no-expand-tabs --no-walk? --not \
    --clear-decorations --diff-merges: --no-diff-merges --count --objects --timestamp --header --bisect";

const STATUS: &str = "-sbvz -u? --short --branch --show-stash --porcelain? --long --verbose --untracked-files? \
    --ignore-submodules? --ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames \
    --find-renames?";

const BLAME: &str = "-bcltfnsepw -L: -M? -C? --root --show-stats --date: --line-porcelain --porcelain --incremental \
    --reverse --contents:R --show-name --show-number --show-email --abbrev? --since: --ignore-rev: \
    --ignore-revs-file:R --first-parent --encoding: --progress --no-progress --color-lines --color-by-age";

const REV_PARSE: &str = "-q --abbrev-ref? --short? --verify --quiet --symbolic --symbolic-full-name --all --branches? \
    --tags? --remotes? --show-toplevel --show-cdup --show-prefix --show-superproject-working-tree --git-dir \
    --absolute-git-dir --git-common-dir --git-path: --is-inside-git-dir --is-inside-work-tree --is-bare-repository \
    --is-shallow-repository --show-object-format? --since: --until: --revs-only --no-revs --flags --no-flags \
    --default: --sq --not --path-format: --show-ref-format";

const LS_FILES: &str = "-cdmoistukvzf -x: -X:R --cached --deleted --modified --others --ignored --stage --unmerged \
    --killed --directory --no-empty-directory --eol --deduplicate --exclude: --exclude-from:R \
    --exclude-per-directory: --exclude-standard --error-unmatch --with-tree: --full-name --abbrev? \
    --recurse-submodules --sparse --format:";

const GREP: &str = "-aiIwvhHEGFPnlLzcopWqr -# -e: -f:R -A: -B: -C: -m: --text --ignore-case --word-regexp \
    --invert-match --full-name --extended-regexp --basic-regexp --fixed-strings --perl-regexp --line-number --column \
    --name-only --files-with-matches --files-without-match --null --only-matching --count --color? --no-color --break \
    --heading --show-function --context: --after-context: --before-context: --function-context --threads: --and --or \
    --not --all-match --quiet --cached --untracked --no-exclude-standard --exclude-standard --max-depth: --recursive \
    --no-recursive --max-count:";

const REFS: &str = "--sort: --format: --color? --no-color --points-at: --merged: --no-merged: --contains: \
    --no-contains: --ignore-case --column? --no-column --omit-empty";

/// What the operands of a subcommand are.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Operands {
    /// Revisions or files.
    Any,
    /// None.
    Nothing,
}

/// Plain subcommands: name, options, operands.
const PLAIN: &[(&str, &[&str], Operands)] = &[
    ("annotate", &[BLAME], Operands::Any),
    ("blame", &[BLAME], Operands::Any),
    ("cat-file", &["-tsep --allow-unknown-type"], Operands::Any),
    ("check-attr", &["-az --all --stdin --cached --source:"], Operands::Any),
    ("check-ignore", &["-qvzn --quiet --verbose --stdin --non-matching --no-index"], Operands::Any),
    ("cherry", &["-v --abbrev?"], Operands::Any),
    ("count-objects", &["-vH --verbose --human-readable"], Operands::Nothing),
    (
        "describe",
        &[
            "--all --tags --contains --abbrev? --candidates: --exact-match --debug --long --match: --exclude: --always \
           --first-parent --dirty? --broken?",
        ],
        Operands::Any,
    ),
    ("diff", &[DIFF], Operands::Any),
    ("diff-files", &[DIFF, "-q -c -r -m"], Operands::Any),
    ("diff-index", &[DIFF, "-r -m -c"], Operands::Any),
    ("diff-tree", &[DIFF, "-r -m -c -v --root --stdin --no-commit-id --pretty? --always"], Operands::Any),
    ("for-each-ref", &[REFS, "--count: --exclude: --include-root-refs"], Operands::Any),
    ("log", &[LOG, DIFF], Operands::Any),
    ("ls-files", &[LS_FILES], Operands::Any),
    (
        "ls-tree",
        &[
            "-drtlz --long --name-only --name-status --object-only --full-name --full-tree --abbrev? --format:",
        ],
        Operands::Any,
    ),
    ("merge-base", &["-a --all --octopus --independent --is-ancestor --fork-point"], Operands::Any),
    ("name-rev", &["--tags --refs: --exclude: --all --name-only --no-undefined --always"], Operands::Any),
    (
        "rev-list",
        &[LOG, "-v --objects-edge --use-bitmap-index --disk-usage? --stdin --quiet --cherry-pick"],
        Operands::Any,
    ),
    ("rev-parse", &[REV_PARSE], Operands::Any),
    (
        "shortlog",
        &[
            "-nsec -w? --numbered --summary --email --committer --group: --format? --since: --until: --after: --before: \
           --author: --no-merges --merges --all --branches? --tags? --first-parent",
        ],
        Operands::Any,
    ),
    ("show", &[LOG, DIFF], Operands::Any),
    (
        "show-branch",
        &[
            "-ar --all --remotes --topo-order --date-order --sparse --list --merge-base --no-name --sha1-name --topics --color? --no-color",
        ],
        Operands::Any,
    ),
    (
        "show-ref",
        &["-dsq --head --heads --tags --branches --dereference --hash? --verify --abbrev? --quiet"],
        Operands::Any,
    ),
    ("status", &[STATUS], Operands::Any),
    ("version", &["--build-options"], Operands::Nothing),
    ("whatchanged", &[LOG, DIFF], Operands::Any),
];

pub(super) fn classify(args: &[Field]) -> Option<ProgramAnalysis> {
    // Whatever a pattern or a variable turns into may be an option.
    let known = args.iter().all(|arg| matches!(arg, Field::Literal(_) | Field::Number));
    if !known {
        return None;
    }
    let (args, place) = global_options(args)?;
    let (subcommand, args) = args.split_first()?;
    let mut touches = subcommand_touches(subcommand.literal()?, args)?;
    touches.push(TouchedFile::here(EffectAccess::Obey(ConfigDependence::Git), EffectScope::Itself));
    if let Some(place) = place {
        touches.iter_mut().for_each(|touch| move_below(&place, touch));
        touches.push(TouchedFile::new(EffectAccess::Enter, &Field::Literal(place)));
    }
    Some(ProgramAnalysis::reads(touches))
}

/// What follows the options in front of the subcommand, and the directory it
/// was told to go to.
fn global_options(mut args: &[Field]) -> Option<(&[Field], Option<String>)> {
    let mut place: Option<String> = None;
    loop {
        match args.first()?.literal() {
            Some("--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs") => args = &args[1..],
            Some("-C") => {
                let next = args.get(1)?.literal().filter(|it| !it.is_empty())?;
                let below = |place: String| {
                    if next.starts_with('/') { next.to_owned() } else { format!("{place}/{next}") }
                };
                place = Some(place.map_or_else(|| next.to_owned(), below));
                args = &args[2..];
            }
            _ => return Some((args, place)),
        }
    }
}

/// Words mean what they mean in the directory git was told to go to.
fn move_below(place: &str, touch: &mut TouchedFile) {
    if let Field::Literal(text) = &mut touch.field
        && !text.starts_with('/')
    {
        *text = format!("{place}/{text}");
    }
}

fn subcommand_touches(name: &str, args: &[Field]) -> Option<Vec<TouchedFile>> {
    if let Some((_, lists, operands)) = PLAIN.iter().find(|(plain, ..)| *plain == name) {
        let parsed = parse_lists(lists, args)?;
        if *operands == Operands::Nothing && !parsed.operands.is_empty() {
            return None;
        }
        return Some(plain_touches(name, &parsed, args));
    }
    match name {
        "--version" | "-v" => args.is_empty().then(Vec::new),
        "help" => match &super::literals(args)?[..] {
            [] | ["-a" | "--all" | "-g" | "--guides" | "-c" | "--config"] => Some(Vec::new()),
            [topic] => is_name(topic).then(Vec::new),
            _ => None,
        },
        "branch" => branch(args),
        "tag" => tag(args),
        "config" => config(args),
        "remote" => remote(args),
        "grep" => grep(args),
        "reflog" => {
            let rest = match args.first().and_then(Field::literal) {
                Some("expire" | "delete" | "drop" | "write") => return None,
                Some("show" | "list") => &args[1..],
                _ => args,
            };
            Some(plain_touches("log", &parse_lists(&[LOG, DIFF], rest)?, rest))
        }
        "stash" => match args.split_first().map(|(first, rest)| (first.literal(), rest)) {
            Some((Some("list"), rest)) => Some(plain_touches("log", &parse_lists(&[LOG, DIFF], rest)?, rest)),
            // Whether it shows differences or their sizes is a setting.
            Some((Some("show"), rest)) => {
                parse_lists(&[DIFF, "--include-untracked --only-untracked"], rest)?;
                Some(vec![whole_repository()])
            }
            _ => None,
        },
        // A second operand would be what it stands for from then on.
        "symbolic-ref" => {
            let parsed = parse_lists(&["-q --quiet --short --recurse --no-recurse"], args)?;
            (parsed.operands.len() == 1).then(Vec::new)
        }
        "worktree" => match super::literals(args)?.split_first() {
            Some((&"list", rest)) => {
                rest.iter().all(|w| matches!(*w, "--porcelain" | "-v" | "-z")).then(Vec::new)
            }
            _ => None,
        },
        _ => None,
    }
}

/// What a plain subcommand touches: what its operands and options name, and
/// whatever else of the repository it shows.
fn plain_touches(name: &str, parsed: &Parsed, args: &[Field]) -> Vec<TouchedFile> {
    let mut found = touches(parsed, &parsed.operands);
    // Operands behind the dashes are files; in front of them, and without any, they may be revisions.
    let dashes = args.iter().position(|arg| arg.literal() == Some("--"));
    let named = dashes.map_or(&parsed.operands[..], |at| &args[at + 1..]);
    let front =
        dashes.map_or(&parsed.operands[..], |_| &parsed.operands[..parsed.operands.len() - named.len()]);
    // What is no commit is shown as it is, however differences are to be shown.
    let object = name == "show" && !front.iter().all(is_commit);
    if !object && !shows_content(name, parsed) {
        return found;
    }
    let types = ["blob", "tree", "commit", "tag"];
    let revisions = front.iter().filter_map(Field::literal).filter(|text| !types.contains(text));
    let (files, revisions): (Vec<&str>, Vec<&str>) = revisions.partition(|text| text.contains(':'));
    // A directory is shown with all that is in it.
    for touch in found.iter_mut().filter(|touch| named.contains(&touch.field)) {
        touch.reach = EffectScope::Tree;
    }
    let limited = parsed.has(&["L"]) || dashes.is_some() && !named.is_empty();
    let rest = match name {
        "cat-file" => (!revisions.is_empty()).then_some(OutputRestriction::Nothing),
        _ if named.iter().filter_map(Field::literal).any(is_wide) => Some(OutputRestriction::Nothing),
        _ if limited || !files.is_empty() && revisions.is_empty() => None,
        _ => Some(OutputRestriction::Named),
    };
    let from_top = (!files.is_empty()).then_some(OutputRestriction::AtTop);
    found.extend(
        rest.into_iter()
            .chain(from_top)
            .map(|it| TouchedFile::here(EffectAccess::Read, EffectScope::Repository(it))),
    );
    found
}

/// Whether an operand is certainly a commit: `HEAD`, `@~2`.
fn is_commit(operand: &Field) -> bool {
    let behind = |text: &str| text.strip_prefix("HEAD").or_else(|| text.strip_prefix('@')).map(str::to_owned);
    let back = |c: char| c.is_ascii_digit() || matches!(c, '~' | '^');
    operand.literal().and_then(behind).is_some_and(|rest| rest.chars().all(back))
}

fn whole_repository() -> TouchedFile {
    TouchedFile::here(EffectAccess::Read, EffectScope::Repository(OutputRestriction::Nothing))
}

/// Whether an operand may mean files in places it does not spell: `:/`,
/// `:!a`, `*.rs`.
fn is_wide(text: &str) -> bool {
    text.contains(['*', '?', '[', '\\'])
        || text
            .strip_prefix(':')
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

/// Whether a subcommand shows what is in files, whichever they are.
fn shows_content(name: &str, parsed: &Parsed) -> bool {
    let silent = [
        "no-patch",
        "s",
        "name-only",
        "name-status",
        "stat",
        "numstat",
        "shortstat",
        "summary",
        "raw",
        "quiet",
    ];
    let patches = [
        "p",
        "u",
        "patch",
        "U",
        "unified",
        "patch-with-raw",
        "L",
        "binary",
        "c",
        "cc",
        "check",
        "diff-merges",
        "word-diff",
        "color-words",
        "W",
        "function-context",
        "m",
    ];
    match name {
        "cat-file" => !parsed.has(&["t", "s", "e"]),
        "status" => parsed.has(&["v", "verbose"]),
        "diff" | "show" => !parsed.has(&silent) || parsed.has(&patches),
        "log" | "whatchanged" | "diff-files" | "diff-index" | "diff-tree" => parsed.has(&patches),
        _ => false,
    }
}

fn is_name(text: &str) -> bool {
    !text.starts_with('-') && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn parse_lists(lists: &[&str], args: &[Field]) -> Option<Parsed> {
    let parsed = parse(&lists.join(" "), args, UnknownWordRule::Refused)?;
    // `%G`, `%+G` and `%(signature)` in a format run the signature checker.
    let checked_by = ["%G", "%+G", "%-G", "% G", "signature"];
    let checks =
        |field: &Field| field.literal().is_none_or(|text| checked_by.iter().any(|it| text.contains(it)));
    let checked = parsed.values(&["format", "pretty"]).any(checks);
    // Merging again runs whoever merges such files; submodules have settings of their own.
    let merged = parsed
        .values(&["diff-merges"])
        .any(|value| value.literal().is_none_or(|text| matches!(text, "r" | "remerge")));
    let entered =
        parsed.values(&["submodule"]).any(|value| !matches!(value.literal(), Some("log" | "short")));
    (!checked && !merged && !entered).then_some(parsed)
}

/// Operands may be revisions or files: each is taken for a file, and what
/// follows a colon (`HEAD:src/a.rs`) as well.
fn touches(parsed: &Parsed, operands: &[Field]) -> Vec<TouchedFile> {
    let mut out: Vec<TouchedFile> =
        parsed.reads.iter().map(|file| TouchedFile::new(EffectAccess::Read, file)).collect();
    // `-L1,9:FILE`, `-L:NAME:FILE`
    let ranges = parsed.values(&["L"]).filter_map(|value| value.literal()?.rsplit_once(':'));
    out.extend(
        ranges.map(|(_, file)| TouchedFile::new(EffectAccess::Read, &Field::Literal(file.to_owned()))),
    );
    for operand in operands {
        let Some(text) = operand.literal() else { continue };
        out.push(TouchedFile::new(EffectAccess::Read, operand));
        // Times and stages have colons, too (`HEAD@{10:00}:a`, `:0:a`): whatever follows one may be a file.
        let paths = text.match_indices(':').map(|(at, _)| &text[at + 1..]);
        for path in paths.filter(|path| !path.is_empty() && !path.starts_with('/')) {
            out.push(TouchedFile::new(EffectAccess::Read, &Field::Literal(path.to_owned())));
        }
    }
    out
}

fn grep(args: &[Field]) -> Option<Vec<TouchedFile>> {
    let parsed = parse_lists(&[GREP], args)?;
    let skip = usize::from(!parsed.has(&["e", "f"]));
    let paths = parsed.operands.get(skip..).unwrap_or_default();
    let mut out = touches(&parsed, paths);
    out.iter_mut().for_each(|touch| touch.reach = EffectScope::Tree);
    out.push(match paths {
        [] if !parsed.has(&["cached"]) => TouchedFile::here(EffectAccess::Read, EffectScope::Tree),
        _ if paths.iter().filter_map(Field::literal).any(is_wide) => whole_repository(),
        _ => TouchedFile::here(EffectAccess::Read, EffectScope::Repository(OutputRestriction::Named)),
    });
    Some(out)
}

/// An operand makes a branch unless something asks for a list.
fn branch(args: &[Field]) -> Option<Vec<TouchedFile>> {
    let own = "-arvi --list --all --remotes --verbose --show-current --abbrev? --no-abbrev";
    let parsed = parse_lists(&[REFS, own], &default_value(args))?;
    (parsed.operands.is_empty() || parsed.has(&["list"])).then(Vec::new)
}

fn tag(args: &[Field]) -> Option<Vec<TouchedFile>> {
    let parsed = parse_lists(&[REFS, "-li -n? --list"], &default_value(args))?;
    (parsed.operands.is_empty() || parsed.has(&["l", "list"])).then(Vec::new)
}

/// `--merged` and its like may stand last without a value.
fn default_value(args: &[Field]) -> Vec<Field> {
    let mut args = args.to_vec();
    if let Some("--merged" | "--no-merged" | "--contains" | "--no-contains" | "--points-at") =
        args.last().and_then(Field::literal)
    {
        args.push(Field::Literal("HEAD".to_owned()));
    }
    args
}

/// One operand reads a value, two would set it.
fn config(args: &[Field]) -> Option<Vec<TouchedFile>> {
    let own = "-lz -f:R --get --get-all --get-regexp --get-urlmatch --list --global --local --system --worktree \
               --file:R --show-origin --show-scope --name-only --null --type: --bool --int --path --default: --includes \
               --no-includes";
    let parsed = parse_lists(&[own], args)?;
    let query = parsed.has(&["get", "get-all", "get-regexp", "get-urlmatch", "list", "l"]);
    let operands = super::literals(&parsed.operands)?;
    let reads = query
        || match &operands[..] {
            [name] => name.contains('.') || *name == "list",
            ["get", _] => true,
            _ => false,
        };
    reads.then(|| parsed.reads.iter().map(|file| TouchedFile::new(EffectAccess::Read, file)).collect())
}

fn remote(args: &[Field]) -> Option<Vec<TouchedFile>> {
    match &super::literals(args)?[..] {
        [] | ["-v" | "--verbose"] => Some(Vec::new()),
        ["get-url", rest @ ..] => {
            rest.iter().all(|w| !w.starts_with('-') || matches!(*w, "--all" | "--push")).then(Vec::new)
        }
        _ => None,
    }
}
