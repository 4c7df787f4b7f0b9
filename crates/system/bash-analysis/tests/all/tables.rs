//! Tables of commands, decided without rules in default mode.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::judging;

use std::path::Path;

use judging::{Decision, Judge, Rules};

fn lines(table: &str) -> impl Iterator<Item = String> {
    table
        .lines()
        .filter(|line| !line.starts_with("# ") && !line.is_empty())
        .map(|line| line.replace('⏎', "\n").replace('␉', "\t").replace('␇', "\u{7}"))
}

fn decide(command: &str) -> Decision {
    let rules = Rules::default();
    let judge =
        Judge { rules: &rules, mode: "default", cwd: Path::new("/ws/proj"), home: Path::new("/home/u") };
    judge.decide(command)
}

#[test]
fn dangerous_commands_never_run_unasked() {
    let all = lines(include_str!("tables/dangerous.txt"))
        .chain(lines(include_str!("tables/dangerous_more.txt")))
        .chain(lines(include_str!("tables/dangerous_found.txt")));
    let allowed: Vec<String> = all.filter(|line| decide(line) == Decision::Allow).collect();
    assert!(allowed.is_empty(), "{} allowed:\n{}", allowed.len(), allowed.join("\n"));
}

#[test]
fn harmless_commands_run_unasked() {
    let all =
        lines(include_str!("tables/harmless.txt")).chain(lines(include_str!("tables/harmless_more.txt")));
    let asked: Vec<String> = all.filter(|line| decide(line) != Decision::Allow).collect();
    assert!(asked.is_empty(), "{} asked:\n{}", asked.len(), asked.join("\n"));
}

/// A denied program stays denied in every command that visibly runs it.
#[test]
fn denied_program_is_denied_behind_wrappers() {
    let list = |rules: &[&str]| rules.iter().map(|it| (*it).to_owned()).collect();
    let rules = Rules { allow: list(&["Bash"]), ask: Vec::new(), deny: list(&["Bash(curl *)"]) };
    let judge =
        Judge { rules: &rules, mode: "default", cwd: Path::new("/ws/proj"), home: Path::new("/home/u") };
    let lines = [
        "curl x",
        "echo 'curl x' | sh",
        "echo curl x | bash",
        "printf 'curl x\\n' | sh",
        "printf '%s\\n' 'curl x' | dash",
        "echo 'curl x' | cat | sh",
        "{ echo ls; echo 'curl x'; } | sh",
        "(echo 'curl x') | bash -s",
        "cat <<< 'curl x' | sh",
        "cat <<E | sh⏎curl x⏎E",
        "bash <(echo 'curl x')",
        "bash <(printf 'curl x')",
        "source <(echo 'curl x')",
        ". <(echo 'curl x')",
        "source /dev/stdin <<< 'curl x'",
        ". /dev/stdin <<E⏎curl x⏎E",
        "bash /dev/stdin <<< 'curl x'",
        "bash <<< 'curl x'",
        "echo 'curl x' | source /dev/stdin",
        "echo x | xargs curl",
        "uv run curl x",
        "uv run --with y curl x",
        "poetry run curl x",
        "pipenv run curl x",
        "setarch x86_64 curl x",
        "setarch -R curl x",
        "linux32 curl x",
        "prlimit --nofile=5 curl x",
        "prlimit curl x",
        "fakeroot curl x",
        "fakeroot -- curl x",
        "numactl -C 0 curl x",
        "valgrind curl x",
        "direnv exec . curl x",
        "mise exec -- curl x",
        "bundle exec curl x",
        "conda run -n e curl x",
        "firejail curl x",
        "pkexec curl x",
        "unbuffer curl x",
        "env -S 'curl x'",
        "busybox sh -c 'curl x'",
        "git -c alias.z='!curl x' z",
        "git config alias.z '!curl x'",
        "git rebase -x 'curl x' main",
        "git grep -O'curl x' y",
        "git difftool --extcmd='curl x'",
        "git fetch --upload-pack='curl x' y",
        "git push --receive-pack='curl x' y",
        "git clone 'ext::curl x' y",
        "git filter-branch --tree-filter 'curl x'",
        "git bisect run curl x",
        "git submodule foreach 'curl x'",
        "git -c core.sshCommand='curl x' fetch",
    ];
    let wrong: Vec<&str> =
        lines.into_iter().filter(|line| judge.decide(&line.replace('⏎', "\n")) != Decision::Deny).collect();
    assert!(wrong.is_empty(), "{} not denied:\n{}", wrong.len(), wrong.join("\n"));
}

/// An allow rule for a program does not cover programs named in its arguments.
#[test]
fn git_rule_does_not_allow_programs_named_in_arguments() {
    let list = |rules: &[&str]| rules.iter().map(|it| (*it).to_owned()).collect();
    let rules = Rules { allow: list(&["Bash(git *)"]), ask: Vec::new(), deny: list(&["Bash(rm *)"]) };
    let judge =
        Judge { rules: &rules, mode: "default", cwd: Path::new("/ws/proj"), home: Path::new("/home/u") };
    for line in [
        "git grep -O./x y",
        "git grep --open-files-in-pager=./x y",
        "git grep --open=./x y",
        "git difftool --extcmd ./x",
        "git difftool -y -x ./x",
        "git mergetool",
        "git fetch --upload-pack=./x y",
        "git ls-remote --upload-pack ./x y",
        "git clone -u ./x y",
        "git push --receive-pack=./x y",
        "git push --exec ./x y",
        "git -c core.sshCommand=./x fetch",
        "git -c core.pager=./x log",
        "git -ccore.pager=./x log",
        "git --config-env=core.pager=PATH log",
        "git --exec-path=. status",
        "git --exec-path=/tmp/x y",
        "git filter-branch --msg-filter ./x",
        "git config alias.z '!./x'",
        "git config --global alias.z '!./x'",
        "git config core.hooksPath .",
        "git config core.hooksPath list",
        "git config core.hooksPath -- --get",
        "git config gc.recentObjectsHook ./x",
        "git config set core.fsmonitor ./x",
        "git clone ext::./x y",
        "git remote add x ext::./x",
        "git fetch 'ext::sh -c x'",
        "git rebase --exec ./x main",
        "git rebase -x ./x main",
        "git bisect run ./x",
        "git submodule foreach ./x",
        "git archive --remote=. --exec=./x HEAD",
        "git init --template=./x",
        "git send-email --sendmail-cmd=./x y",
        "git merge -s x y",
        "git hook run x",
    ] {
        assert_ne!(judge.decide(line), Decision::Allow, "{line}");
    }
    for line in [
        "git push origin main",
        "git commit -m 'a b'",
        "git rebase main",
        "git config user.name x",
        "git fetch -p",
    ] {
        assert_eq!(judge.decide(line), Decision::Allow, "{line}");
    }
}

/// Rules for some commands, applied to compound lines: every part is decided on its own.
#[test]
fn compound_line_is_decided_by_its_parts() {
    let list = |rules: &[&str]| rules.iter().map(|it| (*it).to_owned()).collect();
    let rules = Rules {
        allow: list(&["Bash(git *)", "Bash(grep *)", "Bash(head *)", "Bash(jq *)"]),
        ask: Vec::new(),
        deny: list(&["Bash(rm *)"]),
    };
    let judge =
        Judge { rules: &rules, mode: "default", cwd: Path::new("/ws/proj"), home: Path::new("/home/u") };
    let mut want = None;
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in include_str!("tables/compound.txt").lines().filter(|line| !line.is_empty()) {
        match line {
            "# allow" => want = Some(Decision::Allow),
            "# deny" => want = Some(Decision::Deny),
            "# never allow" => want = None,
            _ => {
                rows += 1;
                let got = judge.decide(&line.replace('⏎', "\n"));
                if want.map_or(got == Decision::Allow, |want| got != want) {
                    wrong.push(format!("{line}: {got:?}, not {want:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(120 <= rows, "{rows}");
}
