//! Programs fully described by a list of options.

use super::{
    ProgramAnalysis, TouchedFile, files,
    getopt::{Parsed, UnknownWordRule, parse},
};
use crate::{
    analysis::{ConfigDependence, EffectAccess, EffectScope},
    expansion::Field,
};

/// Kind of operands of a program.
#[derive(Clone, Copy)]
enum Operands {
    /// No operands allowed.
    None,
    /// Text that names no file.
    Text,
    /// Files that are read.
    Files,
    /// At most one file, which is read; a second one would be written.
    OneFile,
    /// Files and directories whose names and metadata are shown.
    Names,
    /// Directories that are walked for names and metadata.
    Trees,
}

use Operands::{Files, Names, None as Nothing, OneFile, Text, Trees};

struct SimpleSpec {
    names: &'static [&'static str],
    operands: Operands,
    surprise: UnknownWordRule,
    options: &'static str,
}

const fn spec(names: &'static [&'static str], operands: Operands, options: &'static str) -> SimpleSpec {
    SimpleSpec { names, operands, surprise: UnknownWordRule::Refused, options }
}

/// A program for which every option is harmless, listed or not.
const fn free(names: &'static [&'static str], operands: Operands, options: &'static str) -> SimpleSpec {
    SimpleSpec { names, operands, surprise: UnknownWordRule::Fine, options }
}

/// A program whose unlisted options are unusual rather than harmful. Globs are accepted as operands; the
/// caller that can read the disk checks for matches that look like options.
const fn looked_at(names: &'static [&'static str], operands: Operands, options: &'static str) -> SimpleSpec {
    SimpleSpec { names, operands, surprise: UnknownWordRule::Pattern, options }
}

const SPECS: &[SimpleSpec] = &[
    free(
        &["ls", "dir", "vdir"],
        Names,
        "-aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ1 -I: -T: -w: --all --almost-all --author --escape --block-size: \
         --ignore-backups --color? --directory --dired --classify? --file-type --format: --full-time \
         --group-directories-first --no-group --human-readable --si --dereference-command-line --dereference --hide: \
         --hyperlink? --indicator-style: --inode --ignore: --kibibytes --literal --numeric-uid-gid \
         --hide-control-chars --show-control-chars --quote-name --quoting-style: --reverse --recursive --size --sort: \
         --time: --time-style: --tabsize: --width: --context --zero --help --version",
    ),
    free(
        &["cat"],
        Files,
        "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs \
         --show-nonprinting --help --version",
    ),
    free(&["tac"], Files, "-b -r -s: --before --regex --separator: --help --version"),
    free(
        &["nl"],
        Files,
        "-p -b: -d: -f: -h: -i: -l: -n: -s: -v: -w: --body-numbering: --number-width: --number-format: \
         --number-separator: --starting-line-number: --line-increment: --no-renumber --help --version",
    ),
    free(
        &["head"],
        Files,
        "-n: -c: -qvz -# --lines: --bytes: --quiet --silent --verbose --zero-terminated --help --version",
    ),
    free(
        &["tail"],
        Files,
        "-n: -c: -s: -fFqvz -# --lines: --bytes: --follow? --retry --pid: --sleep-interval: --quiet --silent --verbose \
         --zero-terminated --help --version",
    ),
    free(
        &["wc"],
        Files,
        "-clmwL --bytes --chars --lines --words --max-line-length --total: --help --version",
    ),
    free(
        &["stat"],
        Names,
        "-c: -fLt --format: --printf: --dereference --file-system --terse --cached: --help --version",
    ),
    free(
        &["du"],
        Trees,
        "-0aAbcDhHklLmPsSx -B: -d: -t: -X:R --null --all --apparent-size --bytes --total --dereference-args \
         --human-readable --si --dereference --no-dereference --summarize --separate-dirs --one-file-system \
         --block-size: --max-depth: --threshold: --exclude: --exclude-from:R --inodes --time? \
         --time-style: --help --version",
    ),
    free(
        &["diff"],
        Files,
        "-abBcdEiNnpqrstTuwyZ -# -C: -D: -F: -I: -L: -S: -U: -W: -x: -X:R --brief --report-identical-files --context? \
         --unified? --normal --rcs --side-by-side --width: --left-column --suppress-common-lines --show-c-function \
         --show-function-line: --label: --expand-tabs --initial-tab --tabsize: --suppress-blank-empty --recursive \
         --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case --exclude: --exclude-from:R \
         --starting-file: --ignore-case --ignore-tab-expansion --ignore-trailing-space --ignore-space-change \
         --ignore-all-space --ignore-blank-lines --ignore-matching-lines: --text --strip-trailing-cr --minimal \
         --speed-large-files --color? --help --version",
    ),
    free(&["which"], Text, "-as --all --help --version"),
    free(&["pwd"], Nothing, "-LP --logical --physical"),
    spec(
        &["df"],
        Names,
        "-ahHiklPTv -B: -t: -x: --all --block-size: --total --human-readable --si --inodes --local \
         --portability --print-type --type: --exclude-type: --output? --help --version",
    ),
    looked_at(
        &["file"],
        Files,
        "-bchiklLNnrv0 -F: -P: --brief --mime --mime-type --mime-encoding --keep-going --dereference \
         --no-dereference --no-pad --no-buffer --print0 --separator: --help --version",
    ),
    spec(
        &["readlink"],
        Names,
        "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent \
         --verbose --zero --help --version",
    ),
    spec(
        &["realpath"],
        Names,
        "-eLmPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet --strip --no-symlinks \
         --zero --relative-to: --relative-base: --help --version",
    ),
    free(&["basename"], Text, "-az -s: --multiple --suffix: --zero --help --version"),
    free(&["dirname"], Text, "-z --zero --help --version"),
    spec(&["seq"], Text, "-w -# -f: -s: --format: --separator: --equal-width --help --version"),
    spec(&["sleep"], Text, "--help --version"),
    spec(&["factor"], Text, "--help --version"),
    free(&["expr"], Text, "-#"),
    spec(
        &["numfmt"],
        Text,
        "-z -d: --from: --to: --from-unit: --to-unit: --suffix: --padding: --field: --format: --header? --invalid: \
         --round: --delimiter: --grouping --zero-terminated",
    ),
    spec(
        &["uname"],
        Nothing,
        "-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor \
         --hardware-platform --operating-system --help --version",
    ),
    spec(
        &["arch", "whoami", "logname", "users", "nproc", "tty"],
        Nothing,
        "-s --all --ignore: --silent --quiet --help --version",
    ),
    spec(&["id"], Text, "-aGgnruzZ --group --groups --name --real --user --zero --help --version"),
    spec(&["groups"], Text, "--help --version"),
    spec(&["who"], Nothing, "-abdHlmpqrstTuw --all --boot --count --heading --login --short --users"),
    spec(&["w"], Text, "-hsfouiV --no-header --short --from --ip-addr"),
    spec(&["uptime"], Nothing, "-psV --pretty --since --version"),
    spec(&["hostname"], Nothing, "-sI --short --all-ip-addresses"),
    spec(&["printenv"], Text, "-0 --null --help --version"),
    spec(&["locale"], Text, "-amkc --all-locales --charmaps --keyword-name --category-name"),
    spec(&["getconf"], Text, "-a"),
    spec(&["cal", "ncal"], Text, "-13jsmywh -A: -B: -d: -H: -n:"),
    spec(&["tr"], Text, "-cCdst --complement --delete --squeeze-repeats --truncate-set1 --help --version"),
    spec(
        &["cut"],
        Files,
        "-nsz -b: -c: -d: -f: --bytes: --characters: --delimiter: --fields: --complement --only-delimited \
         --output-delimiter: --zero-terminated --help --version",
    ),
    spec(&["paste"], Files, "-sz -d: --delimiters: --serial --zero-terminated"),
    spec(
        &["join"],
        Files,
        "-iz -a: -e: -j: -o: -t: -v: -1: -2: --ignore-case --check-order --nocheck-order --header --zero-terminated",
    ),
    spec(
        &["comm"],
        Files,
        "-123z --check-order --nocheck-order --output-delimiter: --total --zero-terminated",
    ),
    spec(&["cmp"], Files, "-bls -i: -n: --print-bytes --verbose --silent --quiet --bytes: --ignore-initial:"),
    spec(&["fold"], Files, "-bs -w: -# --bytes --spaces --width:"),
    spec(
        &["fmt"],
        Files,
        "-cstu -p: -w: -g: -# --crown-margin --prefix: --split-only --uniform-spacing --width: --goal:",
    ),
    spec(&["expand", "unexpand"], Files, "-ai -t: -# --all --first-only --initial --tabs:"),
    spec(&["rev"], Files, "-0 --zero"),
    spec(
        &["column"],
        Files,
        "-txeJL -c: -d -H: -l: -N: -O: -o: -R: -s: -T: -W: --table --json --separator: --output-separator: \
         --table-columns: --table-name: --table-right: --table-hide: --table-noheadings --output-width: --fillrows",
    ),
    spec(
        &["od"],
        Files,
        "-abcdfhilosvx -A: -j: -N: -S: -t: -w? --address-radix: --skip-bytes: --read-bytes: --endian: --format: \
         --output-duplicates --strings? --width?",
    ),
    spec(&["hexdump", "hd"], Files, "-bcCdovx -e: -f:R -n: -s: --canonical --no-squeezing --length: --skip:"),
    spec(
        &["strings"],
        Files,
        "-afow -# -n: -t: -e: -s: --all --print-file-name --bytes: --radix: --encoding:",
    ),
    spec(&["base64", "base32"], Files, "-di -w: --decode --ignore-garbage --wrap: --help --version"),
    looked_at(
        &["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "shasum"],
        Files,
        "-btz -a: -l: --binary --tag --text --zero --algorithm: --help --version",
    ),
    spec(
        &["cksum", "sum"],
        Files,
        "-rsz -a: -l: --algorithm: --untagged --tag --raw --sysv --zero --help --version",
    ),
    spec(
        &["sort"],
        Files,
        "-bdfghiMnRrVcCmsuz -k: -t: -S: --ignore-leading-blanks --dictionary-order --ignore-case \
         --general-numeric-sort --human-numeric-sort --ignore-nonprinting --month-sort --numeric-sort --random-sort \
         --random-source:R --reverse --sort: --version-sort --check? --debug --key: --merge --stable \
         --buffer-size: --field-separator: --parallel: --unique --zero-terminated --help --version",
    ),
    spec(
        &["uniq"],
        OneFile,
        "-cdDuiz -f: -s: -w: --count --repeated --all-repeated? --group? --unique --ignore-case --skip-fields: \
         --skip-chars: --check-chars: --zero-terminated --help --version",
    ),
    spec(
        &["shuf"],
        OneFile,
        "-rz -i: -n: --input-range: --head-count: --random-source:R --repeat --zero-terminated",
    ),
    spec(&["bc"], Files, "-lqsw --mathlib --quiet --standard --version"),
    spec(
        &["tree"],
        Trees,
        "-adfilpstuhCDFgnNqrvxJXSAcQU -L: -P: -I: --dirsfirst --filesfirst --noreport --du --si --gitignore --prune \
         --charset: --filelimit: --sort? --timefmt: --inodes --device --matchdirs --ignore-case --version --help",
    ),
    looked_at(
        &["shellcheck"],
        Files,
        "-a -s: -f: -e: -i: -o: -S: -C? --color? --shell: --format: --exclude: --include: --severity: --enable: --version",
    ),
    spec(
        &["pgrep"],
        Text,
        "-acfilnovwx -d: -g: -G: -P: -s: -t: -u: -U: --full --list-name --list-full --count --newest --oldest --exact --inverse --parent: --euid: --uid:",
    ),
    spec(&["pidof"], Text, "-sx -o:"),
    spec(&["pstree"], Text, "-aAcghlnpsStTuUZ -H:"),
    spec(
        &["free"],
        Nothing,
        "-bkmghltvw -s: -c: --bytes --kibi --mebi --gibi --human --si --lohi --total --wide --count: --seconds:",
    ),
    spec(&["vmstat"], Text, "-anstdDw -p: -S:"),
    spec(&["lscpu"], Nothing, "-abBcJxy -e? -p? --all --bytes --json --extended? --parse?"),
    spec(
        &["lsblk"],
        Names,
        "-abdDfiJlmnOpPrsStzZ -I: -e: -o: -x: --all --fs --json --list --output: --paths --noheadings --topology --tree?",
    ),
    spec(&["lsusb", "lspci"], Nothing, "-vtnkmDbx"),
    spec(&["lsmod"], Nothing, ""),
    spec(&["lsb_release"], Nothing, "-adsirc --all --description --short --id --release --codename"),
    spec(&["hostnamectl", "timedatectl", "localectl"], Nothing, "--no-pager"),
    spec(
        &["ss", "netstat"],
        Text,
        "-46aeghilmnoprstuwxHO --all --listening --numeric --processes --tcp --udp --summary --extended --unix --no-header",
    ),
    spec(
        &["dmesg"],
        Nothing,
        "-dHkLtTux -f: -l: --facility: --level: --ctime --human --kernel --notime --decode --color?",
    ),
    spec(&["whereis"], Text, "-bmsu"),
    spec(&["whatis", "apropos"], Text, "-ael -s: --exact --wildcard --regex"),
    spec(&["clear", "reset"], Nothing, ""),
    free(
        &["pr"],
        Files,
        "-abcdfFJmrtTv -# -D: -e? -h: -i? -l: -n? -N: -o: -s? -S? -w: -W: --across --columns: --double-space \
         --date-format: --header: --length: --merge --number-lines? --indent: --omit-header --omit-pagination --width: \
         --page-width: --help --version",
    ),
];

pub(super) fn classify(name: &str, args: &[Field]) -> Option<ProgramAnalysis> {
    if let Some(verdict) = special(name, args) {
        return verdict;
    }
    let spec = SPECS.iter().find(|spec| spec.names.contains(&name))?;
    if name == "tree" && !args.iter().all(keeps_values_apart) {
        return None;
    }
    let parsed = parse(spec.options, args, spec.surprise)?;
    let mut touches = operands(name, spec.operands, &parsed)?;
    touches.extend(parsed.reads.iter().map(|file| TouchedFile::new(EffectAccess::Read, file)));
    if name == "shellcheck" {
        touches.extend(parsed.operands.iter().map(obeys_beside).collect::<Option<Vec<_>>>()?);
    }
    // These contact a system service.
    let talks = matches!(name, "hostnamectl" | "localectl" | "timedatectl");
    Some(ProgramAnalysis { talks, ..ProgramAnalysis::reads(touches) })
}

/// ShellCheck reads configuration beside a script and in all parent directories.
fn obeys_beside(script: &Field) -> Option<TouchedFile> {
    let (Field::Literal(text) | Field::Glob(text)) = script else { return None };
    let parent =
        text.rsplit_once('/').map_or(".", |(parent, _)| if parent.is_empty() { "/" } else { parent });
    let beside = Field::Literal(parent.to_owned());
    (!parent.contains(['*', '?', '[']))
        .then(|| TouchedFile::new(EffectAccess::Obey(ConfigDependence::Shellcheck), &beside))
}

/// In these programs the text after a valued option in the same word is more options, and the value is
/// the next word.
fn keeps_values_apart(arg: &Field) -> bool {
    let cluster = arg.literal().and_then(|text| text.strip_prefix('-')).filter(|text| !text.starts_with('-'));
    let behind = cluster.and_then(|text| text.split_once(['L', 'P', 'I']));
    behind.is_none_or(|(_, rest)| rest.bytes().all(|b| b.is_ascii_digit()))
}

fn operands(name: &str, kind: Operands, parsed: &Parsed) -> Option<Vec<TouchedFile>> {
    let operands = &parsed.operands;
    let unknown_options = operands.iter().any(|field| matches!(field, Field::One(_) | Field::Many(_)));
    match kind {
        Nothing => operands.is_empty().then(Vec::new),
        Text => Some(Vec::new()),
        Files => {
            // Some programs read options from `@file`.
            let listed = name == "strings"
                && operands.iter().any(|field| field.literal().is_none_or(|text| text.starts_with('@')));
            let reach =
                if name == "diff" || unknown_options { EffectScope::LinkedTree } else { EffectScope::Itself };
            (!listed).then(|| files(operands, EffectAccess::Read, reach))
        }
        OneFile => match &operands[..] {
            [] => Some(Vec::new()),
            [file] if file.is_single() => Some(files(operands, EffectAccess::Read, EffectScope::Itself)),
            _ => None,
        },
        Names => {
            let tree =
                if parsed.has(&["L", "dereference"]) { EffectScope::LinkedTree } else { EffectScope::Tree };
            let reach = if parsed.has(&["R", "recursive"]) { tree } else { EffectScope::Itself };
            let mut touches = files(operands, EffectAccess::List, reach);
            // Without operands they list the working directory.
            touches.extend(
                (operands.is_empty() && reach != EffectScope::Itself)
                    .then(|| TouchedFile::here(EffectAccess::List, reach)),
            );
            Some(touches)
        }
        Trees => {
            // In `tree`, `-L` limits the depth; in the others it follows symlinks.
            let follows: &[&str] = if name == "tree" { &["l"] } else { &["L", "dereference"] };
            let reach = if parsed.has(follows) { EffectScope::LinkedTree } else { EffectScope::Tree };
            let mut touches = files(operands, EffectAccess::List, reach);
            touches.extend(operands.is_empty().then(|| TouchedFile::here(EffectAccess::List, reach)));
            Some(touches)
        }
    }
}

/// Programs whose operands need special checks. The outer `Option` is `None` if the name is not one of
/// these.
fn special(name: &str, args: &[Field]) -> Option<Option<ProgramAnalysis>> {
    let verdict = match name {
        "date" => date(args),
        "env" => args
            .iter()
            .all(|arg| matches!(arg.literal(), Some("-0" | "--null")))
            .then(ProgramAnalysis::harmless),
        "ps" => ps(args),
        "ip" => ip(args),
        "ifconfig" => {
            matches!(super::literals(args).as_deref(), Some([] | ["-a"])).then(ProgramAnalysis::harmless)
        }
        "crontab" => matches!(super::literals(args).as_deref(), Some(["-l"])).then(ProgramAnalysis::harmless),
        "man" => man(args),
        "getent" => getent(args),
        "xxd" => xxd(args),
        "less" | "more" => pager(args),
        "tput" => tput(args),
        _ => return None,
    };
    Some(verdict)
}

/// An operand without `+` would set the clock.
fn date(args: &[Field]) -> Option<ProgramAnalysis> {
    let options = "-uR -I? -d: -r:R --utc --universal --rfc-email --rfc-2822 --iso-8601? --rfc-3339: --date: \
                   --reference:R --help --version";
    let parsed = parse(options, args, UnknownWordRule::Refused)?;
    let formats =
        parsed.operands.iter().all(|field| field.literal().is_some_and(|text| text.starts_with('+')));
    formats.then(|| {
        ProgramAnalysis::reads(
            parsed.reads.iter().map(|file| TouchedFile::new(EffectAccess::List, file)).collect(),
        )
    })
}

/// Without a dash, `e` would show the environment of other processes.
fn ps(args: &[Field]) -> Option<ProgramAnalysis> {
    let options = "-AadefFHjlLMmNTVwyZcP -C: -g: -G: -o: -O: -p: -q: -s: -t: -u: -U: --sort: --pid: --ppid: --user: \
                   --forest --no-headers --headers --cols: --columns: --width: --format: --version";
    let parsed = parse(options, args, UnknownWordRule::Refused)?;
    let environment = |field: &Field| field.literal().is_none_or(|text| text.contains("env"));
    if parsed.values(&["o", "O", "format"]).any(environment) {
        return None;
    }
    let old_form = |text: &str| text.bytes().all(|b| b"auxfwjlvTrch".contains(&b));
    parsed.operands.iter().all(|field| field.literal().is_some_and(old_form)).then(ProgramAnalysis::harmless)
}

fn ip(args: &[Field]) -> Option<ProgramAnalysis> {
    let words = super::literals(args)?;
    let words: Vec<&str> = words
        .into_iter()
        .filter(|word| {
            !matches!(
                *word,
                "-4" | "-6" | "-br" | "-brief" | "-c" | "-color" | "-s" | "-o" | "-j" | "-p" | "-d"
            )
        })
        .collect();
    let object = |word: &str| {
        matches!(word, "a" | "addr" | "address" | "l" | "link" | "r" | "route" | "n" | "neigh" | "rule")
    };
    let verb = |word: &str| matches!(word, "show" | "list" | "ls" | "s");
    match &words[..] {
        [kind] if object(kind) => Some(ProgramAnalysis::harmless()),
        [kind, show] if object(kind) && verb(show) => Some(ProgramAnalysis::harmless()),
        [kind, show, "dev", _] if object(kind) && verb(show) => Some(ProgramAnalysis::harmless()),
        _ => None,
    }
}

/// A page by name. A path would be formatted with the preprocessors it requests.
fn man(args: &[Field]) -> Option<ProgramAnalysis> {
    let parsed = parse(
        "-akfw -s: --all --apropos --whatis --where --path --sections:",
        args,
        UnknownWordRule::Refused,
    )?;
    let named = |field: &Field| field.literal().is_some_and(|text| !text.contains('/'));
    (!parsed.operands.is_empty() && parsed.operands.iter().all(named)).then(ProgramAnalysis::harmless)
}

/// Host databases would query the network.
fn getent(args: &[Field]) -> Option<ProgramAnalysis> {
    let words = super::literals(args)?;
    let local = |word: &&str| matches!(*word, "passwd" | "group" | "services" | "protocols" | "shells");
    (words.first().is_some_and(local) && words.iter().all(|word| !word.starts_with('-')))
        .then(ProgramAnalysis::harmless)
}

/// Options cannot be clustered here (`-ps` is one option) and come first: a second operand is a file
/// that is written.
fn xxd(args: &[Field]) -> Option<ProgramAnalysis> {
    let mut operands = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if !operands.is_empty() {
            return None;
        }
        match arg.literal()? {
            "-a" | "-b" | "-C" | "-d" | "-e" | "-E" | "-i" | "-p" | "-ps" | "-plain" | "-u" | "-v" => (),
            "-c" | "-g" | "-l" | "-o" | "-s" | "-cols" | "-len" | "-seek" => drop(args.next()?.literal()?),
            text if text.starts_with('-') && text.len() > 1 => {
                let number =
                    |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_hexdigit() || b == b'x');
                let attached = ["-c", "-g", "-l", "-s"]
                    .iter()
                    .any(|option| text.strip_prefix(option).is_some_and(number));
                attached.then_some(())?;
            }
            _ => operands.push(arg.clone()),
        }
    }
    (operands.len() < 2)
        .then(|| ProgramAnalysis::reads(files(&operands, EffectAccess::Read, EffectScope::Itself)))
}

/// Without a terminal a pager prints. A word that starts with `+` is a command, and some options write
/// files or run programs.
fn pager(args: &[Field]) -> Option<ProgramAnalysis> {
    let options = "-eEFgGiIJKmMnNqQrRsSuUwWX -# -x: -z: --chop-long-lines --LINE-NUMBERS --RAW-CONTROL-CHARS \
                   --quit-if-one-screen --no-init --ignore-case --squeeze-blank-lines --version --help";
    let parsed = parse(options, args, UnknownWordRule::Refused)?;
    let plain = |field: &Field| match field {
        Field::Literal(text) | Field::Glob(text) => !text.starts_with(['+', '*', '?', '[']),
        _ => false,
    };
    parsed
        .operands
        .iter()
        .all(plain)
        .then(|| ProgramAnalysis::reads(files(&parsed.operands, EffectAccess::Read, EffectScope::Itself)))
}

/// `init` and `reset` run programs named by the terminal description.
fn tput(args: &[Field]) -> Option<ProgramAnalysis> {
    let words = super::literals(args)?;
    let words = match &words[..] {
        ["-T", kind, rest @ ..] if !kind.contains('/') => rest,
        all => all,
    };
    let (capability, values) = words.split_first()?;
    let known = [
        "bel", "blink", "bold", "civis", "clear", "cnorm", "colors", "cols", "cup", "cuu1", "dim", "ed",
        "el", "el1", "home", "it", "lines", "longname", "op", "rc", "rev", "rmso", "rmul", "sc", "setab",
        "setaf", "sgr0", "sitm", "smso", "smul", "xenl",
    ];
    let numbers = values.iter().all(|word| word.bytes().all(|b| b.is_ascii_digit()));
    (known.contains(capability) && numbers).then(ProgramAnalysis::harmless)
}
