//! Git settings that may name programs or files.

use std::path::{Path, PathBuf};

use haft_git::is_ordinary_setting;

use super::{exists, git_repository::READING_HOOKS};

/// Directories of a checkout.
#[derive(Clone, Copy)]
pub(super) struct GitCheckout<'a> {
    /// The git directory.
    pub(super) git: &'a Path,
    /// The working tree.
    pub(super) top: &'a Path,
}

/// Whether every setting in a configuration file is harmless.
pub(super) fn is_plain_git_config(text: &str, checkout: GitCheckout<'_>) -> bool {
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        // A continued line could hide its content.
        if line.ends_with('\\') {
            return false;
        }
        let rest = match line.strip_prefix('[') {
            Some(header) => {
                let Some((name, is_divided, rest)) = header_of(header) else { return false };
                section = name.to_ascii_lowercase();
                // `[diff "x"]` can name a program, `[diff]` cannot.
                let nested =
                    ["core", "diff", "log", "extensions", "feature", "merge"].contains(&section.as_str());
                if nested && is_divided {
                    return false;
                }
                rest
            }
            None => line,
        };
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let name = format!("{section}.{}", key.trim().to_ascii_lowercase());
        let value = value.trim();
        let known = match place_of(&name) {
            Some(place) => place.is_plain(value, checkout),
            None => is_ordinary_setting(&section, &name),
        };
        // Either a switch or a program.
        let watched = name == "core.fsmonitor" && matches!(value, "true" | "false");
        let lfs =
            section == "filter" && value.trim_matches('"').starts_with("git-lfs ") && plain_words(value)
                || name == "filter.required";
        let partial = name == "submodule.update" && value.starts_with('!')
            || name == "diff.submodule" && !matches!(value, "log" | "short");
        if !(known || watched || lfs) || partial {
            return false;
        }
    }
    true
}

/// Parses a section header: name, whether it has a subsection, and the rest of the line. `[a.b]` is an
/// old form of `[a "b"]`. `None` for another header on the same line.
fn header_of(header: &str) -> Option<(&str, bool, &str)> {
    let end = header.find(|c: char| !c.is_ascii_alphanumeric() && c != '-')?;
    let (name, rest) = header.split_at(end);
    let (is_divided, rest) = match rest.trim_start().strip_prefix('"') {
        Some(quoted) => {
            let mut escaped = false;
            let close = quoted.find(|c: char| {
                let closes = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                closes
            })?;
            (true, &quoted[close + 1..])
        }
        None => {
            let old = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
            (rest.starts_with('.'), rest.trim_start_matches(old))
        }
    };
    let rest = rest.strip_prefix(']')?.trim();
    (!rest.starts_with('[')).then_some((name, is_divided, rest))
}

fn plain_words(value: &str) -> bool {
    value.chars().all(|c| c.is_ascii_alphanumeric() || " -%\"_".contains(c))
}

/// Settings whose path decides whether they are harmless.
enum PathSetting {
    /// The working tree.
    Worktree,
    /// Hooks that git runs.
    Hooks,
    /// A list of revisions, whose invalid lines are shown.
    Revisions,
}

fn place_of(name: &str) -> Option<PathSetting> {
    match name {
        "core.worktree" => Some(PathSetting::Worktree),
        "core.hookspath" => Some(PathSetting::Hooks),
        "blame.ignorerevsfile" => Some(PathSetting::Revisions),
        _ => None,
    }
}

impl PathSetting {
    fn is_plain(&self, value: &str, checkout: GitCheckout<'_>) -> bool {
        let GitCheckout { git, top } = checkout;
        if value.is_empty() || value.contains(['"', '#', ';', '\\', '~', '%']) {
            return false;
        }
        let real = |path: PathBuf| path.canonicalize().ok();
        match self {
            Self::Worktree => real(git.join(value)).is_some_and(|it| Some(it) == real(top.to_owned())),
            Self::Hooks => READING_HOOKS.iter().all(|name| !exists(&top.join(value).join(name))),
            Self::Revisions => match real(top.join(value)) {
                Some(list) => real(top.to_owned()).is_some_and(|top| list.starts_with(top)),
                None => !exists(&top.join(value)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_config_with_harmless_settings_is_plain() {
        let dir = tempfile::tempdir().unwrap();
        let outer = dir.path().canonicalize().unwrap();
        let top = outer.join("top");
        for made in [".git", ".husky/_", "hooks"] {
            std::fs::create_dir_all(top.join(made)).unwrap();
        }
        for made in [top.join("hooks/post-index-change"), top.join(".git-blame-ignore-revs"), outer.join("x")]
        {
            std::fs::write(made, "").unwrap();
        }
        let git = top.join(".git");
        let checkout = GitCheckout { git: &git, top: &top };
        for (text, want) in [
            ("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n", true),
            ("[remote \"origin\"]\n\turl = git@x:y\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n", true),
            ("[branch \"main\"]\n\tremote = origin\n[user]\n\tname = \"A B\"\n", true),
            ("[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n", true),
            ("[core]\n\tfsmonitor = true\n", true),
            ("[user] [core] fsmonitor = ./x\n", false),
            ("[user][core]\n\tfsmonitor = ./x\n", false),
            ("[filter \"x\"] clean = ./x #]\n", false),
            ("[include] path = ../x ;]\n", false),
            ("[gpg] program = ./x \"]\"\n", false),
            ("[remote \"a]b\"] url = x\n", true),
            ("[remote \"a\\\"]b\"]\n\turl = x\n", true),
            ("[branch \"a\"] remote = b # [x]\n", true),
            ("[branch.a]\n\tremote = b\n", true),
            ("[core]\n\tfsmonitor = ./x\n", false),
            ("[core] fsmonitor = ./x\n", false),
            ("[CORE]\nFsMonitor=./x\n", false),
            ("[core]\n\tpager = ./x\n", false),
            ("[core]\n\thooksPath = hooks\n", false),
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
            ("[merge]\n\tconflictStyle = zdiff3\n", true),
            ("[merge \"x\"]\n\tdriver = ./x\n", false),
            ("[lfs \"https://x/y\"]\n\tlocksverify = true\n", true),
            ("[lfs \"extension.x\"]\n\tclean = ./x\n", false),
            ("[lfs \"customtransfer.x\"]\n\tpath = ./x\n", false),
            ("[lfs]\n\tstandalonetransferagent = x\n", false),
            ("[diff]\n\tsubmodule = log\n", true),
            ("[diff]\n\tsubmodule = diff\n", false),
            ("[http \"https://x/\"]\n\textraheader = a\n[credential]\n\thelper = store\n", true),
            ("[blame]\n\tignoreRevsFile = .git-blame-ignore-revs\n", true),
            ("[blame]\n\tignoreRevsFile = /etc/passwd\n", false),
            ("[blame]\n\tignoreRevsFile = ../x\n", false),
            ("[blame]\n\tignoreRevsFile = \"/etc/passwd\"\n", false),
            ("[core]\n\tworktree = ..\n", true),
            ("[core]\n\tworktree = ../..\n", false),
            ("[core]\n\thooksPath = .husky/_\n", true),
        ] {
            assert_eq!(is_plain_git_config(text, checkout), want, "{text}");
        }
    }
}
