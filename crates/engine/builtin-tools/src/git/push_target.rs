//! Determines the destination of a push. Both sides are named explicitly, so that no repository setting
//! can turn it into a mirror or forced push.

use haft_git::{GitInvocation, RepositoryConfig};
use haft_tool::ToolError;

use super::{
    input::Input,
    read_operations::{ok, status},
    run_git::{GitRun, GitRunLimits},
};

/// Adds the missing remote and branches to a push. Fails if the branch has no upstream and none is
/// given.
pub(super) async fn completed(
    run: &GitRun<'_>,
    facts: &RepositoryConfig,
    input: &Input,
) -> Result<Input, ToolError> {
    let named = input.branch.as_deref().filter(|it| *it != "HEAD");
    if let (Some(remote), Some(branch)) = (&input.remote, named) {
        return Ok(with(input, remote, branch, ""));
    }
    let now = status(run, facts, &[]).await?;
    let line = GitInvocation::reading("for-each-ref", &facts.sinks)
        .flag("--format=%(push:remotename) %(push:remoteref)")
        .names([format!("refs/heads/{}", now.branch.as_deref().unwrap_or_default()).as_str()]);
    let ran = ok(run.run(&line.text(), GitRunLimits::READING).await?, "push")?;
    let text = ran.text();
    let (remote, there) = text.trim_end().split_once(' ').unwrap_or((text.trim_end(), ""));
    let remote = input.remote.as_deref().unwrap_or(remote);
    if remote.is_empty() {
        return Err(ToolError::failed("push needs remote: the branch follows none."));
    }
    match (named, &now.branch) {
        (Some(branch), _) => Ok(with(input, remote, branch, "")),
        (None, Some(here)) if input.remote.is_none() => Ok(with(input, remote, here, there)),
        (None, Some(here)) => Ok(with(input, remote, here, "")),
        (None, None) => Err(ToolError::failed(
            "push needs branch: HEAD is at no branch (HEAD:refs/heads/NAME names one there).",
        )),
    }
}

/// A branch without a remote name is pushed to the same name.
fn with(input: &Input, remote: &str, branch: &str, there: &str) -> Input {
    let branch = match (branch.contains(':'), there) {
        (true, _) => branch.to_owned(),
        (false, "") => format!("{branch}:{branch}"),
        (false, there) => format!("{branch}:{there}"),
    };
    Input { remote: Some(remote.to_owned()), branch: Some(branch), ..input.clone() }
}
