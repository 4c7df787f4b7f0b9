//! Operations that change something. Hooks run, git never prompts, and conflicts are explained.

use std::time::{Duration, Instant};

use haft_git::{GitInvocation, RepositoryConfig};
use haft_tool::ToolError;
use haft_types::text::head;
use serde_json::{Value, json};

use super::{
    input::{GitAction, Input, Operation, Output, ResetMode},
    read_operations::{entries_text, status, work_state},
    run_git::{GitRun, GitRunLimits, GitRunResult},
};

/// Timeout of operations with hooks or large checkouts.
pub(super) const LONG: Duration = Duration::from_secs(600);
/// Timeout of a signature.
pub(super) const SIGNING: Duration = Duration::from_secs(20);
/// How long to retry while another process holds a lock.
const LOCKED: Duration = Duration::from_secs(2);

/// Runs a changing operation.
pub(super) async fn change(
    run: &GitRun<'_>,
    facts: &RepositoryConfig,
    input: &Input,
) -> Result<Output, ToolError> {
    if input.operation == Operation::Commit {
        return super::commit::commit(run, facts, input).await;
    }
    if input.is_network() && !facts.callers.is_empty() {
        return Err(ToolError::failed(format!(
            "The repository's own configuration makes git run a program when it talks to others ({}), and {} was asked \
             for, not that program. Nothing was run. If the person wants it, they can run git in a shell.",
            facts.callers.join(", "),
            super::equivalent_command::equivalent(input)
        )));
    }
    let completed;
    let input = match input.operation {
        Operation::Push => {
            completed = super::push_target::completed(run, facts, input).await?;
            &completed
        }
        _ => input,
    };
    let line = line_of(input);
    if input.action == Some(GitAction::Continue) {
        super::conflict_markers::check_staged(run, facts).await?;
    }
    let ran = locked(run, &line.text(), bounds(facts, patience(facts, input))).await?;
    if !ran.is_success() {
        if input.operation == Operation::Branch && ran.stderr.contains("not fully merged") {
            return super::branch_delete::unmerged(run, facts, input).await;
        }
        return failed(run, facts, input, &ran).await;
    }
    let said = format!("{}{}", ran.text(), ran.stderr);
    let said = head(said.trim(), 6_000);
    let text = match said {
        "" => format!("Done: {}.", super::equivalent_command::equivalent(input)),
        said => said.to_owned(),
    };
    let text = match input.operation {
        Operation::Add | Operation::Restore | Operation::Reset | Operation::Stash | Operation::Switch => {
            format!("{text}\n{}", entries_text(&status(run, facts, &[]).await?))
        }
        _ => text,
    };
    Ok(Output {
        operation: input.operation.name().to_owned(),
        text,
        data: Value::Null,
        git_operation: kind_of(run, facts, input).await,
    })
}

/// Returns the limits of a changing operation. If it may sign, each signature has a timeout of its own,
/// independent of the time for hooks and checkouts.
pub(super) fn bounds(facts: &RepositoryConfig, patience: Duration) -> GitRunLimits {
    let signature = (facts.signs || facts.signs_tags).then_some(SIGNING);
    GitRunLimits { signature, ..GitRunLimits::changing(patience) }
}

/// Returns the timeout of an operation. Without hooks, a signing operation either ends soon or waits for
/// the user.
fn patience(facts: &RepositoryConfig, input: &Input) -> Duration {
    let signs = match input.operation {
        Operation::Tag => facts.signs_tags && input.message.is_some(),
        Operation::CherryPick | Operation::Revert => facts.signs,
        _ => false,
    };
    if signs && !has_hooks(facts) { SIGNING } else { LONG }
}

fn line_of(input: &Input) -> GitInvocation {
    let names = |line: GitInvocation, names: &[&Option<String>]| {
        line.names(names.iter().copied().flatten().map(String::as_str))
    };
    let line = GitInvocation::changing(input.operation.word());
    let paths = || input.paths.iter().map(String::as_str);
    match (input.operation, input.action) {
        (Operation::Branch, Some(GitAction::Delete)) => {
            names(line.flag(if input.force { "-D" } else { "-d" }), &[&input.name])
        }
        (Operation::Branch, Some(GitAction::Rename)) => {
            names(line.flag("-m"), &[&input.name, &input.new_name])
        }
        (Operation::Branch, _) => names(line.flag("--no-track"), &[&input.name, &input.rev]),
        (Operation::Switch, _) => {
            let line = line.flag("--no-recurse-submodules").flag("--no-overwrite-ignore");
            match (input.create, &input.name) {
                (true, Some(name)) => names(line.with("--create", name), &[&input.rev]),
                // Either parameter may name the branch.
                _ => names(line, &[&input.name, &input.rev]),
            }
        }
        (Operation::Restore, _) => {
            let line = if input.staged { line.flag("--staged") } else { line };
            let line = input.rev.iter().fold(line, |line, rev| line.value("--source=", rev));
            line.paths(paths())
        }
        (Operation::Stash, action) => {
            let number = format!("stash@{{{}}}", input.name.as_deref().unwrap_or("0"));
            match action {
                Some(GitAction::Pop) => line.flag("pop").flag("--index").plain(&number),
                Some(GitAction::Apply) => line.flag("apply").flag("--index").plain(&number),
                Some(GitAction::Drop) => line.flag("drop").plain(&number),
                _ => {
                    let line = line.flag("push").flag("--include-untracked");
                    let line = input.message.iter().fold(line, |line, it| line.with("-m", it));
                    line.paths(paths())
                }
            }
        }
        (Operation::Tag, Some(GitAction::Delete)) => line.flag("-d").names(input.name.as_deref()),
        (Operation::Tag, _) => {
            let line = match &input.message {
                Some(message) => line.flag("-a").with("-m", message),
                None => line,
            };
            names(line, &[&input.name, &input.rev])
        }
        (Operation::Merge | Operation::Rebase | Operation::CherryPick | Operation::Revert, Some(action)) => {
            line.flag(match action {
                GitAction::Abort => "--abort",
                GitAction::Skip => "--skip",
                _ => "--continue",
            })
        }
        (Operation::Merge, None) => {
            let line = line.flag("--no-edit").flag("--no-overwrite-ignore");
            let line = input.message.iter().fold(line, |line, it| line.with("-m", it));
            names(line, &[&input.rev])
        }
        (Operation::Rebase, None) => names(line.flag("--no-autostash"), &[&input.rev]),
        (Operation::CherryPick, None) => names(line, &[&input.rev]),
        (Operation::Revert, None) => names(line.flag("--no-edit"), &[&input.rev]),
        (Operation::Reset | Operation::Fetch | Operation::Pull | Operation::Push, _) => moving(line, input),
        _ => line.paths(paths()),
    }
}

/// Builds lines that move branches or tags, locally or remotely.
fn moving(line: GitInvocation, input: &Input) -> GitInvocation {
    let names = |line: GitInvocation, names: &[&Option<String>]| {
        line.names(names.iter().copied().flatten().map(String::as_str))
    };
    match input.operation {
        Operation::Reset if !input.paths.is_empty() => {
            names(line.flag("-q"), &[&input.rev]).paths(input.paths.iter().map(String::as_str))
        }
        Operation::Reset => {
            let line = line.flag(match input.mode.unwrap_or(ResetMode::Mixed) {
                ResetMode::Soft => "--soft",
                ResetMode::Mixed => "--mixed",
                ResetMode::Hard => "--hard",
            });
            names(line, &[&input.rev])
        }
        Operation::Fetch => names(
            line.flag("--no-recurse-submodules").flag("--no-auto-maintenance"),
            &[&input.remote, &input.branch],
        ),
        Operation::Pull => names(
            line.flag("--ff-only").flag("--no-rebase").flag("--no-recurse-submodules"),
            &[&input.remote, &input.branch],
        ),
        _ => {
            let line = line.flag("--no-follow-tags").flag("--recurse-submodules=no");
            match (&input.branch, &input.expect) {
                (Some(branch), Some(expect)) if input.force => {
                    let there = branch.rsplit(':').next().unwrap_or(branch);
                    line.value("--force-with-lease=", &format!("{there}:{expect}"))
                }
                _ => line,
            }
            .names([&input.remote, &input.branch].into_iter().flatten().map(String::as_str))
        }
    }
}

/// Runs a command, retrying for a short time while another process holds a lock.
pub(super) async fn locked(
    run: &GitRun<'_>,
    line: &str,
    bounds: GitRunLimits,
) -> Result<GitRunResult, ToolError> {
    let deadline = Instant::now() + LOCKED;
    loop {
        let ran = run.run(line, bounds).await?;
        let is_locked = ran.stderr.contains(".lock': File exists");
        if ran.is_success() || !is_locked || deadline <= Instant::now() {
            return Ok(ran);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Builds the error of a failed operation, with advice.
pub(super) async fn failed(
    run: &GitRun<'_>,
    facts: &RepositoryConfig,
    input: &Input,
    ran: &GitRunResult,
) -> Result<Output, ToolError> {
    let said = format!("{}\n{}", ran.text().trim(), ran.stderr.trim());
    let said = head(said.trim(), 4_000).to_owned();
    let name = input.operation.name();
    let now = status(run, facts, &[]).await?;
    if now.entries.iter().any(haft_git::StatusEntry::is_conflict) {
        let next = match work_state(facts) {
            Some(state) => format!(
                "Edit each file so that no marker is left, add it, then {0} with action continue. Or go back: {0} with action abort.",
                state.operation()
            ),
            None => String::from(
                "Edit each file so that no marker is left and add it. The stash is kept until you drop it.",
            ),
        };
        return Err(ToolError::failed(format!(
            "The {name} stopped at conflicts:\n{}{next}",
            entries_text(&now)
        ))
        .with_data(serde_json::to_value(&now).unwrap_or(Value::Null)));
    }
    let hint = match () {
        () if ran.signature_waited
            || (ran.timed_out && !has_hooks(facts) && (facts.signs || facts.signs_tags)) =>
        {
            String::from(
                "It took too long and was ended. It has to be signed, and the key may be locked or wait for a person, who can unlock it (for example: echo | gpg --clearsign). Nothing was made unsigned.",
            )
        }
        () if ran.timed_out => String::from(
            "It took too long and was ended; a hook or a signature may have waited for somebody.",
        ),
        () if said.contains(".lock': File exists") => super::lock_holder::explained(&said).await,
        () if said.contains("would be overwritten") || said.contains("overwritten by checkout") => {
            String::from(
                "Uncommitted changes are in the way: commit them, or put them aside with stash push.",
            )
        }
        () if said.contains("stale info") => String::from(
            "Somebody pushed in between: the remote is not where `expect` says. Fetch and look before you overwrite.",
        ),
        () if said.contains("non-fast-forward") || said.contains("fetch first") => {
            String::from("The remote has commits you have not: fetch, then merge or rebase, then push again.")
        }
        () if said.contains("Not possible to fast-forward") => {
            String::from("Both sides have commits of their own: merge or rebase.")
        }
        () if said.contains("Permission denied (publickey") && facts.ssh.ignored => String::from(
            "The repository names a program of its own for ssh (core.sshCommand), which is not run. The person can configure it for all repositories (git config --global core.sshCommand) or push in a shell.",
        ),
        () if said.contains("terminal prompts disabled")
            || said.contains("could not read Username")
            || said.contains("Permission denied (publickey") =>
        {
            String::from(
                "The remote wants a login, and nobody is asked here. The person has to set one up (a credential helper, or an ssh agent).",
            )
        }
        () => return Err(ToolError::failed(format!("git {name} failed: {said}"))),
    };
    Err(ToolError::failed(format!("git {name} failed: {said}\n{hint}")))
}

/// Returns a structured summary of the change, for statistics.
async fn kind_of(run: &GitRun<'_>, facts: &RepositoryConfig, input: &Input) -> Value {
    match (input.operation, input.action) {
        (Operation::Push, _) => {
            let branch = input.branch.as_deref().and_then(|it| it.rsplit(':').next());
            json!({ "push": { "branch": branch.map(|it| it.trim_start_matches("refs/heads/")) } })
        }
        (Operation::Merge, None | Some(GitAction::Continue)) => {
            json!({ "branch": { "ref": input.rev, "action": "merged" } })
        }
        (Operation::Rebase, None | Some(GitAction::Continue)) => {
            json!({ "branch": { "ref": input.rev, "action": "rebased" } })
        }
        (Operation::CherryPick, None | Some(GitAction::Continue)) => {
            let line = GitInvocation::reading("rev-parse", &facts.sinks).flag("HEAD").text();
            let sha = run
                .run(&line, GitRunLimits::READING)
                .await
                .map(|it| it.text().trim().to_owned())
                .unwrap_or_default();
            json!({ "commit": { "sha": sha, "kind": "cherry-picked" } })
        }
        _ => Value::Null,
    }
}

pub(super) fn has_hooks(facts: &RepositoryConfig) -> bool {
    has_hook_of(facts, &["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"])
}

/// Whether a hook runs with an operation, which may write any file. Reads the disk.
pub(super) fn runs_a_hook(facts: &RepositoryConfig, operation: Operation) -> bool {
    let own = match operation {
        Operation::Commit => has_hooks(facts) || has_hook_of(facts, &["post-rewrite"]),
        Operation::Restore => has_hook_of(facts, &["post-checkout"]),
        _ => false,
    };
    own || has_hook_of(facts, &["post-index-change", "reference-transaction"])
}

fn has_hook_of(facts: &RepositoryConfig, names: &[&str]) -> bool {
    let usual = facts.common_dir.join("hooks");
    let dir = match (&facts.hooks, &facts.top) {
        (None, _) => usual,
        // A relative `core.hooksPath` is relative to the top of the working tree.
        (Some(hooks), Some(top)) => top.join(hooks),
        (Some(hooks), None) => facts.common_dir.join(hooks),
    };
    names.iter().any(|it| dir.join(it).exists())
}
