//! Builds the shell command line equivalent to an operation, so that rules written for `git` in Bash
//! apply.

use std::path::Path;

use haft_git::quoted;

use super::input::{GitAction, Input, Operation, ResetMode};

/// Returns the command line that rules are matched against. Where a commit has the name of a file, `--`
/// marks it as a commit.
pub(super) fn judged(input: &Input, dir: &Path) -> String {
    let line = equivalent(input);
    let commits = [&input.from, &input.to].into_iter().flatten();
    let mistakable =
        input.paths.is_empty() && commits.into_iter().any(|it| dir.join(it).symlink_metadata().is_ok());
    if mistakable { format!("{line} --") } else { line }
}

/// Returns a line such as `git commit -m 'message' -- path`.
pub(super) fn equivalent(input: &Input) -> String {
    let mut words: Vec<String> = vec![String::from("git")];
    if let Some(dir) = &input.dir {
        words.extend([String::from("-C"), quoted(dir)]);
    }
    words.push(input.operation.word().to_owned());
    words.extend(arguments(input));
    if !input.paths.is_empty() {
        words.push(String::from("--"));
        words.extend(input.paths.iter().map(|it| quoted(it)));
    }
    words.join(" ")
}

fn arguments(input: &Input) -> Vec<String> {
    let text = |it: &str| it.to_owned();
    let some = |it: &Option<String>| it.iter().map(|it| quoted(it)).collect::<Vec<_>>();
    let joined = |parts: &[Vec<String>]| parts.concat();
    match (input.operation, input.action) {
        (Operation::Diff, _) => {
            let staged = if input.staged { vec![text("--cached")] } else { Vec::new() };
            joined(&[staged, some(&input.from), some(&input.to)])
        }
        (Operation::Show | Operation::Blame, _) => some(&input.rev),
        (Operation::Branch, None | Some(GitAction::List)) => vec![text("--list")],
        (Operation::Branch, Some(GitAction::Delete)) => {
            joined(&[vec![text(if input.force { "-D" } else { "-d" })], some(&input.name)])
        }
        (Operation::Branch, Some(GitAction::Rename)) => {
            joined(&[vec![text("-m")], some(&input.name), some(&input.new_name)])
        }
        (Operation::Branch, _) => joined(&[some(&input.name), some(&input.rev)]),
        (Operation::Switch, _) => {
            let create = if input.create { vec![text("-c")] } else { Vec::new() };
            joined(&[create, some(&input.name), some(&input.rev)])
        }
        (Operation::Restore, _) => {
            let staged = if input.staged { vec![text("--staged")] } else { Vec::new() };
            let source = input.rev.iter().map(|it| format!("--source={}", quoted(it))).collect();
            joined(&[staged, source])
        }
        (Operation::Commit, _) => {
            let amend = if input.amend { vec![text("--amend")] } else { Vec::new() };
            let message = input.message.iter().flat_map(|it| [text("-m"), quoted(it)]).collect();
            joined(&[amend, message])
        }
        (Operation::Stash, action) => {
            let word = match action {
                Some(GitAction::Push) => "push",
                Some(GitAction::Pop) => "pop",
                Some(GitAction::Apply) => "apply",
                Some(GitAction::Drop) => "drop",
                Some(GitAction::Show) => "show",
                _ => "list",
            };
            let message = input.message.iter().flat_map(|it| [text("-m"), quoted(it)]).collect();
            let number =
                input.name.iter().map(|it| format!("stash@{{{it}}}")).map(|it| quoted(&it)).collect();
            joined(&[vec![text(word)], message, number])
        }
        (Operation::Worktree, _) => vec![text("list")],
        (Operation::Tag, None | Some(GitAction::List)) => vec![text("--list")],
        (Operation::Tag, Some(GitAction::Delete)) => joined(&[vec![text("-d")], some(&input.name)]),
        (Operation::Tag, _) => joined(&[some(&input.name), some(&input.rev)]),
        (Operation::Merge | Operation::Rebase | Operation::CherryPick | Operation::Revert, action) => {
            match action {
                Some(GitAction::Continue) => vec![text("--continue")],
                Some(GitAction::Abort) => vec![text("--abort")],
                Some(GitAction::Skip) => vec![text("--skip")],
                _ => some(&input.rev),
            }
        }
        (Operation::Reset, _) => {
            let mode = input.mode.map(|it| match it {
                ResetMode::Soft => text("--soft"),
                ResetMode::Mixed => text("--mixed"),
                ResetMode::Hard => text("--hard"),
            });
            joined(&[mode.into_iter().collect(), some(&input.rev)])
        }
        (Operation::Fetch | Operation::Pull, _) => joined(&[some(&input.remote), some(&input.branch)]),
        (Operation::Push, _) => {
            let force = if input.force { vec![text("--force-with-lease")] } else { Vec::new() };
            joined(&[force, some(&input.remote), some(&input.branch)])
        }
        (Operation::Log, _) => {
            let patch = if input.patch { vec![text("-p")] } else { Vec::new() };
            joined(&[patch, some(&input.from), some(&input.to)])
        }
        (Operation::Status | Operation::Add, _) => Vec::new(),
    }
}
