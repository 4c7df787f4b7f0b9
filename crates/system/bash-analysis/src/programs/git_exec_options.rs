//! Options, subcommands and settings of git that run a program named in the command line.
//!
//! A rule `git *` does not allow these; only a rule that spells out the whole command does.

/// Subcommands whose purpose is to run programs.
const RUNNERS: &[&str] = &[
    "bisect",
    "cvsimport",
    "cvsserver",
    "daemon",
    "difftool",
    "filter-branch",
    "for-each-repo",
    "hook",
    "http-backend",
    "instaweb",
    "mergetool",
    "p4",
    "receive-pack",
    "remote-ext",
    "remote-fd",
    "send-email",
    "send-pack",
    "shell",
    "svn",
    "upload-archive",
    "upload-pack",
    "web--browse",
];

/// Long options that name a program or a directory of programs, with the length of the shortest
/// abbreviation.
const OPTIONS: &[(&str, usize)] = &[
    ("--config", 5),
    ("--config-env", 5),
    ("--exec", 4),
    ("--exec-path", 6),
    ("--ext-diff", 5),
    ("--extcmd", 5),
    ("--git-dir", 5),
    ("--gpg-program", 5),
    ("--open-files-in-pager", 4),
    ("--receive-pack", 5),
    ("--sendmail-cmd", 6),
    ("--smtp-server", 6),
    ("--strategy", 7),
    ("--template", 5),
    ("--textconv", 6),
    ("--upload-pack", 4),
    ("--upload-archive", 4),
];

/// Short options that name a program, with the subcommands that have them.
const SHORT: &[(char, &[&str])] = &[
    ('O', &["grep"]),
    ('c', &["clone"]),
    ('s', &["merge", "pull", "rebase", "cherry-pick", "revert"]),
    ('u', &["clone", "fetch-pack"]),
    ('x', &["rebase"]),
];

/// Prefixes of settings that cannot name a program.
const QUIET_SECTIONS: &[&str] = &[
    "advice.",
    "author.",
    "branch.",
    "color.",
    "column.",
    "committer.",
    "commit.",
    "fetch.",
    "gc.aggressive",
    "gc.auto",
    "gc.prune",
    "gc.reflog",
    "gc.worktreeprune",
    "init.defaultbranch",
    "merge.conflictstyle",
    "merge.ff",
    "pull.",
    "push.",
    "rebase.",
    "rerere.",
    "status.",
    "tag.sort",
    "user.",
];

/// Whether a command (`git` first) runs a program named in its words.
pub(crate) fn runs_named_program(words: &[Option<&str>]) -> bool {
    let known: Vec<&str> = words.iter().skip(1).map(|word| word.unwrap_or_default()).collect();
    let Some((subcommand, at)) = subcommand(&known) else {
        return known.iter().any(|word| names_program(word, ""));
    };
    let (front, rest) = (&known[..at], &known[at + 1..]);
    let sets = |word: &&&str| word.starts_with("-c") || names_program(word, "");
    front.iter().any(|word| sets(&word))
        || RUNNERS.contains(&subcommand)
        || rest.iter().any(|word| names_program(word, subcommand))
        || subcommand == "submodule" && rest.contains(&"foreach")
        || subcommand == "config" && configures(rest)
}

/// Global options whose value is the next word.
pub(crate) const GIT_VALUED: &[&str] = &[
    "-C",
    "-c",
    "--attr-source",
    "--config-env",
    "--git-dir",
    "--namespace",
    "--super-prefix",
    "--work-tree",
];

/// The subcommand and its index.
fn subcommand<'a>(words: &[&'a str]) -> Option<(&'a str, usize)> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if !word.starts_with('-') {
            return Some((word, at));
        }
        at += if GIT_VALUED.contains(word) { 2 } else { 1 };
    }
    None
}

fn names_program(word: &str, subcommand: &str) -> bool {
    // A transport helper that runs a program.
    if word.contains("ext::") || word.contains("fd::") {
        return true;
    }
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    if name.starts_with("--") {
        let fits = |(option, least): &(&str, usize)| *least <= name.len() && option.starts_with(name);
        return OPTIONS.iter().any(fits);
    }
    let Some(cluster) = word.strip_prefix('-') else { return false };
    SHORT.iter().any(|(letter, within)| within.contains(&subcommand) && cluster.contains(*letter))
}

/// Whether it changes a setting that may name a program.
fn configures(rest: &[&str]) -> bool {
    const READS: [&str; 6] = ["--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l"];
    // `get` and `list` are subcommands only as the first word; further on they are values.
    let options = || rest.iter().take_while(|word| **word != "--");
    let subcommand = rest.first().copied().unwrap_or_default();
    if matches!(subcommand, "get" | "list") || options().any(|word| READS.contains(word)) {
        return false;
    }
    let edits = subcommand == "edit" || options().any(|word| matches!(*word, "-e" | "--edit"));
    let end = rest.iter().position(|word| *word == "--").unwrap_or(rest.len());
    let (before, after) = rest.split_at(end);
    let values = || before.iter().filter(|word| !word.starts_with('-')).chain(after.iter().skip(1));
    let names = values().filter(|word| word.contains('.'));
    let loud = |name: &&&str| {
        let name = name.to_ascii_lowercase();
        !QUIET_SECTIONS.iter().any(|quiet| name.starts_with(quiet))
    };
    let operands = values().filter(|word| **word != "set").count();
    edits || 1 < operands && names.clone().next().is_none_or(|name| loud(&name))
}

/// Programs named in the words of git, as shell scripts.
pub(crate) fn git_programs(words: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for (idx, word) in words.iter().enumerate() {
        if let Some(script) = word.strip_prefix('!') {
            out.push(script.to_owned());
        }
        // An alias may also stand for a git subcommand.
        if let Some((_, alias)) = word.split_once("alias.") {
            let meant = match alias.split_once('=') {
                Some((_, meant)) => Some(meant),
                None => words.get(idx + 1).map(String::as_str),
            };
            out.extend(meant.map(|it| format!("git {it}")));
        }
        if let Some((_, script)) = word.split_once("ext::") {
            out.push(script.to_owned());
        }
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if !names_program(name, "grep")
            && !names_program(name, "rebase")
            && !matches!(name, "-c" | "-u" | "--filter")
        {
            let filters = name.starts_with("--") && name.ends_with("-filter");
            if !filters {
                continue;
            }
        }
        let value = match word.split_once('=') {
            Some((_, value)) if word.starts_with("--") => Some(value.to_owned()),
            _ if word.starts_with("--") || word.len() == 2 => words.get(idx + 1).cloned(),
            _ => word.get(2..).map(str::to_owned),
        };
        let Some(value) = value else { continue };
        out.extend(value.split_once('=').map(|(_, script)| script.trim_start_matches('!').to_owned()));
        out.push(value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::runs_named_program;

    #[test]
    fn runs_named_program_detects_git_options_that_run_programs() {
        for (line, want) in [
            ("git status", false),
            ("git commit -m x", false),
            ("git log --oneline -5", false),
            ("git push origin main", false),
            ("git push -u origin main", false),
            ("git fetch --all", false),
            ("git clone x y", false),
            ("git config user.name x", false),
            ("git config --get core.pager", false),
            ("git config core.pager", false),
            ("git rebase main", false),
            ("git stash push -m x", false),
            ("git checkout -b x", false),
            ("git submodule update --init", false),
            ("git grep -n x", false),
            ("git diff --cached", false),
            ("git -C sub status", false),
            ("git grep -Oless x", true),
            ("git grep -nO x", true),
            ("git grep --open-files-in-pager=sh x", true),
            ("git grep --op=sh x", true),
            ("git difftool --extcmd=sh", true),
            ("git fetch --upload-pack=sh x", true),
            ("git fetch --upl sh x", true),
            ("git pull --upload-pack x", true),
            ("git push --receive-pack=sh x", true),
            ("git push --exec=sh x", true),
            ("git -c core.sshCommand=sh fetch", true),
            ("git -c alias.z=!sh z", true),
            ("git filter-branch --tree-filter sh", true),
            ("git config alias.z !sh", true),
            ("git config --global core.pager sh", true),
            ("git config set core.fsmonitor sh", true),
            ("git config -e", true),
            ("git --exec-path=/tmp status", true),
            ("git --config-env=core.pager=X log", true),
            ("git clone ext::sh x", true),
            ("git remote add x ext::sh", true),
            ("git ls-remote --upload-pack=sh x", true),
            ("git rebase -x sh main", true),
            ("git rebase -ixsh main", true),
            ("git rebase --exe sh main", true),
            ("git bisect run sh", true),
            ("git submodule foreach sh", true),
            ("git archive --remote=x --exec=sh HEAD", true),
            ("git clone -c core.pager=sh x", true),
            ("git clone --template=x y", true),
            ("git init --template=x", true),
            ("git diff --ext-diff", true),
            ("git send-email x", true),
            ("git merge -s evil x", true),
            ("git --git-dir=x status", true),
        ] {
            let words: Vec<Option<&str>> = line.split(' ').map(Some).collect();
            assert_eq!(runs_named_program(&words), want, "{line}");
        }
    }
}
