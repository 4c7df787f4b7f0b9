//! Programs that need an interactive user, and alternatives to them.

use super::ports::{InteractiveHint, Said};

/// Returns the hint for the program that these words start.
pub(super) fn of(words: &[&str]) -> Option<InteractiveHint> {
    let (program, arguments) = words.split_first()?;
    let name = program.rsplit('/').next()?;
    if name == "git" {
        return git(arguments);
    }
    let found = PROGRAMS.iter().find(|it| it.names.contains(&name))?;
    let is_option = |it: &&str| it.starts_with('-');
    let fits = match found.asks {
        InteractiveWhen::Always => true,
        InteractiveWhen::WithoutWords => {
            arguments.iter().all(|it| is_option(it) && !found.unless.contains(it))
        }
        InteractiveWhen::Unless => !arguments.iter().any(|it| found.unless.contains(it)),
    };
    fits.then_some(InteractiveHint { when: found.when, instead: found.instead })
}

/// When a program needs an interactive user.
enum InteractiveWhen {
    Always,
    /// Without arguments other than options, and without certain options.
    WithoutWords,
    /// Unless certain words are present.
    Unless,
}

struct Program {
    names: &'static [&'static str],
    asks: InteractiveWhen,
    unless: &'static [&'static str],
    when: Said,
    instead: &'static str,
}

const fn program(
    names: &'static [&'static str],
    asks: InteractiveWhen,
    unless: &'static [&'static str],
    when: Said,
    instead: &'static str,
) -> Program {
    Program { names, asks, unless, when, instead }
}

const PROGRAMS: &[Program] = &[
    program(
        &["vim", "vi", "nvim", "view", "vimdiff", "nano", "pico", "emacs", "micro", "joe", "ed", "ex"],
        InteractiveWhen::Unless,
        &["-es", "-Es", "--batch", "--headless", "--script", "--version", "--help"],
        Said::Failed,
        "change files with Edit or Write, or with sed",
    ),
    program(
        &["less", "more", "most"],
        InteractiveWhen::Unless,
        &["--version", "--help"],
        Said::Always,
        "all of it was printed at once; use Read with offset and limit, or head",
    ),
    program(
        &["top", "htop", "btop", "atop"],
        InteractiveWhen::Unless,
        &["-b", "-h", "-v"],
        Said::Failed,
        "use top -b -n 1, or ps",
    ),
    program(
        &["watch"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "run the command once, or follow it with Monitor",
    ),
    program(
        &[
            "python", "python3", "ipython", "node", "deno", "bun", "irb", "ruby", "perl", "lua", "php", "R",
            "ghci",
        ],
        InteractiveWhen::WithoutWords,
        &["--version", "-V", "-v", "--help", "-h"],
        Said::Silent,
        "give the code with -c or -e, as a file, or as a here-document; REPL keeps an interpreter",
    ),
    program(
        &["bash", "sh", "zsh", "dash", "fish", "ksh"],
        InteractiveWhen::WithoutWords,
        &["--version", "--help"],
        Said::Silent,
        "give the commands with -c, or run them directly",
    ),
    program(
        &["cat", "tee", "sort", "wc", "tr", "tac", "rev", "nl", "bc", "dc", "md5sum", "sha256sum"],
        InteractiveWhen::WithoutWords,
        &["--version", "--help"],
        Said::Silent,
        "name a file, or give the text as a here-document or through a pipe",
    ),
    program(
        &["read", "select"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "set the variable, or give the text with <<<",
    ),
    program(
        &["ssh", "scp", "sftp", "rsync"],
        InteractiveWhen::Unless,
        &["-V", "--version"],
        Said::Failed,
        "use keys, and -o BatchMode=yes -o StrictHostKeyChecking=accept-new",
    ),
    program(
        &["ssh-keygen"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "use ssh-keygen -q -t ed25519 -N '' -f FILE",
    ),
    program(
        &["ssh-add", "ssh-copy-id"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "ask the user to do it in their own terminal",
    ),
    program(
        &["sudo", "doas", "su", "pkexec"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "sudo -n works where no password is needed; else ask the user to do it",
    ),
    program(
        &["passwd", "chsh", "chfn"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "pipe NAME:PASSWORD into chpasswd, or use usermod",
    ),
    program(
        &["gpg", "gpg2"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "use gpg --batch --yes, with --pinentry-mode loopback --passphrase-file FILE",
    ),
    program(
        &["mysql", "mariadb", "psql", "sqlite3", "mongosh", "redis-cli", "sqlplus"],
        InteractiveWhen::Always,
        &[],
        Said::Silent,
        "give the statement (-e, -c, or as the last word), and the password in a file or variable",
    ),
    program(
        &["npm", "yarn", "pnpm", "npx"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "use -y or --yes, and give names as flags; a login needs a token in .npmrc",
    ),
    program(
        &["pip", "pip3", "conda", "apt", "apt-get", "dnf", "yum", "pacman", "brew"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "use -y (pacman: --noconfirm)",
    ),
    program(
        &["docker", "podman", "kubectl"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "leave out -t and -i; give a password with --password-stdin",
    ),
    program(
        &["gh", "glab", "gcloud", "aws", "az", "heroku"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "give everything as flags; for a login use a token variable",
    ),
    program(
        &["crontab", "visudo", "vipw"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "give the new text as a file or through a pipe",
    ),
    program(
        &["openssl"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "use -batch, -subj and -passin or -passout",
    ),
    program(
        &["rm", "cp", "mv", "ln"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "leave out -i, and use -f where it is meant",
    ),
    program(
        &["tmux", "screen", "script", "dialog", "whiptail"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "run the program itself, with run_in_background if it is to stay",
    ),
    program(
        &["gdb", "lldb"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "use gdb -batch -ex COMMAND, or lldb -b -o COMMAND",
    ),
    program(
        &["mail", "telnet", "ftp", "nc"],
        InteractiveWhen::Always,
        &[],
        Said::Failed,
        "give the text as a here-document",
    ),
];

fn git(arguments: &[&str]) -> Option<InteractiveHint> {
    let has = |names: &[&str]| arguments.iter().any(|it| names.contains(it));
    let starts = |names: &[&str]| arguments.iter().any(|it| names.iter().any(|name| it.starts_with(name)));
    let said = |when: Said, instead: &'static str| Some(InteractiveHint { when, instead });
    if has(&["rebase"]) && has(&["-i", "--interactive"]) {
        return said(
            Said::Always,
            "the list of commits is taken as it stands; set GIT_SEQUENCE_EDITOR to a command that changes the file it is given, such as sed -i",
        );
    }
    if has(&["add", "checkout", "restore", "reset", "stash", "commit"]) && has(&["-p", "--patch", "-i"]) {
        return said(
            Said::Silent,
            "pieces cannot be chosen; stage whole files, or git apply --cached a patch",
        );
    }
    let messaged = starts(&["-m", "-F", "--message", "--file", "--no-edit", "-C", "--reuse-message", "-am"]);
    if has(&["commit", "tag", "merge", "revert", "notes"]) && !messaged {
        return said(Said::Failed, "give the message with -m or -F, or keep it with --no-edit");
    }
    if has(&["clone", "fetch", "pull", "push", "ls-remote", "submodule"]) {
        return said(Said::Failed, "git asks for no password; use a credential helper, a key or a token");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interactive_programs_are_recognised_by_arguments() {
        for (line, want) in [
            ("vim f", Some("Edit or Write")),
            ("vim -es -c wq f", None),
            ("/usr/bin/less f", Some("Read")),
            ("python3", Some("-c or -e")),
            ("python3 x.py", None),
            ("cat f", None),
            ("cat", Some("name a file")),
            ("git commit", Some("-m or -F")),
            ("git commit -m x", None),
            ("git rebase -i HEAD~3", Some("GIT_SEQUENCE_EDITOR")),
            ("git add -p", Some("whole files")),
            ("git status", None),
            ("sudo -k true", Some("sudo -n")),
            ("ls", None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let got = of(&words).map(|it| it.instead);
            assert_eq!(got.is_some(), want.is_some(), "{line}: {got:?}");
            assert!(got.is_none_or(|it| it.contains(want.unwrap_or_default())), "{line}: {got:?}");
        }
    }
}
