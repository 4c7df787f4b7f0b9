//! Formats the result of a command for the model and for programs.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use haft_shell::{
    output::{Mark, OutputView},
    run::{Exit, Job, JobEnd, Stop},
};
use haft_tool::{Block, Content, ErrorKind, ToolError};

use super::{
    input::{Left, Output},
    ports::{InteractiveHint, Said},
};

/// Maximum bytes of raw output that are checked for being an image.
const MAX_PICTURE_BYTES: u64 = 8 << 20;

/// Returns the shown output of a command, cut to `limit` characters.
pub(crate) fn printed(job: &Job, limit: usize) -> Output {
    let mut output = Output::default();
    let total = job.printed().bytes;
    if let Some(url) = picture(job, total) {
        return Output { stdout: url, is_image: true, ..output };
    }
    let (dropped, trouble) = job.loss();
    output.dropped_bytes = dropped;
    if let Some(kind) = job.binary_kind() {
        output.raw_output_path = job.persist().ok();
        let place = match &output.raw_output_path {
            Some(path) => format!(", saved to {}", path.display()),
            None => String::from(", not saved"),
        };
        output.stdout = format!("[{total} bytes that are no text ({kind}){place}]\n");
    } else {
        let excerpt = job.read(OutputView { limit, from: Mark::default() });
        output.stdout = excerpt.text;
        if excerpt.is_cut {
            persisted(job, &mut output);
        }
    }
    if let Some(why) = trouble {
        output.notes.push(format!("{dropped} bytes of output could not be kept: {why}"));
    } else if 0 < dropped {
        output.notes.push(format!("{dropped} bytes from the middle of the output were not kept"));
    }
    output
}

fn persisted(job: &Job, output: &mut Output) {
    let Mark { bytes, lines } = job.printed();
    match job.persist() {
        Ok(path) => {
            output.notes.push(where_all_is(&path, bytes, lines));
            output.persisted_output_path = Some(path);
            output.persisted_output_size = Some(bytes - output.dropped_bytes);
            output.printed_lines = lines;
        }
        Err(err) => output.notes.push(format!("the rest of the output is lost: {err}")),
    }
}

/// Returns the note about the file that contains the whole output.
fn where_all_is(path: &Path, bytes: u64, lines: u64) -> String {
    format!(
        "it printed {bytes} bytes in {lines} lines; the file {} has them: use Read with offset and limit, or Grep",
        path.display()
    )
}

/// Returns the notes for the user, who opens the rest of the output directly instead of reading a file.
pub(super) fn notes_for_person(output: &Output) -> impl Iterator<Item = &String> {
    let told = output.persisted_output_path.as_ref().zip(output.persisted_output_size);
    let told = told.map(|(path, kept)| where_all_is(path, kept + output.dropped_bytes, output.printed_lines));
    output.notes.iter().filter(move |note| told.as_ref() != Some(*note))
}

/// Returns the image if the output consists of exactly one.
fn picture(job: &Job, total: u64) -> Option<String> {
    let head = job.raw_head(64);
    if !head.starts_with(b"data:image/") || MAX_PICTURE_BYTES < total {
        return None;
    }
    let text = String::from_utf8(job.raw_head(total)).ok()?;
    let (head, data) = text.trim().split_once(";base64,")?;
    let is_base64 = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/' | b'=');
    let kind = head.strip_prefix("data:image/")?;
    let known = ["png", "jpeg", "gif", "webp"].contains(&kind);
    (known && !data.is_empty() && data.bytes().all(is_base64)).then(|| text.trim().to_owned())
}

/// Adds a note about processes the command left running.
pub(crate) fn left(end: &JobEnd, id: &str, output: &mut Output) {
    const SHOWN: usize = 5;
    let count = end.left.len();
    let shown: Vec<String> =
        end.left.iter().take(SHOWN).map(|it| format!("pid {}: {}", it.id.pid, it.command)).collect();
    let more = if SHOWN < count { format!(" and {} more", count - SHOWN) } else { String::new() };
    let (noun, it) = if count == 1 { ("process", "it") } else { ("processes", "they") };
    output.notes.push(format!(
        "{count} background {noun} still running ({}{more}); {it} will end with the session. TaskStop {id} ends {} now, TaskOutput {id} shows new output",
        shown.join("; "),
        if count == 1 { "it" } else { "them" },
    ));
    output.left_running =
        end.left.iter().map(|it| Left { pid: it.id.pid, command: it.command.clone() }).collect();
}

/// Adds notes about accesses the sandbox blocked, to distinguish them from the command's own errors.
pub(crate) fn blocked(job: &Job, end: &JobEnd, cwd: &Path, output: &mut Output) {
    if job.spec().reading.is_some() {
        behind_reading_walls(end, output);
    }
    let Some(walls) = &job.spec().confinement else { return };
    output.blocked = end.violations.clone();
    output.blocked.extend(haft_shell::sandbox::blocked(walls.policy(), cwd, &output.stdout));
    if output.blocked.is_empty() {
        return;
    }
    let lines = output.blocked.iter().map(|line| format!("blocked by sandbox: {line}"));
    output.notes.extend(lines);
    output.notes.push(String::from(
        "that was the sandbox, not the program; if it has to be, ask to run it outside with dangerouslyDisableSandbox",
    ));
}

/// Adds a note for a command that was assumed to be read-only and was blocked by the sandbox that
/// enforces it.
fn behind_reading_walls(end: &JobEnd, output: &mut Output) {
    let refusals = ["Permission denied", "Operation not permitted"];
    let met = refusals.iter().any(|it| output.stdout.contains(it));
    if met && !end.is_success() {
        output.notes.push(String::from(
            "it was let run because it only reads, so it could not write, connect, or start programs of the workspace; if it has to, ask to run it outside with dangerouslyDisableSandbox",
        ));
    }
}

/// Formats the result for the model.
pub(crate) fn content(output: &Output) -> Content {
    if output.is_image
        && let Some((head, data)) = output.stdout.split_once(";base64,")
    {
        let kind = head.trim_start_matches("data:");
        return Content(vec![Block::image(kind, data), Block::text(footer(output))]);
    }
    Content::text(text(output))
}

fn text(output: &Output) -> String {
    let body = output.stdout.trim_end_matches('\n');
    let mut text = String::new();
    if !body.trim().is_empty() {
        text.push_str(body);
        text.push('\n');
    } else if output.background_task_id.is_none() {
        text.push_str("(no output)\n");
    }
    text.push_str(&footer(output));
    text
}

fn footer(output: &Output) -> String {
    let mut lines: Vec<String> = output.notes.iter().map(|note| format!("[{note}]")).collect();
    lines.push(format!("[cwd: {}]", output.cwd.display()));
    lines.join("\n")
}

/// Builds the error for a command that failed.
pub(crate) fn failure(
    end: &JobEnd,
    limit: Duration,
    mut output: Output,
    unattended: Option<InteractiveHint>,
) -> ToolError {
    let (kind, first) = match (&end.stopped, &end.exit) {
        (Some(Stop::TimedOut), _) => {
            (ErrorKind::TimedOut, format!("Command timed out after {}", words(limit)))
        }
        (_, Exit::Code(code)) if end.stopped.is_none() => (ErrorKind::Failed, format!("Exit code {code}")),
        (_, Exit::NotStarted(why)) => (ErrorKind::Failed, format!("The command could not be started: {why}")),
        _ => (ErrorKind::Failed, sentence(&end.describe())),
    };
    if output.timed_out {
        let took = words(Duration::from_millis(output.duration_ms));
        output.notes.push(format!(
            "timed_out: true, it was stopped after {took} with everything it had started; give it a longer timeout, or run_in_background"
        ));
    }
    if let Some(hint) = hint(end, &output.stdout, unattended) {
        output.notes.push(hint);
    }
    let message = format!("{first}\n{}", text(&output));
    let data = serde_json::to_value(&output).unwrap_or_default();
    ToolError::new(kind, message).with_data(data)
}

fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Formats a duration such as `2m 0s`.
pub(crate) fn words(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        0 => format!("{millis}ms"),
        1..60 if millis == 0 => format!("{seconds}s"),
        1..60 => format!("{seconds}.{}s", millis / 100),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Messages of programs that wanted to prompt the user.
const ASKED: [&str; 18] = [
    "a terminal is required",
    "aborting commit due to empty commit message",
    "cannot perform an interactive login",
    "could not read password",
    "could not read username",
    "/dev/tty: no such device",
    "eof when reading a line",
    "failed tty get",
    "getpasswarning",
    "host key verification failed",
    "inappropriate ioctl for device",
    "input is not a terminal",
    "is not a terminal",
    "must be run from a terminal",
    "no terminal",
    "no tty present",
    "not a tty",
    "terminal prompts disabled",
];

fn hint(end: &JobEnd, printed: &str, unattended: Option<InteractiveHint>) -> Option<String> {
    let tail = haft_types::text::tail(printed, 2_000).to_lowercase();
    let asked = ASKED.iter().any(|words| tail.contains(words)) || is_question(printed);
    let wanted = end.stopped == Some(Stop::WantsTerminal) || asked;
    let silent = end.stopped.is_none() && printed.trim().is_empty();
    let instead = match unattended {
        Some(it) if wanted || silent => it.instead,
        _ if wanted => {
            "give the answer as a flag (-y, -m, --no-input, --batch and the like), in a variable, or through a pipe"
        }
        _ => return None,
    };
    Some(format!("{NOBODY}: {instead}; or run it with interactive: true and answer with TaskInput"))
}

/// Why programs that prompt behave differently.
const NOBODY: &str = "commands have no terminal and no input";

/// Returns the hint for a command that succeeded but would have prompted an interactive user.
pub(crate) fn unattended(printed: &str, unattended: Option<InteractiveHint>) -> Option<String> {
    let it = unattended?;
    let worth = match it.when {
        Said::Failed => false,
        Said::Silent => printed.trim().is_empty(),
        Said::Always => true,
    };
    worth.then(|| format!("{NOBODY}: {}", it.instead))
}

/// Whether the last line of the output looks like a prompt.
fn is_question(printed: &str) -> bool {
    let last = printed.rsplit('\n').next().unwrap_or_default();
    !last.trim().is_empty() && [": ", "? ", ") ", "] ", "> "].iter().any(|end| last.ends_with(end))
}

/// Returns the note for a command that continues in the background.
pub(crate) fn goes_on(id: &str, file: Option<&PathBuf>) -> String {
    let place = file.map(|path| format!(" and goes to {}", path.display())).unwrap_or_default();
    format!(
        "its task id is {id}; its output is shown by TaskOutput{place}; TaskStop ends it; you are told when it ends"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_in_two_units() {
        for (millis, want) in
            [(5, "5ms"), (1_000, "1s"), (1_500, "1.5s"), (120_000, "2m 0s"), (3_700_000, "1h 1m")]
        {
            assert_eq!(words(Duration::from_millis(millis)), want);
        }
    }
}
