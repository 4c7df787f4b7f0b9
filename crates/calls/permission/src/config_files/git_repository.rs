//! The repository that git would find from a directory: whether looking at it
//! runs nothing that it names and shows nothing of another one.

use std::path::{Path, PathBuf};

use super::{
    exists,
    git_settings::{GitCheckout, is_plain_git_config},
    gitlinks::{gitlinks, names_stay_whole},
    read,
};

/// Repositories inside repositories are followed this far.
const DEEPEST: usize = 8;

/// Hooks that reading may run.
pub(super) const READING_HOOKS: &[&str] = &["post-index-change", "fsmonitor-watchman", "query-watchman"];

/// Directories in that of a repository of which git shows files.
const SHOWN: &[&str] = &[
    "",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "objects",
    "objects/pack",
    "objects/info",
    "refs",
    "refs/heads",
    "refs/remotes",
    "refs/tags",
];

/// What git does with the settings of a repository.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum GitConfigUse {
    /// Whatever they say.
    Full,
    /// It runs nothing that they name, because whoever calls it sees to that.
    Guarded,
}

/// Whether the repository git would find from here names no program that would
/// run, and is nobody else's.
pub(super) fn is_plain(dir: &Path, obedience: GitConfigUse) -> bool {
    for dir in dir.ancestors() {
        let dot = dir.join(".git");
        if exists(&dot) {
            if !checkout_is_plain(dir, obedience, 0) {
                return false;
            }
            // What is none is passed over, and the next one above counts.
            if dot.is_file() || is_repository(&dot) {
                return true;
            }
        }
        // Something that looks like a repository without a working tree is one.
        if is_repository(dir) {
            return obedience == GitConfigUse::Guarded
                && !exists(&dir.join("commondir"))
                && repository_is_plain(GitCheckout { git: dir, top: dir }, obedience);
        }
    }
    true
}

/// Whether the names that git lists from here are safe to hand to another
/// command as text.
pub(super) fn index_is_plain(dir: &Path) -> bool {
    let Some(top) = dir.ancestors().find(|it| exists(&it.join(".git")) || is_repository(it)) else {
        return true;
    };
    directory_of(top, 0).is_some_and(|git| names_stay_whole(&git))
}

fn is_repository(dir: &Path) -> bool {
    let has = |name: &str| exists(&dir.join(name));
    has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

/// The same for the directory in which a repository begins, and for all that it
/// lists among its files.
fn checkout_is_plain(top: &Path, obedience: GitConfigUse, depth: usize) -> bool {
    let Some(git) = directory_of(top, depth) else { return false };
    let common = read(&git.join("commondir")).and_then(|text| git.join(text.trim()).canonicalize().ok());
    let plain = |git: &Path| repository_is_plain(GitCheckout { git, top }, obedience);
    let inner_is_plain = |link: PathBuf| {
        let inner = top.join(link);
        !exists(&inner.join(".git"))
            || inner
                .canonicalize()
                .is_ok_and(|real| top.canonicalize().is_ok_and(|top| real.starts_with(top)))
                && checkout_is_plain(&inner, obedience, depth + 1)
    };
    // Who is guarded asks the repositories inside for nothing but their newest commit's name.
    let inner = || {
        obedience == GitConfigUse::Guarded
            || gitlinks(&git).is_some_and(|links| links.into_iter().all(inner_is_plain))
    };
    plain(&git) && common.is_none_or(|common| plain(&common)) && inner()
}

/// Where the settings of a checkout are; `None` if they may be somebody else's.
fn directory_of(top: &Path, depth: usize) -> Option<PathBuf> {
    let dot = top.join(".git");
    let meta = dot.symlink_metadata().ok().filter(|_| depth < DEEPEST)?;
    if meta.is_dir() {
        // Only the directory of a worktree says that most of it is elsewhere.
        return (!exists(&dot.join("commondir"))).then_some(dot);
    }
    let text = read(&dot).filter(|_| meta.is_file())?;
    let git = top.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let belongs = if exists(&git.join("commondir")) {
        is_worktree_of(&git, &dot)
    } else {
        is_submodule(&git, top, depth)
    };
    belongs.then_some(git)
}

/// Whether a repository knows this worktree, too: whoever made the file that
/// names the repository may not be who made that.
fn is_worktree_of(git: &Path, dot: &Path) -> bool {
    let back = read(&git.join("gitdir")).and_then(|text| git.join(text.trim()).canonicalize().ok());
    let common = read(&git.join("commondir")).and_then(|text| git.join(text.trim()).canonicalize().ok());
    let listed = |common: PathBuf| git.parent() == Some(&common.join("worktrees"));
    back.is_some() && back == dot.canonicalize().ok() && common.is_some_and(listed)
}

/// Whether the settings lie where the repository around it keeps those of its
/// submodules.
fn is_submodule(git: &Path, top: &Path, depth: usize) -> bool {
    let around = top.ancestors().skip(1).find(|dir| exists(&dir.join(".git")));
    let outer = around.and_then(|dir| directory_of(dir, depth + 1)).and_then(|it| it.canonicalize().ok());
    outer.is_some_and(|outer| git.starts_with(outer.join("modules")))
}

fn repository_is_plain(checkout: GitCheckout<'_>, obedience: GitConfigUse) -> bool {
    let git = checkout.git;
    let own = SHOWN.iter().all(|name| has_no_link(&git.join(name)));
    // Objects of another repository.
    let borrowed = exists(&git.join("objects/info/alternates"));
    let plain = |path: PathBuf| {
        !exists(&path) || read(&path).is_some_and(|text| is_plain_git_config(&text, checkout))
    };
    let hooks = || READING_HOOKS.iter().all(|name| !exists(&git.join("hooks").join(name)));
    let runs_nothing = || hooks() && plain(git.join("config")) && plain(git.join("config.worktree"));
    own && !borrowed && (obedience == GitConfigUse::Guarded || runs_nothing())
}

/// Whether all that lies in a directory is its own: a link would make it
/// somebody else's. Hooks are often shared.
fn has_no_link(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let leads_away = |it: std::fs::DirEntry| {
        it.file_name() != "hooks" && it.file_type().map_or(true, |it| it.is_symlink())
    };
    !dir.is_symlink() && !entries.into_iter().any(leads_away)
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, process::Command};

    use super::{GitConfigUse, is_plain};

    /// What is the same for every repository below.
    const BEGIN: &str = r#"
        set -e
        export HOME=$PWD/home GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
        new() { git init -q -b main "$1"; echo x > "$1/f"; git -C "$1" add f; save "$1"; }
        save() { git -C "$1" -c user.name=a -c user.email=b@c commit -qm x; }
        evil='[core]
            repositoryformatversion = 0
            fsmonitor = ./evil'
        new private
        mkdir ws; cd ws
    "#;

    #[test]
    fn what_a_repository_obeys() {
        for (script, place, want) in [
            ("new a", "a", true),
            ("new a; mkdir -p a/b/c", "a/b/c", true),
            ("mkdir a", "a", true),
            ("true", "gone", true),
            ("new a; git -C a config core.fsmonitor ./evil", "a", false),
            ("new a; echo > a/.git/hooks/post-index-change", "a", false),
            ("new a; mv a/.git/* a/; rmdir a/.git; mkdir a/deep", "a/deep", false),
            // The settings are elsewhere.
            (
                "new a; mkdir a/t; cp -r a/.git/objects a/.git/refs a/t; echo \"$evil\" > a/t/config; echo ../t > a/.git/commondir",
                "a",
                false,
            ),
            (
                "new a; mkdir b; mv a/.git b/t; echo t > b/commondir; echo ref: refs/heads/main > b/HEAD",
                "b",
                false,
            ),
            ("mkdir a; ln -s ../../private/.git a/.git", "a", false),
            ("mkdir a; echo gitdir: ../../private/.git > a/.git", "a", false),
            ("new a; rm -r a/.git/objects; ln -s ../../../private/.git/objects a/.git/", "a", false),
            ("new a; rm -r a/.git/refs; ln -s ../../../private/.git/refs a/.git/", "a", false),
            ("new a; echo ../../../../private/.git/objects > a/.git/objects/info/alternates", "a", false),
            (
                "mkdir -p a/own b; echo gitdir: ../a/own > b/.git; echo $PWD/b/.git > a/own/gitdir; echo $PWD/../private/.git > a/own/commondir",
                "b",
                false,
            ),
            ("new a; mkdir a/.git/rebase-merge; ln -s ~/x a/.git/rebase-merge/done", "a", false),
            ("new a; ln -s ~/x a/.git/rebase-apply", "a", false),
            ("new a; rm -r a/.git/hooks; ln -s ~/x a/.git/hooks", "a", true),
            // Nothing that git takes for a repository hides the one above.
            ("new a; git -C a config core.fsmonitor ./evil; mkdir -p a/b/.git", "a/b", false),
            ("new a; mkdir -p a/b/.git; echo > a/b/.git/HEAD", "a/b", true),
            // Worktrees and submodules as git makes them.
            ("new a; git -C a worktree add -q ../b", "b", true),
            ("new a; git -C a worktree add -q ../b; git -C a config core.fsmonitor ./evil", "b", false),
            (
                "new a; git -C a -c protocol.file.allow=always submodule --quiet add $PWD/../private m; save a",
                "a",
                true,
            ),
            (
                "new a; git -C a -c protocol.file.allow=always submodule --quiet add $PWD/../private m; save a",
                "a/m",
                true,
            ),
            (
                "new a; git -C a -c protocol.file.allow=always submodule --quiet add $PWD/../private m; save a; git -C a/m config core.fsmonitor ./evil",
                "a",
                false,
            ),
            (
                "new a; git -C a -c protocol.file.allow=always submodule --quiet add $PWD/../private m; save a; git -C a/m config core.worktree $HOME",
                "a",
                false,
            ),
            // A repository that was put there without being a submodule.
            ("new a; new a/m; git -C a -c advice.addEmbeddedRepo=false add m", "a", true),
            (
                "new a; new a/m; git -C a -c advice.addEmbeddedRepo=false add m; git -C a/m config core.fsmonitor ./evil",
                "a",
                false,
            ),
            (
                "new a; new a/m; git -C a -c advice.addEmbeddedRepo=false add m; rm -r a/m; ln -s ../../private a/m",
                "a",
                false,
            ),
            ("new a; new a/m; git -C a/m config core.fsmonitor ./evil", "a", true),
            ("new a; echo > a/.git/index", "a", false),
        ] {
            let Some((_dir, ws)) = made(script) else { return };
            assert_eq!(is_plain(&ws.join(place), GitConfigUse::Full), want, "{script}");
        }
    }

    /// What a script makes, and where its workspace is; nothing without a shell.
    fn made(script: &str) -> Option<(tempfile::TempDir, PathBuf)> {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("{BEGIN}\n{script}");
        let made = Command::new("bash").args(["-c", &script]).current_dir(dir.path()).output().ok()?;
        assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
        let ws = dir.path().canonicalize().unwrap().join("ws");
        Some((dir, ws))
    }

    /// Who runs nothing that settings name needs to know only whose repository it is.
    #[test]
    fn what_is_shown_where_nothing_runs() {
        for (script, place, want) in [
            ("new a; git -C a config core.fsmonitor ./evil; git -C a config alias.x '!evil'", "a", true),
            ("new a; git -C a config include.path ../x; echo > a/.git/hooks/post-index-change", "a", true),
            ("new a; git -C a config filter.x.clean ./evil; git -C a config core.pager ./evil", "a", true),
            (
                "new a; new a/m; git -C a -c advice.addEmbeddedRepo=false add m; git -C a/m config core.fsmonitor ./evil",
                "a",
                true,
            ),
            ("new a; mv a/.git/* a/; rmdir a/.git; mkdir a/deep", "a/deep", true),
            ("new a; git -C a worktree add -q ../b; git -C a config core.fsmonitor ./evil", "b", true),
            // Somebody else's objects, names and files stay a question.
            ("mkdir a; ln -s ../../private/.git a/.git", "a", false),
            ("mkdir a; echo gitdir: ../../private/.git > a/.git", "a", false),
            ("new a; rm -r a/.git/objects; ln -s ../../../private/.git/objects a/.git/", "a", false),
            (
                "new a; mv a/.git/objects/pack x; ln -s ../../../../private/.git/objects/pack a/.git/objects/",
                "a",
                false,
            ),
            (
                "new a; mv a/.git/refs/heads x; ln -s ../../../../private/.git/refs/heads a/.git/refs/",
                "a",
                false,
            ),
            ("new a; mv a/.git/refs/heads/main x; ln -s ~/x a/.git/refs/heads/main", "a", false),
            ("new a; echo ../../../../private/.git/objects > a/.git/objects/info/alternates", "a", false),
            ("new a; mkdir a/.git/rebase-merge; ln -s ~/x a/.git/rebase-merge/done", "a", false),
            (
                "new a; mkdir b; mv a/.git b/t; echo t > b/commondir; echo ref: refs/heads/main > b/HEAD",
                "b",
                false,
            ),
            (
                "new a; mv a/.git/* a/; rmdir a/.git; echo ../../../private/.git/objects > a/objects/info/alternates",
                "a",
                false,
            ),
            // Of what lies inside, git says the name of a commit.
            (
                "new a; new a/m; git -C a -c advice.addEmbeddedRepo=false add m; rm -r a/m; ln -s ../../private a/m",
                "a",
                true,
            ),
            ("new a; echo > a/.git/index", "a", true),
        ] {
            let Some((_dir, ws)) = made(script) else { return };
            assert_eq!(is_plain(&ws.join(place), GitConfigUse::Guarded), want, "{script}");
        }
    }
}
