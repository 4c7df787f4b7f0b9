//! Operations that only read.

use haft_git::{
    CommitInfo, GitInvocation, GitStatus, LOG_FORMAT, RepositoryConfig, RepositoryOperation, is_machine_made,
    parse_blame, parse_log, parse_numstat, parse_status, split_patch, state_of,
};
use haft_tool::ToolError;
use haft_types::text::{head, one_line, thousands};
use serde_json::{Value, json};

use super::{
    input::{GitAction, Input, Operation, Output},
    run_git::{GitRun, GitRunLimits, GitRunResult},
};

/// Maximum characters of patches in one result.
const SHOWN: usize = 32_000;
/// Maximum bytes of a patch that are read to fill it.
const LOOKED_AT: usize = 512 << 10;
/// Maximum number of status entries listed.
const ENTRIES: usize = 500;
/// Maximum number of files of a diff listed with their line counts.
const COUNTED: usize = 300;

/// Runs a reading operation.
pub(super) async fn look(
    run: &GitRun<'_>,
    facts: &RepositoryConfig,
    input: &Input,
) -> Result<Output, ToolError> {
    match input.operation {
        Operation::Status => show_status(run, facts, input).await,
        Operation::Diff => diff(run, facts, input).await,
        Operation::Log => log(run, facts, input).await,
        Operation::Show => show(run, facts, input).await,
        Operation::Blame => blame(run, facts, input).await,
        Operation::Stash if input.action == Some(GitAction::Show) => {
            let name = format!("stash@{{{}}}", input.name.as_deref().unwrap_or("0"));
            let line =
                reading("stash", facts).flag("show").flag("-p").flag("--no-ext-diff").flag("--no-textconv");
            let ran = ok(run.run(&line.plain(&name).text(), GitRunLimits::READING).await?, "stash show")?;
            Ok(plain(input, head(&ran.text(), SHOWN).to_owned()))
        }
        _ => list(run, facts, input).await,
    }
}

fn reading(subcommand: &str, facts: &RepositoryConfig) -> GitInvocation {
    GitInvocation::reading(subcommand, &facts.sinks)
}

/// Returns the result if git succeeded, else an error with its message.
pub(super) fn ok(ran: GitRunResult, what: &str) -> Result<GitRunResult, ToolError> {
    if ran.is_success() {
        return Ok(ran);
    }
    if ran.timed_out {
        return Err(ToolError::failed(format!("git {what} took too long and was ended.")));
    }
    let said = match ran.stderr.trim() {
        "" => ran.text(),
        said => said.to_owned(),
    };
    let said = head(said.trim(), 4_000).to_owned();
    let hint = match () {
        () if said.contains("unknown revision") || said.contains("bad revision") => {
            " Look for the right name with log or branch."
        }
        () if said.contains("does not have any commits yet") => " There is no commit yet.",
        () if said.contains("from promisor remote") || said.contains("lazy fetching disabled") => {
            " This clone left contents out, and looking fetches none; fetch them in a shell, or ask for less (log without patch, diff with stat)."
        }
        () => "",
    };
    Err(ToolError::failed(format!("git {what} failed: {said}{hint}")))
}

fn plain(input: &Input, text: String) -> Output {
    Output { operation: input.operation.name().to_owned(), text, ..Output::default() }
}

fn paths(input: &Input) -> impl Iterator<Item = &str> {
    input.paths.iter().map(String::as_str)
}

/// Returns the paths for a diff. Given two paths of which one is outside the repository, git would
/// compare them with each other; repeating one avoids that, since it rejects outside paths among three.
fn compared<'a>(paths: &[&'a str]) -> Vec<&'a str> {
    match paths {
        [first, second] => vec![first, second, second],
        others => others.to_vec(),
    }
}

/// Returns the status of the repository.
pub(super) async fn status(
    run: &GitRun<'_>,
    facts: &RepositoryConfig,
    paths: &[String],
) -> Result<GitStatus, ToolError> {
    let line = reading("status", facts)
        .flag("--porcelain=v2")
        .flag("--branch")
        .flag("--show-stash")
        .flag("--untracked-files=normal")
        .flag("--ignore-submodules=dirty")
        .flag("-z")
        .paths(paths.iter().map(String::as_str));
    let ran = ok(run.run(&line.text(), GitRunLimits::READING).await?, "status")?;
    Ok(parse_status(&ran.stdout))
}

/// Returns the operation in progress, such as a merge or rebase.
pub(super) fn work_state(facts: &RepositoryConfig) -> Option<RepositoryOperation> {
    state_of(|name| facts.git_dir.join(name).exists())
}

async fn show_status(run: &GitRun<'_>, facts: &RepositoryConfig, input: &Input) -> Result<Output, ToolError> {
    let status = status(run, facts, &input.paths).await?;
    let state = work_state(facts);
    let mut text = branch_line(&status);
    if let Some(state) = state {
        let operation = state.operation();
        text.push_str(&format!(
            "In the middle of a {operation}: resolve, add the files, then {operation} with action continue, or abort.\n"
        ));
    }
    text.push_str(&entries_text(&status));
    text.push_str(unfiltered(facts));
    let mut data = serde_json::to_value(&status).unwrap_or(Value::Null);
    if let Some(entries) = data["entries"].as_array_mut() {
        entries.truncate(ENTRIES);
    }
    data["state"] = serde_json::to_value(state).unwrap_or(Value::Null);
    Ok(Output { data, ..plain(input, text) })
}

/// Returns the note that files are shown as on disk, if filters would change them.
fn unfiltered(facts: &RepositoryConfig) -> &'static str {
    if facts.sinks.iter().any(haft_git::ExecutableSetting::is_filter) {
        "[Filters did not run here, because the repository's own settings name or could direct them; \
             files that they change may look modified.]\n"
    } else {
        ""
    }
}

fn branch_line(status: &GitStatus) -> String {
    let at = match (&status.branch, &status.head) {
        (Some(branch), Some(_)) => format!("On {branch}"),
        (Some(branch), None) => format!("On {branch}, before its first commit"),
        (None, Some(head)) => format!("At {}, on no branch", head.get(..10).unwrap_or(head)),
        (None, None) => String::from("On nothing"),
    };
    let follows = match (&status.upstream, status.ahead, status.behind) {
        (None, ..) => String::new(),
        (Some(upstream), 0, 0) => format!(", even with {upstream}"),
        (Some(upstream), ahead, behind) => format!(", {ahead} ahead of and {behind} behind {upstream}"),
    };
    let stash = match status.stashed {
        0 => String::new(),
        count => format!(", {count} stashed"),
    };
    format!("{at}{follows}{stash}\n")
}

/// Formats status entries, conflicts first.
pub(super) fn entries_text(status: &GitStatus) -> String {
    if status.entries.is_empty() {
        return String::from("Nothing is changed.\n");
    }
    let mut text = String::new();
    let conflicts = status.entries.iter().filter(|it| it.is_conflict());
    for entry in conflicts {
        text.push_str(&format!(
            "{} {} (conflict: {})\n",
            entry.code,
            shown(&entry.path),
            entry.conflict().unwrap_or("")
        ));
    }
    for entry in status.entries.iter().filter(|it| !it.is_conflict()).take(ENTRIES) {
        let from = entry.from.as_ref().map(|it| format!(" (was {})", shown(it))).unwrap_or_default();
        text.push_str(&format!("{} {}{from}\n", entry.code, shown(&entry.path)));
    }
    if ENTRIES < status.entries.len() {
        text.push_str(&format!("… {} more; name paths to see them\n", status.entries.len() - ENTRIES));
    }
    let count =
        |test: fn(&haft_git::StatusEntry) -> bool| status.entries.iter().filter(|it| test(it)).count();
    text.push_str(&format!(
        "{} staged, {} changed, {} untracked, {} in conflict\n",
        count(haft_git::StatusEntry::is_staged),
        count(|it| matches!(it.code.as_bytes().get(1), Some(b'M' | b'D' | b'T')) && !it.is_conflict()),
        count(|it| it.code == "??"),
        count(haft_git::StatusEntry::is_conflict)
    ));
    text
}

/// Formats a path, which may contain any bytes, on one line.
fn shown(path: &str) -> String {
    if haft_git::path_bytes(path) != path.as_bytes() {
        return path.to_owned();
    }
    if path.chars().any(|it| it.is_control() || it == '"') { format!("{path:?}") } else { path.to_owned() }
}

fn diff_line(facts: &RepositoryConfig, input: &Input) -> GitInvocation {
    let mut line = reading("diff", facts)
        .flag("--no-ext-diff")
        .flag("--no-textconv")
        .flag("--no-color")
        .flag("--find-renames")
        .flag("--ignore-submodules=dirty");
    if input.staged {
        line = line.flag("--cached");
    }
    line
}

fn with_sides(line: GitInvocation, input: &Input) -> GitInvocation {
    line.names([&input.from, &input.to].into_iter().flatten().map(String::as_str))
}

async fn diff(run: &GitRun<'_>, facts: &RepositoryConfig, input: &Input) -> Result<Output, ToolError> {
    let counts = with_sides(diff_line(facts, input).flag("--numstat").flag("-z"), input)
        .paths(compared(&paths(input).collect::<Vec<_>>()));
    let ran = ok(run.run(&counts.text(), GitRunLimits::READING).await?, "diff")?;
    let files = parse_numstat(&ran.stdout);
    if files.is_empty() {
        return Ok(plain(input, String::from("There is no difference.")));
    }
    let mut text = String::new();
    for file in files.iter().take(COUNTED) {
        let number = |it: Option<u64>| it.map_or(String::from("-"), |it| it.to_string());
        let from = file.from.as_ref().map(|it| format!(" (was {})", shown(it))).unwrap_or_default();
        let machine = if is_machine_made(&file.path) { " (made by a program)" } else { "" };
        text.push_str(&format!(
            "+{} -{} {}{from}{machine}\n",
            number(file.added),
            number(file.removed),
            shown(&file.path)
        ));
    }
    if COUNTED < files.len() {
        text.push_str(&format!("… and {} more files\n", files.len() - COUNTED));
    }
    let total = |side: fn(&haft_git::DiffFile) -> Option<u64>| files.iter().filter_map(side).sum::<u64>();
    text.push_str(&format!(
        "{} files, {} lines added, {} removed\n",
        files.len(),
        thousands(total(|it| it.added)),
        thousands(total(|it| it.removed))
    ));
    if input.to.is_none() && !input.staged {
        text.push_str(unfiltered(facts));
    }
    let data = json!({ "files": files.iter().take(2_000).collect::<Vec<_>>() });
    if input.stat {
        return Ok(Output { data, ..plain(input, text) });
    }
    // A file the call names is shown even if it is generated.
    let asked = |path: &str| input.paths.iter().any(|it| it == path);
    let wanted: Vec<&str> = files
        .iter()
        .filter(|it| it.added.is_some() && (!is_machine_made(&it.path) || asked(&it.path)))
        .flat_map(|it| it.from.iter().chain([&it.path]))
        .map(String::as_str)
        .collect();
    if wanted.is_empty() {
        return Ok(Output { data, ..plain(input, text) });
    }
    let top = facts.top.as_deref().map(|it| it.to_string_lossy().into_owned());
    let context = format!("-U{}", input.context.unwrap_or(3).min(200));
    let line = with_sides(diff_line(facts, input).flag(&context), input);
    // Paths from `--numstat` are relative to the top of the repository.
    let few: Vec<&str> = wanted.iter().copied().take(400).collect();
    let line = line.paths(compared(&few)).text();
    let line = match top {
        Some(top) => format!("cd -- {} && {line}", haft_git::quoted(&top)),
        None => line,
    };
    let ran = ok(run.run(&line, GitRunLimits { most: LOOKED_AT, ..GitRunLimits::READING }).await?, "diff")?;
    text.push('\n');
    text.push_str(&fitting(&ran.text(), &files, ran.cut, input));
    Ok(Output { data, ..plain(input, text) })
}

/// Returns whole files as long as they fit, and how to get the rest.
fn fitting(patch: &str, files: &[haft_git::DiffFile], cut: bool, input: &Input) -> String {
    let pieces = split_patch(patch);
    let whole = if cut { pieces.len().saturating_sub(1) } else { pieces.len() };
    let (mut text, mut shown_pieces) = (String::new(), 0);
    for piece in &pieces[..whole] {
        if SHOWN < text.len() + piece.len() {
            break;
        }
        text.push_str(piece);
        shown_pieces += 1;
    }
    if shown_pieces == pieces.len() && !cut {
        return text;
    }
    if shown_pieces == 0
        && let Some(first) = pieces.first()
    {
        text.push_str(head(first, SHOWN));
        text.push_str("\n[This file's changes are longer than one result; its end is not shown. Read the file, or use context: 0.]\n");
        shown_pieces = 1;
    }
    let shown_names: Vec<&str> =
        files.iter().map(|it| it.path.as_str()).filter(|it| is_in(&text, it)).collect();
    let rest: Vec<&str> = files
        .iter()
        .filter(|it| {
            it.added.is_some() && !is_machine_made(&it.path) && !shown_names.contains(&it.path.as_str())
        })
        .map(|it| it.path.as_str())
        .collect();
    if !rest.is_empty() {
        let mut next = json!({ "operation": "diff" });
        for (name, value) in [("dir", &input.dir), ("from", &input.from), ("to", &input.to)] {
            if let Some(value) = value {
                next[name] = json!(value);
            }
        }
        if input.staged {
            next["staged"] = json!(true);
        }
        next["paths"] = json!(rest.iter().take(20).collect::<Vec<_>>());
        text.push_str(&format!("[{shown_pieces} of the files are shown. Next: Git {next}]\n"));
    }
    text
}

fn is_in(patch: &str, path: &str) -> bool {
    patch.contains(&format!(" b/{path}\n")) || patch.contains(&format!("+++ b/{path}"))
}

async fn log(run: &GitRun<'_>, facts: &RepositoryConfig, input: &Input) -> Result<Output, ToolError> {
    let limit = input.limit.unwrap_or(20).min(500);
    let mut line = reading("log", facts)
        .flag("--no-show-signature")
        .value("--format=", LOG_FORMAT)
        .value("-n", &limit.to_string());
    if input.patch {
        line = line.flag("-p").flag("--no-ext-diff").flag("--no-textconv");
    }
    for (flag, value) in [("--author=", &input.author), ("--since=", &input.since)] {
        if let Some(value) = value {
            line = line.value(flag, value);
        }
    }
    if let Some(text) = &input.grep {
        line = line.flag("--fixed-strings").flag("--regexp-ignore-case").value("--grep=", text);
    }
    let range = match (&input.from, &input.to) {
        (Some(from), Some(to)) => Some(format!("{from}..{to}")),
        (Some(from), None) => Some(format!("{from}..HEAD")),
        (None, to) => to.clone(),
    };
    let line = line.names(range.as_deref()).paths(paths(input));
    let ran =
        ok(run.run(&line.text(), GitRunLimits { most: 4 << 20, ..GitRunLimits::READING }).await?, "log")?;
    let commits = parse_log(&ran.stdout);
    if commits.is_empty() {
        return Ok(plain(input, String::from("No commit is like that.")));
    }
    let mut text = String::new();
    for (at, commit) in commits.iter().enumerate() {
        let one = commit_text(commit, input.patch || limit <= 5);
        if SHOWN < text.len() + one.len() && at != 0 {
            let next =
                json!({ "operation": "log", "to": format!("{}~1", commits[at - 1].sha), "limit": limit });
            text.push_str(&format!("[{at} commits are shown. Next: Git {next}]\n"));
            break;
        }
        text.push_str(head(&one, SHOWN));
    }
    let data = json!({ "commits": commits.iter().map(|it| CommitInfo { patch: String::new(), ..it.clone() }).collect::<Vec<_>>() });
    Ok(Output { data, ..plain(input, text) })
}

fn commit_text(commit: &CommitInfo, whole: bool) -> String {
    let refs = if commit.refs.is_empty() { String::new() } else { format!(" ({})", commit.refs) };
    let day = commit.date.get(..10).unwrap_or(&commit.date);
    let mut text =
        format!("{} {day} {}: {}{refs}\n", commit.short, commit.author, one_line(&commit.subject, 200));
    if whole {
        for line in commit.body.trim().lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    if !commit.patch.is_empty() {
        text.push_str(&commit.patch);
        text.push('\n');
    }
    text
}

async fn show(run: &GitRun<'_>, facts: &RepositoryConfig, input: &Input) -> Result<Output, ToolError> {
    let rev = input.rev.as_deref().unwrap_or("HEAD");
    let line = reading("show", facts)
        .flag("--no-ext-diff")
        .flag("--no-textconv")
        .flag("--no-show-signature")
        .flag("--stat")
        .flag("-p")
        .flag("--format=fuller")
        .names([rev]);
    let ran =
        ok(run.run(&line.text(), GitRunLimits { most: LOOKED_AT, ..GitRunLimits::READING }).await?, "show")?;
    if ran.stdout.contains(&0) {
        return Ok(plain(
            input,
            format!("{rev} is {} bytes that are no text.", thousands(ran.stdout.len() as u64)),
        ));
    }
    let text = ran.text();
    let mut shown = head(&text, SHOWN).to_owned();
    if shown.len() < text.len() || ran.cut {
        shown.push_str(
            "\n[The rest is not shown. For one file of the commit: diff from REV~1 to REV with its path.]\n",
        );
    }
    Ok(plain(input, shown))
}

async fn blame(run: &GitRun<'_>, facts: &RepositoryConfig, input: &Input) -> Result<Output, ToolError> {
    let mut line = reading("blame", facts).flag("--porcelain").flag("--no-textconv");
    if let Some(lines) = &input.lines {
        line = line.with("-L", lines);
    }
    if let Some(rev) = &input.rev {
        line = line.plain(rev);
    }
    let line = line.paths(paths(input)).text();
    let ran = run.run(&line, GitRunLimits::READING).await?;
    // Git's error message quotes content of the file, whichever file it is.
    if !ran.is_success() && ran.stderr.contains("invalid object name") {
        return Err(ToolError::failed(
            "git blame failed: blame.ignoreRevsFile names a file whose lines are no commits of this repository.",
        ));
    }
    let ran = ok(ran, "blame")?;
    let chunks = parse_blame(&ran.stdout);
    let mut text = String::from(if input.rev.is_none() { unfiltered(facts) } else { "" });
    for chunk in &chunks {
        let mut one = format!(
            "{} {} ({})\n",
            chunk.sha.get(..10).unwrap_or(&chunk.sha),
            chunk.author,
            one_line(&chunk.summary, 100)
        );
        for (line, number) in chunk.lines.iter().zip(chunk.first_line..) {
            one.push_str(&format!("{number}\t{line}\n"));
        }
        if SHOWN < text.len() + one.len() {
            text.push_str(&format!(
                "[The rest is not shown. Next: lines \"{},{}\"]\n",
                chunk.first_line,
                chunk.first_line + 400
            ));
            break;
        }
        text.push_str(&one);
    }
    Ok(plain(input, text))
}

/// Lists branches, tags, stashes or worktrees.
async fn list(run: &GitRun<'_>, facts: &RepositoryConfig, input: &Input) -> Result<Output, ToolError> {
    let line = match input.operation {
        Operation::Branch => reading("branch", facts)
            .flag("--all")
            .flag("--sort=-committerdate")
            .flag("--format=%(HEAD) %(refname:short) %(objectname:short) %(upstream:short) %(upstream:track) %(contents:subject)"),
        Operation::Tag => reading("tag", facts)
            .flag("--sort=-creatordate")
            .flag("--format=%(refname:short) %(objectname:short) %(creatordate:short) %(contents:subject)"),
        Operation::Stash => reading("stash", facts).flag("list"),
        _ => reading("worktree", facts).flag("list"),
    };
    let ran = ok(
        run.run(&line.text(), GitRunLimits { most: 256 << 10, ..GitRunLimits::READING }).await?,
        input.operation.name(),
    )?;
    let text = ran.text();
    let mut shown: String =
        text.lines().take(300).map(|it| format!("{}\n", one_line(it.trim_end(), 200))).collect();
    match text.lines().count() {
        0 => shown.push_str("There is none.\n"),
        count if 300 < count => shown.push_str(&format!("… and {} more\n", count - 300)),
        _ => {}
    }
    Ok(plain(input, shown))
}
