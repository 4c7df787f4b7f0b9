//! Deletes branches without losing commits: a branch with unmerged commits is kept, unless its content
//! was merged in another way.

use haft_git::{GitInvocation, RepositoryConfig};
use haft_tool::ToolError;
use serde_json::Value;

use super::{
    input::{Input, Output},
    read_operations::ok,
    run_git::{GitRun, GitRunLimits},
    write_operations::{LONG, locked},
};

/// Maximum number of commits listed.
const LISTED: &str = "20";

/// Handles the deletion of a branch that git reports as not merged.
pub(super) async fn unmerged(
    run: &GitRun<'_>,
    facts: &RepositoryConfig,
    input: &Input,
) -> Result<Output, ToolError> {
    let name = input.name.as_deref().unwrap_or_default();
    let branch = format!("refs/heads/{name}");
    if brings_nothing(run, facts, &branch).await? {
        let line = GitInvocation::changing("branch").flag("-D").names([name]);
        let ran = ok(locked(run, &line.text(), GitRunLimits::changing(LONG)).await?, "branch")?;
        return Ok(Output {
            operation: input.operation.name().to_owned(),
            text: format!("{}\nIts commits are not in HEAD, but what they changed is.", ran.text().trim()),
            data: Value::Null,
            git_operation: Value::Null,
        });
    }
    let line = GitInvocation::reading("log", &facts.sinks)
        .flag("--oneline")
        .flag("--no-decorate")
        .value("-n", LISTED)
        .plain(&branch)
        .flag("--not")
        .flag("HEAD")
        .flag("--remotes");
    let ran = run.run(&line.text(), GitRunLimits { most: 64 << 10, ..GitRunLimits::READING }).await?;
    Err(ToolError::failed(format!(
        "{name} was not removed: these commits of it are neither in HEAD nor on a remote.\n{}\nIf they may go, give force: true.",
        ran.text().trim_end()
    )))
}

/// Whether merging the branch into `HEAD` would change nothing, for example after a squash merge.
async fn brings_nothing(run: &GitRun<'_>, facts: &RepositoryConfig, branch: &str) -> Result<bool, ToolError> {
    let merged =
        GitInvocation::reading("merge-tree", &facts.sinks).flag("--write-tree").plain("HEAD").plain(branch);
    let merged = run.run(&merged.text(), GitRunLimits::READING).await?;
    let here = GitInvocation::reading("rev-parse", &facts.sinks).flag("HEAD^{tree}");
    let here = run.run(&here.text(), GitRunLimits::READING).await?;
    Ok(merged.code == Some(0) && here.code == Some(0) && merged.text().trim() == here.text().trim())
}
