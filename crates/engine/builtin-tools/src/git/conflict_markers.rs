//! Rejects commits of files that still contain conflict markers.

use haft_git::{GitInvocation, RepositoryConfig, split_patch};
use haft_tool::ToolError;

use super::{
    input::Input,
    run_git::{GitRun, GitRunLimits},
};

/// Maximum bytes of staged content that are checked.
const LOOKED_AT: usize = 4 << 20;

fn problem(place: &str) -> ToolError {
    ToolError::failed(format!(
        "{place}. Resolve them first. (A file that is meant to hold such lines can be committed in a shell.)"
    ))
}

/// Checks the files to be committed, as they are on disk.
pub(super) async fn check_files(run: &GitRun<'_>, input: &Input) -> Result<(), ToolError> {
    let (dir, paths) = (run.dir.clone(), input.paths.clone());
    let found = tokio::task::spawn_blocking(move || {
        paths.into_iter().find_map(|path| {
            let text = std::fs::read(dir.join(haft_git::path_named(&path))).ok()?;
            let text = String::from_utf8_lossy(&text);
            let line = |mark: &str| text.lines().position(|it| it.starts_with(mark));
            let first = line("<<<<<<< ")?;
            (line("=======").is_some() && line(">>>>>>> ").is_some()).then_some((path, first + 1))
        })
    });
    match found.await {
        Ok(Some((path, line))) => {
            Err(problem(&format!("{path} still has the markers of a conflict, from line {line} on")))
        }
        _ => Ok(()),
    }
}

/// Checks the staged changes.
pub(super) async fn check_staged(run: &GitRun<'_>, facts: &RepositoryConfig) -> Result<(), ToolError> {
    let line = GitInvocation::reading("diff", &facts.sinks)
        .flag("--cached")
        .flag("--no-ext-diff")
        .flag("--no-textconv")
        .flag("--no-color")
        .flag("-U0")
        .paths([]);
    let ran = run.run(&line.text(), GitRunLimits { most: LOOKED_AT, ..GitRunLimits::READING }).await?;
    let patch = ran.text();
    let has = |piece: &str, mark: &str| piece.lines().any(|it| it.starts_with(mark));
    let marked = split_patch(&patch)
        .into_iter()
        .find(|piece| has(piece, "+<<<<<<< ") && has(piece, "+=======") && has(piece, "+>>>>>>> "));
    match marked {
        None => Ok(()),
        Some(piece) => {
            let name = piece.lines().find_map(|it| it.strip_prefix("+++ b/")).unwrap_or("A file");
            Err(problem(&format!("{name} is staged with the markers of a conflict")))
        }
    }
}
