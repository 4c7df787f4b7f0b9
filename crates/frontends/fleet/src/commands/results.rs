//! `haft fleet results` and `cost`.

use std::{
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
};

use haft_console::{
    stdout::{CliError, CommandExit, print_bytes, print_error, print_line},
    style,
};
use haft_fleet_store::{BlobHash, JobFilter, JobState};
use haft_types::text::one_line;
use serde_json::json;

use super::FleetContext;
use crate::{FleetClient, RunResult};

/// Which parts of the results to print.
pub(super) struct ResultsOptions {
    pub(super) patches: Option<PathBuf>,
    pub(super) files: Option<PathBuf>,
    pub(super) csv: bool,
    pub(super) apply: Option<String>,
}

pub(super) async fn results(
    desk: &FleetClient,
    filter: &JobFilter,
    order: &ResultsOptions,
    context: &FleetContext,
) -> CommandExit {
    if let Some(id) = &order.apply {
        return apply(desk, id).await;
    }
    let jobs: Vec<RunResult> =
        desk.jobs(filter).await?.into_iter().map(|record| RunResult { record }).collect();
    if let Some(dir) = &order.patches {
        let written = write_patches(desk, &jobs, dir).await?;
        print_error(&format!("{written} patches are in {}", dir.display()));
    }
    if let Some(dir) = &order.files {
        let written = write_files(desk, &jobs, dir).await?;
        print_error(&format!("{written} files are in {}", dir.display()));
    }
    match (order.csv, context.options.json) {
        (true, _) => print_csv(&jobs)?,
        (false, true) => jobs.iter().try_for_each(|job| print_line(&job.to_json().to_string()))?,
        (false, false) => jobs.iter().try_for_each(print_result)?,
    }
    let all_done = jobs.iter().all(|it| it.record.state == JobState::Done);
    Ok(ExitCode::from(u8::from(!all_done)))
}

fn print_result(job: &RunResult) -> Result<(), CliError> {
    let record = &job.record;
    let said = record.summary["result"]["result"].as_str().unwrap_or_default();
    let said = if said.is_empty() { record.reason.as_deref().unwrap_or_default() } else { said };
    let files = record.summary["patch"]["files"].as_u64().unwrap_or_default();
    let labels: Vec<String> =
        record.head.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let text = format!(
        "{}  {:>9}  {files} files  ${:.4}  {}\n    {}\n",
        record.head.id,
        record.state.as_str(),
        record.summary["usd"].as_f64().unwrap_or_default(),
        labels.join(" "),
        one_line(said, 200)
    );
    print_bytes(style::clean(&text).as_bytes()).map(drop)
}

fn print_csv(jobs: &[RunResult]) -> Result<(), CliError> {
    let mut names: Vec<&String> = jobs.iter().flat_map(|it| it.record.head.labels.keys()).collect();
    names.sort();
    names.dedup();
    let head = [
        "id",
        "state",
        "exit_code",
        "usd",
        "requests",
        "changed_files",
        "branch",
        "check",
        "reason",
        "result",
    ];
    let mut rows = vec![
        head.iter()
            .map(|it| (*it).to_owned())
            .chain(names.iter().map(|it| (*it).clone()))
            .collect::<Vec<_>>(),
    ];
    for job in jobs {
        let (record, summary) = (&job.record, &job.record.summary);
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut row = vec![
            record.head.id.to_string(),
            record.state.as_str().to_owned(),
            text(&summary["exit_code"]),
            text(&summary["usd"]),
            text(&summary["requests"]),
            text(&summary["patch"]["files"]),
            text(&summary["branch"]["branch"]),
            text(&summary["check"]["exit_code"]),
            record.reason.clone().unwrap_or_default(),
            text(&summary["result"]["result"]),
        ];
        row.extend(names.iter().map(|name| record.head.labels.get(*name).cloned().unwrap_or_default()));
        rows.push(row);
    }
    let lines: String = rows.iter().map(|row| format!("{}\n", csv_row(row))).collect();
    print_bytes(lines.as_bytes()).map(drop)
}

/// Formats a CSV row. Cells that a spreadsheet would evaluate as a formula are escaped.
fn csv_row(cells: &[String]) -> String {
    let cell = |text: &String| {
        let text = if text.starts_with(['=', '+', '@']) { format!("'{text}") } else { text.clone() };
        if text.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    };
    cells.iter().map(cell).collect::<Vec<_>>().join(",")
}

async fn write_patches(desk: &FleetClient, jobs: &[RunResult], dir: &Path) -> Result<usize, CliError> {
    std::fs::create_dir_all(dir)?;
    let mut written = 0;
    for job in jobs {
        let Some(hash) = job.patch() else { continue };
        let bytes = desk.blob(hash).await?;
        if !bytes.is_empty() {
            std::fs::write(dir.join(format!("{}.patch", job.record.head.id)), &bytes)?;
            written += 1;
        }
    }
    Ok(written)
}

async fn write_files(desk: &FleetClient, jobs: &[RunResult], dir: &Path) -> Result<usize, CliError> {
    let mut written = 0;
    for job in jobs {
        for file in job.record.summary["files"].as_array().into_iter().flatten() {
            let (Some(name), Some(hash)) = (file["path"].as_str(), file["blob"].as_str()) else { continue };
            let is_below =
                Path::new(name).components().all(|it| matches!(it, std::path::Component::Normal(_)));
            let Some(hash) = BlobHash::parse(hash).ok().filter(|_| is_below) else { continue };
            let path = dir.join(job.record.head.id.as_str()).join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(dir))?;
            std::fs::write(path, desk.blob(hash).await?)?;
            written += 1;
        }
    }
    Ok(written)
}

/// Applies the patch of a job to the working directory.
async fn apply(desk: &FleetClient, id: &str) -> CommandExit {
    let job = RunResult { record: desk.run(id).await? };
    let Some(hash) = job.patch() else {
        return Err(CliError::Message(format!("{} has no patch", job.record.head.id)));
    };
    let patch = desk.blob(hash).await?;
    if patch.is_empty() {
        print_line("it changed nothing")?;
        return Ok(ExitCode::SUCCESS);
    }
    // If the patch applies cleanly, it changes only the working tree, even with uncommitted changes.
    if git_apply(&["--check"], &patch, false)? {
        return Ok(ExitCode::from(u8::from(!git_apply(&[], &patch, true)?)));
    }
    let is_clean = git_apply(&["--index", "--3way"], &patch, true)?;
    if !is_clean {
        print_error(
            "the patch does not fit what is here; where it was merged, conflicts are marked in the files. Commit or put \
             away what you changed and apply it again, or take it by hand: `haft fleet results ID --patches DIR`",
        );
    }
    Ok(ExitCode::from(u8::from(!is_clean)))
}

/// Runs `git apply` in the working directory with these options; returns whether it succeeded. `speaks`
/// lets git print its messages.
fn git_apply(how: &[&str], patch: &[u8], speaks: bool) -> Result<bool, CliError> {
    let mut git = std::process::Command::new("git");
    git.arg("apply").args(how).args(["--whitespace=nowarn", "-"]).stdin(Stdio::piped());
    if !speaks {
        git.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let mut child = git.spawn().map_err(|err| format!("git: {err}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // git may exit early and close the pipe; its own error message matters more than the write
        // error.
        std::io::Write::write_all(&mut stdin, patch).ok();
    }
    Ok(child.wait()?.success())
}

pub(super) async fn cost(
    desk: &FleetClient,
    filter: &JobFilter,
    by: &[String],
    context: &FleetContext,
) -> CommandExit {
    let jobs = desk.jobs(filter).await?;
    let sums = FleetClient::costs(&jobs, by);
    for (key, usd, count) in &sums {
        if context.options.json {
            let names: serde_json::Map<String, serde_json::Value> =
                by.iter().cloned().zip(key.iter().map(|it| json!(it))).collect();
            print_line(&json!({"by": names, "usd": usd, "jobs": count}).to_string())?;
        } else {
            print_line(&style::clean(&format!(
                "{:>10}  {count:>6} jobs  {}",
                format!("${usd:.4}"),
                key.join("  ")
            )))?
        }
    }
    if !context.options.json {
        let usd = sums.iter().fold(0.0, |sum, it| sum + it.1);
        print_line(&format!("{:>10}  in all", format!("${usd:.4}")))?;
    }
    Ok(ExitCode::SUCCESS)
}
