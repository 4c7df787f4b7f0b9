//! Commands that are not fully analysed but known to move, link, unpack, write or delete files.

use std::path::PathBuf;

use haft_bash_analysis::{AnalyzedCommand, CommandClass, EffectOrigin, EffectTarget, Word};

use super::survey::survey;
use crate::glob_expansion::expand;

/// Effect of such a command on names.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Mover {
    Nothing,
    /// Changes the git index.
    Index,
    /// Writes files but no symlinks.
    Files,
    /// Deletes files.
    Removal,
    /// Moves, copies, links or unpacks: symlinks may appear anywhere.
    Links,
}

const LINKS: &[&str] = &[
    "7z",
    "7za",
    "7zr",
    "7zz",
    "ar",
    "borg",
    "bsdtar",
    "bzr",
    "cp",
    "cpio",
    "ditto",
    "dpkg-deb",
    "fossil",
    "fusermount",
    "gcp",
    "gln",
    "gmv",
    "gtar",
    "hg",
    "install",
    "jar",
    "link",
    "ln",
    "mmv",
    "mount",
    "mv",
    "pax",
    "patch",
    "prename",
    "rar",
    "rclone",
    "rename",
    "restic",
    "rpm2archive",
    "rsync",
    "scp",
    "sftp",
    "star",
    "stow",
    "svn",
    "symlink",
    "tar",
    "umount",
    "unar",
    "unrar",
    "unsquashfs",
    "unzip",
    "vidir",
];

const FILES: &[&str] = &[
    "bunzip2",
    "bzip2",
    "csplit",
    "curl",
    "dd",
    "ed",
    "ex",
    "fallocate",
    "gsed",
    "gunzip",
    "gzip",
    "lz4",
    "lzma",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mknod",
    "perl",
    "sed",
    "sort",
    "split",
    "sponge",
    "tee",
    "touch",
    "truncate",
    "unlz4",
    "unlzma",
    "unxz",
    "unzstd",
    "wget",
    "xz",
    "yq",
    "zip",
    "zstd",
];

const REMOVALS: &[&str] = &["rm", "rmdir", "shred", "srm", "trash", "unlink"];

const SHELLS: &[&str] = &["ash", "bash", "busybox", "dash", "eval", "fish", "ksh", "sh", "zsh"];

/// Git subcommands that do not change the working tree, index and settings.
const GIT_KEEPS: &[&str] = &[
    "archive",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "count-objects",
    "describe",
    "diff",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "help",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge-base",
    "notes",
    "push",
    "reflog",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
    "tag",
    "version",
];

/// Git subcommands that change the index.
const GIT_INDEX: &[&str] = &["add", "commit", "stage", "update-index"];

/// Global git options with a value.
const GIT_VALUED: &[&str] =
    &["-C", "-c", "--config-env", "--exec-path", "--git-dir", "--namespace", "--super-prefix", "--work-tree"];

/// Effect of a part on names, if it is not a fully analysed command.
pub(super) fn mover(part: &AnalyzedCommand) -> Option<Mover> {
    if part.class != CommandClass::Other {
        return None;
    }
    part.faces.refuse.iter().filter_map(|words| by_words(words)).filter(|it| *it != Mover::Nothing).max()
}

fn by_words(words: &[String]) -> Option<Mover> {
    let (name, args) = words.split_first()?;
    let name = name.rsplit('/').next().unwrap_or(name);
    Some(match name {
        "git" => by_git(args),
        "find" if args.iter().any(|it| it == "-delete") => Mover::Removal,
        "find" if args.iter().any(|it| it.starts_with("-fprint") || it == "-fls") => Mover::Files,
        "dpkg" if args.iter().any(|it| it == "-x" || it == "--extract") => Mover::Links,
        "tar" | "bsdtar" | "gtar" if creates_archive(args) => Mover::Files,
        // A redirection in shell code.
        _ if SHELLS.contains(&name) && args.iter().any(|it| it.contains('>')) => Mover::Files,
        _ if LINKS.contains(&name) => Mover::Links,
        _ if FILES.contains(&name) => Mover::Files,
        _ if REMOVALS.contains(&name) => Mover::Removal,
        _ => Mover::Nothing,
    })
}

/// Whether `tar` creates an archive: `tar czf a.tgz d`.
fn creates_archive(args: &[String]) -> bool {
    let first = args.first().map_or("", String::as_str);
    let cluster = first.strip_prefix('-').unwrap_or(first);
    let creates = cluster.contains('c') && cluster.bytes().all(|it| b"cfvzjJahpP".contains(&it));
    creates && args.iter().all(|it| !it.starts_with("-x") && !it.starts_with("--"))
}

fn by_git(args: &[String]) -> Mover {
    let mut args = args.iter();
    let command = loop {
        let Some(word) = args.next() else { return Mover::Nothing };
        if GIT_VALUED.contains(&&**word) {
            args.next();
        } else if !word.starts_with('-') {
            break &**word;
        }
    };
    let rest: Vec<&str> = args.map(String::as_str).collect();
    let begins_branch = || match rest[..] {
        [flag, name] => matches!(flag, "-b" | "-c" | "--create") && !name.starts_with('-'),
        _ => false,
    };
    match command {
        "reset" if !rest.iter().any(|it| matches!(*it, "--hard" | "--merge" | "--keep")) => Mover::Index,
        "checkout" | "switch" if begins_branch() => Mover::Nothing,
        _ if GIT_KEEPS.contains(&command) => Mover::Nothing,
        _ if GIT_INDEX.contains(&command) => Mover::Index,
        _ => Mover::Links,
    }
}

/// Operands that exist and contain no symlinks.
pub(super) struct PlainOperands {
    pub(super) named: Vec<PathBuf>,
    /// Directories in which globs match.
    pub(super) starts: Vec<PathBuf>,
}

/// The operands of `cp` and `mv` with globs or in unknown forms, if all are known and none is or
/// contains a symlink.
pub(super) fn plain_operands(part: &AnalyzedCommand) -> Option<PlainOperands> {
    let Some((Word::Literal(name), rest)) = part.words.split_first() else { return None };
    let plain_option = |text: &str| {
        text.strip_prefix('-').is_some_and(|it| it.bytes().all(|letter| b"afinprRuvTdxP".contains(&letter)))
    };
    let known = rest.iter().all(|word| match word {
        Word::Literal(text) => !text.starts_with('-') || plain_option(text),
        Word::Pattern(_) => true,
        Word::Unknown(_) => false,
    });
    if !matches!(&**name, "cp" | "mv") || !known {
        return None;
    }
    let (mut out, mut starts): (Vec<PathBuf>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    for effect in part.effects.iter().filter(|it| it.origin != EffectOrigin::Redirection) {
        match &effect.target {
            EffectTarget::Path(path) => out.push(path.clone()),
            EffectTarget::Pattern(pattern) => {
                let found = expand(pattern);
                (!found.cut).then_some(())?;
                out.extend(found.found);
                starts.push(found.start);
            }
            EffectTarget::Unknown(_) => return None,
        }
    }
    let plain = |path: &PathBuf| {
        let survey = survey(path);
        !survey.has_links && survey.names.is_empty()
    };
    // An existing directory as destination may contain anything.
    let container = out.last().filter(|it| it.symlink_metadata().is_ok_and(|it| it.is_dir())).cloned();
    let is_plain = out.iter().filter(|it| Some(*it) != container.as_ref()).all(plain);
    (is_plain && !out.is_empty()).then_some(PlainOperands { named: out, starts })
}

/// Paths and globs that a command may delete, if its words name them.
pub(super) fn removed(part: &AnalyzedCommand) -> Option<Vec<&EffectTarget>> {
    let named = matches!(&part.words[..], [Word::Literal(name), ..] if REMOVALS.contains(&&**name));
    let known = part.words.iter().all(|it| !matches!(it, Word::Unknown(_)));
    let mentions = part.effects.iter().filter(|it| it.origin == EffectOrigin::Mention);
    (named && known).then(|| mentions.map(|it| &it.target).collect())
}

/// Lower-case names of files that a command may write, if its words name them: every word that may be a
/// name.
pub(super) fn literal_names(part: &AnalyzedCommand) -> Option<Vec<String>> {
    let [Word::Literal(name), ..] = &part.words[..] else { return None };
    let name = name.rsplit('/').next().unwrap_or(name);
    let named_by_words = FILES.contains(&name) || matches!(name, "tar" | "bsdtar" | "gtar");
    (named_by_words && name != "wget").then_some(())?;
    let mut out = Vec::new();
    for word in &part.words {
        let Word::Literal(text) = word else { return None };
        let text = text.to_lowercase();
        let names = text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '_'));
        out.extend(names.map(str::to_owned));
        // `-orust-toolchain.toml`
        out.extend(text.strip_prefix('-').and_then(|it| it.get(1..)).map(str::to_owned));
    }
    Some(out)
}
