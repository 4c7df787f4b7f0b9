//! Commits exactly what was named, with hooks and signatures as git runs them.

use std::path::{Path, PathBuf};

use haft_git::{GitInvocation, HeadState, IndexFile, RepositoryConfig, parse_head};
use haft_tool::ToolError;
use haft_types::text::head;
use serde_json::json;

use super::{
    input::{Input, Output},
    read_operations::{ok, status, work_state},
    run_git::{GitRun, GitRunLimits, GitRunResult},
    write_operations::{LONG, SIGNING, bounds, failed, has_hooks, locked},
};

/// Maximum bytes of a git file (such as the index) parsed here; for larger ones git is run.
const LARGEST: u64 = 64 << 20;

pub(super) async fn commit(
    run: &GitRun<'_>,
    facts: &RepositoryConfig,
    input: &Input,
) -> Result<Output, ToolError> {
    super::conflict_markers::check_files(run, input).await?;
    let state = work_state(facts);
    if input.staged || state.is_some() {
        super::conflict_markers::check_staged(run, facts).await?;
    }
    if state.is_some() && !input.paths.is_empty() {
        return Err(ToolError::failed(format!(
            "In the middle of a {} git commits everything that is staged, not single paths: add what is resolved, then continue it, or commit with staged: true.",
            state.map_or("", haft_git::RepositoryOperation::operation)
        )));
    }
    // Git commits named paths only if they are tracked.
    let announced = unknown_paths(run, facts, input).await?;
    if !announced.is_empty() {
        let add = GitInvocation::changing("add")
            .flag("--intent-to-add")
            .paths(announced.iter().map(String::as_str));
        let ran = locked(run, &add.text(), GitRunLimits::changing(LONG)).await?;
        if !ran.is_success() {
            return failed(run, facts, input, &ran).await;
        }
    }
    let mut line = GitInvocation::changing("commit").flag("-q").flag("--no-status").flag("--no-edit");
    line = input.message.iter().fold(line, |line, it| line.with("-m", it));
    if input.amend {
        line = line.flag("--amend");
    }
    if !input.staged && state.is_none() {
        line = line.flag("--only");
    }
    let line = line.paths(input.paths.iter().map(String::as_str));
    let patience = if facts.signs && !has_hooks(facts) { SIGNING } else { LONG };
    // The same shell reports the new commit, after a NUL byte, which a failed commit never prints.
    let line = format!("{} && printf '\\0' && {{ {} || true; }}", line.text(), last_commit(facts).text());
    let ran = locked(run, &line, bounds(facts, patience)).await?;
    let Some(end) = ran.stdout.iter().position(|it| *it == 0) else {
        if !announced.is_empty() {
            let forget = GitInvocation::changing("rm").flag("--cached").flag("-q").flag("-f").flag("-r");
            let line = forget.paths(announced.iter().map(String::as_str)).text();
            locked(run, &line, GitRunLimits::changing(LONG)).await?;
        }
        return Err(commit_error(facts, &ran));
    };
    committed(run, facts, input, &ran.stdout[end + 1..]).await
}

/// Returns the named paths that exist and are not tracked by git.
async fn unknown_paths(
    run: &GitRun<'_>,
    facts: &RepositoryConfig,
    input: &Input,
) -> Result<Vec<String>, ToolError> {
    let (index, top, dir) = (facts.git_dir.join("index"), facts.top.clone(), run.dir.clone());
    let named: Vec<PathBuf> = input.paths.iter().map(|it| haft_git::path_named(it)).collect();
    let known = tokio::task::spawn_blocking(move || are_known(&index, top.as_deref(), &dir, &named));
    if known.await.unwrap_or(false) {
        return Ok(Vec::new());
    }
    let others = GitInvocation::reading("ls-files", &facts.sinks).flag("--others").flag("--exclude-standard");
    let line = others.flag("-z").paths(input.paths.iter().map(String::as_str)).text();
    let ran = ok(run.run(&line, GitRunLimits::READING).await?, "commit")?;
    let names = ran.stdout.split(|it| *it == 0).filter(|it| !it.is_empty());
    Ok(names.map(haft_git::path_text).collect())
}

/// Whether each named path is certainly either a tracked file or missing. Reads the disk.
fn are_known(index: &Path, top: Option<&Path>, dir: &Path, named: &[PathBuf]) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    if named.is_empty() {
        return true;
    }
    let (Some(top), Some(bytes)) = (top, file_bytes(index)) else { return false };
    let Some(index) = IndexFile::read(&bytes) else { return false };
    named.iter().all(|path| {
        let path = haft_paths::lexical(&dir.join(path));
        let inside = path.strip_prefix(top).is_ok_and(|it| index.has(it.as_os_str().as_bytes()));
        match path.symlink_metadata() {
            Ok(about) => inside && !about.is_dir(),
            Err(_) => true,
        }
    })
}

fn file_bytes(path: &Path) -> Option<Vec<u8>> {
    let about = std::fs::symlink_metadata(path).ok()?;
    (about.is_file() && about.len() <= LARGEST).then(|| std::fs::read(path).ok())?
}

fn commit_error(facts: &RepositoryConfig, ran: &GitRunResult) -> ToolError {
    let said = format!("{}\n{}", ran.text().trim(), ran.stderr.trim());
    let said = head(said.trim(), 4_000).to_owned();
    if ["nothing to commit", "no changes added", "nothing added to commit"].iter().any(|it| said.contains(it))
    {
        return ToolError::failed("Nothing was committed: what you named is as it was committed before.");
    }
    let signing = facts.signs
        && (ran.signature_waited
            || (ran.timed_out && !has_hooks(facts))
            || said.contains("gpg failed")
            || said.contains("failed to sign")
            || said.contains("signing"));
    let hint = match () {
        () if signing => {
            "The commit has to be signed, and the key is locked or waits for a person. They can unlock it (for example: echo | gpg --clearsign) and you try again. It was not committed unsigned."
        }
        () if ran.timed_out => "It took too long and was ended; a hook may have waited for somebody.",
        () if said.contains("tell me who you are")
            || said.contains("user.useConfigOnly")
            || said.contains("empty ident name") =>
        {
            "Nobody is configured as the author, and none is invented. The person can run: git config --global user.name \"NAME\" and git config --global user.email \"ADDRESS\"."
        }
        () if said.contains("unmerged") => {
            "Some files are in conflict, and git commits nothing until they are resolved: edit each so that no marker is left, then add it. status shows them."
        }
        () if said.contains("did not match any file") => {
            "A path you named is no file that git knows: it is not there, or an ignore file names it."
        }
        () => "If a hook refused, repair what it says; hooks are not skipped.",
    };
    ToolError::failed(format!("Nothing was committed. {hint}\n{said}"))
}

/// Builds the command line that prints the last commit: tree, id, and changes.
fn last_commit(facts: &RepositoryConfig) -> GitInvocation {
    GitInvocation::reading("log", &facts.sinks)
        .flag("-1")
        .value("--format=", "%T %H %h %s")
        .flag("--stat=100")
        .flag("--no-ext-diff")
        .flag("--no-textconv")
}

/// Formats the result of a commit. `told` is the output of [`last_commit`].
async fn committed(
    run: &GitRun<'_>,
    facts: &RepositoryConfig,
    input: &Input,
    told: &[u8],
) -> Result<Output, ToolError> {
    let text = String::from_utf8_lossy(told);
    let mut words = text.splitn(3, ' ');
    let (Some(tree), Some(sha), Some(words)) = (words.next(), words.next(), words.next()) else {
        return Err(ToolError::failed("It was committed, but git does not show it. Look with log."));
    };
    let after = AfterCommit::find(run, facts, tree).await?;
    let left = match after.staged {
        0 => String::new(),
        count => format!("{count} other files are staged as before.\n"),
    };
    let branch = after.branch.as_deref().unwrap_or("no branch");
    let kind = if input.amend { "amended" } else { "committed" };
    Ok(Output {
        operation: String::from("commit"),
        text: format!("On {branch}: {}\n{left}", head(words.trim(), 8_000)),
        data: json!({ "sha": sha, "branch": after.branch }),
        git_operation: json!({ "commit": { "sha": sha, "kind": kind, "branch": after.branch } }),
    })
}

/// The state of a repository after a commit.
struct AfterCommit {
    branch: Option<String>,
    /// Number of staged files that were not committed.
    staged: usize,
}

impl AfterCommit {
    /// Determines the state from git's files where possible, else by running git. `git status` would
    /// examine every file.
    async fn find(run: &GitRun<'_>, facts: &RepositoryConfig, tree: &str) -> Result<Self, ToolError> {
        let git_dir = facts.git_dir.clone();
        let read = tokio::task::spawn_blocking(move || {
            let staged_tree = file_bytes(&git_dir.join("index"))
                .and_then(|it| IndexFile::read(&it).and_then(|index| index.tree()));
            (file_bytes(&git_dir.join("HEAD")).and_then(|it| parse_head(&it)), staged_tree)
        });
        let (place, staged_tree) = read.await.unwrap_or_default();
        let branch = match place {
            Some(HeadState::Branch(name)) => Some(name),
            Some(HeadState::Commit) => None,
            None => {
                let now = status(run, facts, &[]).await?;
                let staged = now.entries.iter().filter(|it| it.is_staged()).count();
                return Ok(Self { branch: now.branch, staged });
            }
        };
        if staged_tree.as_deref() == Some(tree) {
            return Ok(Self { branch, staged: 0 });
        }
        let line = GitInvocation::reading("diff", &facts.sinks)
            .flag("--cached")
            .flag("--name-only")
            // Conflicted files do not count as staged.
            .flag("--diff-filter=u")
            .flag("--no-ext-diff")
            .flag("--no-textconv")
            .flag("-z")
            .paths([]);
        let ran = ok(run.run(&line.text(), GitRunLimits::READING).await?, "diff")?;
        let staged = ran.stdout.split(|it| *it == 0).filter(|it| !it.is_empty()).count();
        Ok(Self { branch, staged })
    }
}
