//! Files that programs obey: a command that only reads may run what they name.
//!
//! Programs look for them where they stand and in every directory above, so
//! what counts is the place a command runs in now, whoever went there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_command::Obeyed;

/// Larger files are not read, and then they are not understood.
const LARGEST: u64 = 256 << 10;

/// Whether a program that obeys these files in this directory does what it
/// always does.
pub(crate) fn is_plain(obeyed: Obeyed, dir: &Path, home: Option<&Path>) -> bool {
    // What is not there obeys nothing: the command fails.
    let Ok(dir) = dir.canonicalize() else { return !dir.exists() };
    let home = home.and_then(|home| home.canonicalize().ok());
    let above = || dir.ancestors().filter(|it| Some(*it) != home.as_deref());
    match obeyed {
        Obeyed::Git => git_is_plain(&dir),
        Obeyed::Toolchain => toolchain_is_plain(&dir, home.as_deref()),
        Obeyed::Cargo => cargo_is_plain(above()) && toolchain_is_plain(&dir, home.as_deref()),
        Obeyed::CargoWithLock => {
            let projects = dir.ancestors().filter(|it| it.join("Cargo.toml").exists());
            let locked = projects.clone().next().is_none()
                || projects.clone().any(|it| it.join("Cargo.lock").exists());
            locked && is_plain(Obeyed::Cargo, &dir, home.as_deref())
        }
        Obeyed::Npm => above().all(|it| !exists(&it.join(".npmrc"))),
        Obeyed::Go => above().all(|it| !exists(&it.join("go.mod")) && !exists(&it.join("go.work"))),
        Obeyed::Compose => true,
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn read(path: &Path) -> Option<String> {
    let meta = path.metadata().ok()?;
    (meta.is_file() && meta.len() <= LARGEST).then(|| fs::read_to_string(path).ok())?
}

/// Tables of cargo's configuration that change only how it talks, or what a
/// build would be like.
const CARGO_TABLES: &[&str] = &["alias", "term", "profile", "future-incompat-report", "cargo-new"];

fn cargo_is_plain<'a>(mut dirs: impl Iterator<Item = &'a Path>) -> bool {
    let plain =
        |path: PathBuf| !exists(&path) || read(&path).is_some_and(|text| is_plain_toml(&text, CARGO_TABLES));
    dirs.all(|dir| plain(dir.join(".cargo/config.toml")) && plain(dir.join(".cargo/config")))
}

/// Whether a text has only these tables, spelled so that nobody can think
/// otherwise.
fn is_plain_toml(text: &str, tables: &[&str]) -> bool {
    let mut inside = false;
    if text.contains("\"\"\"") || text.contains("'''") {
        return false;
    }
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).all(|line| {
        if let Some(header) = line.strip_prefix('[').filter(|_| !line.starts_with("[[")) {
            // Within an array, a line may begin with a bracket, too; then it does not name a table.
            let name = header.split([']', '.']).next().unwrap_or_default().trim();
            inside = tables.contains(&name);
        }
        inside
    })
}

/// A file that names the toolchain may name any directory as one.
fn toolchain_is_plain(dir: &Path, home: Option<&Path>) -> bool {
    let files = dir.ancestors().flat_map(|it| [it.join("rust-toolchain"), it.join("rust-toolchain.toml")]);
    let mut found = files.filter(|path| exists(path));
    found.all(|path| read(&path).is_some_and(|text| names_installed_toolchain(&text, home)))
}

/// Whether a text names a toolchain and nothing else, and one that is installed.
fn names_installed_toolchain(text: &str, home: Option<&Path>) -> bool {
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let channel = match &lines[..] {
        [channel] => channel,
        ["[toolchain]", line] => {
            let Some((name, value)) = line.split_once('=') else { return false };
            let value = value.trim();
            let quoted = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            match quoted.filter(|_| name.trim() == "channel") {
                Some(channel) => channel,
                None => return false,
            }
        }
        _ => return false,
    };
    let sane = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let Some(home) = home.filter(|_| !channel.is_empty() && channel.chars().all(sane)) else { return false };
    let installed = fs::read_dir(home.join(".rustup/toolchains")).into_iter().flatten().flatten();
    let fits =
        |name: &str| name == channel || name.strip_prefix(channel).is_some_and(|rest| rest.starts_with('-'));
    installed.into_iter().any(|entry| entry.file_name().to_str().is_some_and(fits))
}

/// Whether the repository git would find from here names no program.
fn git_is_plain(dir: &Path) -> bool {
    for dir in dir.ancestors() {
        let dot = dir.join(".git");
        if let Ok(meta) = dot.metadata() {
            return match meta.is_dir() {
                true => repository_is_plain(&dot),
                false => read(&dot).is_some_and(|text| linked_is_plain(dir, &text)),
            };
        }
        // Something that looks like a repository without a working tree is one.
        if exists(&dir.join("HEAD")) && exists(&dir.join("objects")) && exists(&dir.join("refs")) {
            return false;
        }
    }
    true
}

/// A worktree or a submodule: its file says where its repository is.
fn linked_is_plain(dir: &Path, text: &str) -> bool {
    let Some(target) = text.strip_prefix("gitdir:").map(str::trim) else { return false };
    let Ok(own) = dir.join(target).canonicalize() else { return true };
    let common = read(&own.join("commondir")).and_then(|text| own.join(text.trim()).canonicalize().ok());
    repository_is_plain(&own) && common.is_none_or(|common| repository_is_plain(&common))
}

/// Hooks that reading may run.
const READING_HOOKS: &[&str] = &["post-index-change", "fsmonitor-watchman", "query-watchman"];

fn repository_is_plain(git: &Path) -> bool {
    let plain = |path: PathBuf| !exists(&path) || read(&path).is_some_and(|text| is_plain_git_config(&text));
    let hooks = READING_HOOKS.iter().all(|name| !exists(&git.join("hooks").join(name)));
    let own = plain(git.join("config")) && plain(git.join("config.worktree")) && hooks;
    own && submodules(&git.join("modules"), 0).into_iter().all(|it| plain(it.join("config")))
}

/// The repositories of submodules: status and differences look into them.
fn submodules(dir: &Path, depth: usize) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten().take(200) {
        let path = entry.path();
        if path.join("HEAD").exists() {
            out.extend(submodules(&path.join("modules"), depth + 1));
            out.push(path);
        } else if depth < 4 && path.is_dir() {
            out.extend(submodules(&path, depth + 1));
        }
    }
    out
}

/// Sections of which no key names a program, a file or a server that reading
/// would ask.
const GIT_SECTIONS: &[&str] = &[
    "advice",
    "apply",
    "author",
    "blame",
    "branch",
    "color",
    "column",
    "commit",
    "committer",
    "fetch",
    "gc",
    "gitflow",
    "grep",
    "gui",
    "index",
    "init",
    "lfs",
    "maintenance",
    "merge",
    "pack",
    "pull",
    "push",
    "rebase",
    "receive",
    "rerere",
    "sequence",
    "stash",
    "status",
    "submodule",
    "svn-remote",
    "tag",
    "transfer",
    "url",
    "user",
    "versionsort",
];

/// Keys of other sections that are as harmless.
const GIT_KEYS: &[&str] = &[
    "core.abbrev",
    "core.autocrlf",
    "core.bare",
    "core.bigfilethreshold",
    "core.checkstat",
    "core.commentchar",
    "core.compression",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.longpaths",
    "core.precomposeunicode",
    "core.protecthfs",
    "core.protectntfs",
    "core.quotepath",
    "core.repositoryformatversion",
    "core.safecrlf",
    "core.sharedrepository",
    "core.symlinks",
    "core.trustctime",
    "core.untrackedcache",
    "core.whitespace",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.multipackindex",
    "core.commitgraph",
    "diff.algorithm",
    "diff.colormoved",
    "diff.context",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.renamelimit",
    "diff.renames",
    "diff.statgraphwidth",
    "diff.submodule",
    "extensions.objectformat",
    "extensions.worktreeconfig",
    "extensions.refstorage",
    "extensions.relativeworktrees",
    "feature.manyfiles",
    "log.abbrevcommit",
    "log.date",
    "log.decorate",
    "log.follow",
    "remote.fetch",
    "remote.prune",
    "remote.pushurl",
    "remote.tagopt",
    "remote.url",
    "remote.mirror",
    "remote.skipdefaultupdate",
];

/// Whether every setting of a text is one of the harmless ones.
fn is_plain_git_config(text: &str) -> bool {
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        // A value that goes on in the next line hides what that one says.
        if line.ends_with('\\') {
            return false;
        }
        let rest = match line.strip_prefix('[') {
            Some(header) => {
                let Some((name, rest)) = header.rsplit_once(']') else { return false };
                let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(name.len());
                section = name[..end].to_ascii_lowercase();
                // `[diff "x"]` names a program of its own, `[diff]` does not; `[a.b]` is an old form of it.
                let subsection = name[end..].trim();
                let nested = ["core", "diff", "log", "extensions", "feature"].contains(&section.as_str());
                if nested && !subsection.is_empty() {
                    return false;
                }
                rest.trim()
            }
            None => line,
        };
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let name = format!("{section}.{}", key.trim().to_ascii_lowercase());
        let value = value.trim();
        let known = GIT_SECTIONS.contains(&section.as_str()) || GIT_KEYS.contains(&name.as_str());
        // These may be switches or programs.
        let watched = name == "core.fsmonitor" && matches!(value, "true" | "false");
        let lfs =
            section == "filter" && value.trim_matches('"').starts_with("git-lfs ") && plain_words(value)
                || name == "filter.required";
        let partial = matches!(name.as_str(), "submodule.update") && value.starts_with('!');
        if !(known || watched || lfs) || partial {
            return false;
        }
    }
    true
}

fn plain_words(value: &str) -> bool {
    value.chars().all(|c| c.is_ascii_alphanumeric() || " -%\"_".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (name, text) in files {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn settings_of_git() {
        for (text, want) in [
            ("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n", true),
            ("[remote \"origin\"]\n\turl = git@x:y\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n", true),
            ("[branch \"main\"]\n\tremote = origin\n[user]\n\tname = \"A B\"\n", true),
            ("[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n", true),
            ("[core]\n\tfsmonitor = true\n", true),
            ("[core]\n\tfsmonitor = ./x\n", false),
            ("[core] fsmonitor = ./x\n", false),
            ("[CORE]\nFsMonitor=./x\n", false),
            ("[core]\n\tpager = ./x\n", false),
            ("[core]\n\thooksPath = .\n", false),
            ("[core]\n\tworktree = /\n", false),
            ("[core]\n\tfilemode = true \\\n", false),
            ("[diff]\n\texternal = ./x\n", false),
            ("[diff \"x\"]\n\ttextconv = ./x\n", false),
            ("[diff.x]\n\tcommand = ./x\n", false),
            ("[filter \"x\"]\n\tclean = ./x\n", false),
            ("[filter \"lfs\"]\n\tclean = git-lfs clean; ./x\n", false),
            ("[include]\n\tpath = ../x\n", false),
            ("[includeIf \"gitdir:/\"]\n\tpath = ../x\n", false),
            ("[gpg]\n\tprogram = ./x\n", false),
            ("[log]\n\tshowSignature = true\n", false),
            ("[remote \"x\"]\n\tpromisor = true\n", false),
            ("[remote \"x\"]\n\tuploadpack = ./x\n", false),
            ("[submodule \"x\"]\n\tupdate = !./x\n", false),
            ("[extensions]\n\tpartialClone = x\n", false),
            ("[unknown]\n\tkey = value\n", false),
        ] {
            assert_eq!(is_plain_git_config(text), want, "{text}");
        }
    }

    #[test]
    fn where_git_looks() {
        let (_dir, root) = tree(&[
            ("ws/.git/config", "[core]\nbare = false\n"),
            ("ws/src/a", ""),
            ("ws/bare/HEAD", ""),
            ("ws/bare/objects/x", ""),
            ("ws/bare/refs/x", ""),
            ("ws/bare/sub/x", ""),
            ("ws/nested/.git/config", "[core]\nfsmonitor = ./x\n"),
            ("ws/nested/deep/x", ""),
            ("ws/linked/.git", "gitdir: ../nested/.git\n"),
            ("hooked/.git/hooks/post-index-change", ""),
            ("modules/.git/modules/m/HEAD", ""),
            ("modules/.git/modules/m/config", "[core]\nfsmonitor = ./x\n"),
            ("plain/x", ""),
        ]);
        for (place, want) in [
            ("ws", true),
            ("ws/src", true),
            ("ws/bare", false),
            ("ws/bare/sub", false),
            ("ws/nested", false),
            ("ws/nested/deep", false),
            ("ws/linked", false),
            ("hooked", false),
            ("modules", false),
            ("plain", true),
            ("gone", true),
        ] {
            assert_eq!(is_plain(Obeyed::Git, &root.join(place), None), want, "{place}");
        }
    }

    #[test]
    fn what_other_programs_obey() {
        let (_dir, root) = tree(&[
            ("plain/Cargo.toml", ""),
            ("plain/Cargo.lock", ""),
            ("unlocked/Cargo.toml", ""),
            ("alias/.cargo/config.toml", "# x\n[alias]\nxtask = \"run\"\n[term]\nquiet = true\n"),
            ("rustc/.cargo/config.toml", "[build]\nrustc = \"./x\"\n"),
            ("dotted/.cargo/config", "build.rustc = \"./x\"\n"),
            ("hidden/.cargo/config.toml", "[alias]\nx = \"\"\"\n[build]\n\"\"\"\n"),
            ("rustc/deep/er/x", ""),
            ("path/rust-toolchain.toml", "[toolchain]\npath = \"./x\"\n"),
            ("channel/rust-toolchain.toml", "[toolchain]\nchannel = \"1.80\"\n"),
            ("other/rust-toolchain", "nightly-2020-01-01\n"),
            ("odd/rust-toolchain", "../x\n"),
            ("npm/.npmrc", "registry=http://x\n"),
            ("npm/deep/x", ""),
            ("go/go.mod", "module x\ntoolchain go1.99\n"),
            ("home/.rustup/toolchains/1.80-x86_64/x", ""),
            ("home/.npmrc", ""),
            ("home/.cargo/config.toml", "[build]\nrustc = \"./x\"\n"),
            ("home/ws/x", ""),
        ]);
        let home = root.join("home");
        use Obeyed::{Cargo, CargoWithLock, Go, Npm, Toolchain};
        for (kind, place, want) in [
            (Cargo, "plain", true),
            (CargoWithLock, "plain", true),
            (CargoWithLock, "unlocked", false),
            (Cargo, "alias", true),
            (Cargo, "rustc", false),
            (Cargo, "rustc/deep/er", false),
            (Cargo, "dotted", false),
            (Cargo, "hidden", false),
            (Toolchain, "path", false),
            (Toolchain, "channel", true),
            (Toolchain, "other", false),
            (Toolchain, "odd", false),
            (Cargo, "path", false),
            (Npm, "npm/deep", false),
            (Npm, "plain", true),
            (Go, "go", false),
            (Go, "plain", true),
            (Npm, "home/ws", true),
            (Cargo, "home/ws", true),
        ] {
            assert_eq!(is_plain(kind, &root.join(place), Some(&home)), want, "{kind:?} {place}");
        }
    }
}
