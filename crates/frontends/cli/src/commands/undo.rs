//! `haft undo | redo | history | diff`: shows what tools changed, and undoes it.

use std::{collections::HashSet, io::IsTerminal as _, path::Path, process::ExitCode, time::Duration};

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes, print_line},
    style,
};
use haft_session::{history_json, open_hosts, redo_change, undo_change, undo_json};
use haft_tool::{LineStyle, Rendered, RenderedLine};
use haft_tool_host::protocol::HostCommand;
use haft_workspace::{
    EntryState, FileChange, FileState, HistoryItem, Journal, JournalEntry, Workspace, exact_patch, patch,
    text::Text,
};
use serde_json::{Value, json};

use crate::run::session_spec;

pub(crate) fn undo(id: Option<String>, turn: bool, options: &GlobalArgs) -> CommandExit {
    let done = if options.host.is_empty() {
        undo_json(&undo_change(&*session_spec::premises(options)?, id, turn)?)
    } else {
        on_host(HostCommand::Undo { id, turn }, options)?
    };
    told(&done, "restored", options)
}

pub(crate) fn redo(options: &GlobalArgs) -> CommandExit {
    let done = if options.host.is_empty() {
        undo_json(&redo_change(&*session_spec::premises(options)?)?)
    } else {
        on_host(HostCommand::Redo, options)?
    };
    told(&done, "brought back", options)
}

/// Runs the command on the host of `--host`, where the journal of changes is. An error with several
/// hosts.
fn on_host(order: HostCommand, options: &GlobalArgs) -> Result<Value, CliError> {
    if 1 < options.host.len() {
        return Err(CliError::Message(String::from(
            "--host: name the one machine on which it is to be done",
        )));
    }
    let (premises, spec) = (session_spec::premises(options)?, session_spec::of_options(options)?);
    let hosts = open_hosts(&premises, &spec)?;
    session_spec::runtime()?.block_on(async {
        let outcome = hosts.order(order).await.pop();
        hosts.close().await;
        let (name, outcome) = outcome.ok_or_else(|| String::from("there is no host"))?;
        outcome.map_err(|why| CliError::Message(format!("host {name}: {why}")))
    })
}

fn items(workspace: &Workspace) -> Result<Vec<HistoryItem>, CliError> {
    Ok(workspace.history().map_err(|err| err.to_string())?)
}

fn told(done: &Value, verb: &str, options: &GlobalArgs) -> CommandExit {
    let list = |name: &str| done[name].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conflicts = list("conflicts");
    if options.json {
        print_line(&done.to_string())?;
    } else {
        let restored = list("restored").iter().map(text).collect::<Vec<String>>();
        let removed: HashSet<String> = list("removed").iter().map(text).collect();
        let restored = restored.into_iter().map(|path| {
            if removed.contains(&path) {
                RenderedLine::new(LineStyle::Removed, format!("removed {path}"))
            } else {
                RenderedLine::new(LineStyle::Added, format!("{verb} {path}"))
            }
        });
        let kept = conflicts.iter().map(|it| {
            RenderedLine::new(
                LineStyle::Error,
                format!("left alone {}: {}", text(&it["path"]), text(&it["reason"])),
            )
        });
        let untied = list("untied");
        let untied = untied.iter().map(|it| {
            let text = format!("{} is no longer one file with its other hard links", text(it));
            RenderedLine::new(LineStyle::Dim, text)
        });
        let commits = list("commits");
        let commits = commits
            .iter()
            .map(|it| RenderedLine::new(LineStyle::Dim, format!("the commit stays: {}", text(it))));
        let nothing = list("restored").is_empty() && conflicts.is_empty();
        let nothing = nothing.then(|| {
            RenderedLine::new(LineStyle::Dim, "nothing to do: the files are already as they were".to_owned())
        });
        let lines = nothing.into_iter().chain(restored).chain(kept).chain(untied).chain(commits).collect();
        let rendered = Rendered { lines, ..Rendered::default() };
        print_bytes(style::text(&rendered, style::colours()).as_bytes())?;
    }
    Ok(if conflicts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn history(options: &GlobalArgs) -> CommandExit {
    let items = if options.host.is_empty() {
        history_json(&*session_spec::premises(options)?)?
    } else {
        on_host(HostCommand::History, options)?
    };
    let items = items.as_array().cloned().unwrap_or_default();
    let mut out = String::new();
    for item in &items {
        out.push_str(&if options.json { item.to_string() } else { line(item) });
        out.push('\n');
    }
    if items.is_empty() && !options.json {
        out.push_str("No tool has changed anything here.\n");
    }
    print_bytes(out.as_bytes())
}

/// A path in the journal: text, or an array of bytes if it is not UTF-8.
fn path_text(path: &Value) -> String {
    let bytes = || -> Option<Vec<u8>> {
        let bytes = path["bytes"].as_array()?.iter();
        bytes.map(|it| u8::try_from(it.as_u64()?).ok()).collect()
    };
    match (path.as_str(), bytes()) {
        (Some(text), _) => text.to_owned(),
        (None, bytes) => String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned(),
    }
}

fn line(item: &Value) -> String {
    let changes = item["changes"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let paths: Vec<String> = changes.iter().take(3).map(|change| path_text(&change["path"])).collect();
    let more = changes.len().saturating_sub(3);
    let more = if 0 < more { format!(" and {more} more") } else { String::new() };
    let head = style::painted(&text(&item["id"]), "1", style::colours());
    let (time, standing) = (age(item["time"].as_u64().unwrap_or_default()), text(&item["standing"]));
    let text = format!("{time}  {standing:9}  {} {}{more}", text(&item["tool"]), paths.join(", "));
    format!("{head}  {}", style::clean(&text))
}

/// The age of a timestamp (milliseconds since 1970) in its largest unit, for example "3 h ago".
fn age(time: u64) -> String {
    let then = std::time::UNIX_EPOCH + Duration::from_millis(time);
    let seconds = then.elapsed().unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds:>3} s ago"),
        60..3_600 => format!("{:>3} m ago", seconds / 60),
        3_600..86_400 => format!("{:>3} h ago", seconds / 3_600),
        _ => format!("{:>3} d ago", seconds / 86_400),
    }
}

pub(crate) fn diff(id: Option<&str>, options: &GlobalArgs) -> CommandExit {
    let workspace = session_spec::premises(options)?.workspace()?;
    let items = items(&workspace)?;
    let named = |item: &&HistoryItem| match id {
        None => item.standing == EntryState::InEffect,
        Some(id) => item.entry.id.as_str() == id || &*item.entry.origin.call == id,
    };
    let Some(item) = items.iter().find(named) else {
        return Err(CliError::Message(String::from("there is no such change; see `haft history`")));
    };
    let journal = workspace.journal()?;
    if options.json {
        return json_diff(journal, &item.entry);
    }
    let root = workspace.root();
    let lines: Vec<RenderedLine> =
        item.entry.changes.iter().flat_map(|change| patch_lines(journal, root, change)).collect();
    if !std::io::stdout().is_terminal() {
        // Without styles or replaced characters: `git apply` reads it byte for byte.
        let patch: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
        return print_bytes(patch.as_bytes());
    }
    let rendered = Rendered { lines, ..Rendered::default() };
    print_bytes(style::text(&rendered, style::colours()).as_bytes())
}

/// Prints the diff of an entry as JSON.
fn json_diff(journal: &Journal, entry: &JournalEntry) -> CommandExit {
    let changes: Vec<Value> = entry
        .changes
        .iter()
        .map(|change| {
            let hunks = text(journal, &change.before)
                .zip(text(journal, &change.after))
                .map(|(before, after)| patch(&before, &after));
            json!({"path": change.path.to_string_lossy(), "before": change.before, "after": change.after, "structuredPatch": hunks})
        })
        .collect();
    let origin = &entry.origin;
    print_line(
        &json!({"id": entry.id, "call": origin.call, "tool": origin.tool, "changes": changes}).to_string(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Formats a change for `git apply` and `patch -p1`. A change of a binary file is named in a remark and
/// left out.
fn patch_lines(journal: &Journal, root: &Path, change: &FileChange) -> Vec<RenderedLine> {
    let (before, after) = (&change.before, &change.after);
    let (Some(old), Some(new)) = (git_mode(before), git_mode(after)) else {
        // Patches do not contain directories; they follow from the files in them.
        return Vec::new();
    };
    let name = shown_name(change.path.strip_prefix(root).unwrap_or(&change.path));
    let side = |mode: &str, letter: char| {
        if mode.is_empty() { String::from("/dev/null") } else { quoted_name(&format!("{letter}/{name}")) }
    };
    let (a, b) = (quoted_name(&format!("a/{name}")), quoted_name(&format!("b/{name}")));
    let mut lines = vec![RenderedLine::new(LineStyle::Dim, format!("diff --git {a} {b}"))];
    let head = |text: String| RenderedLine::new(LineStyle::Dim, text);
    match (old.as_str(), new.as_str()) {
        ("", new) => lines.push(head(format!("new file mode {new}"))),
        (old, "") => lines.push(head(format!("deleted file mode {old}"))),
        (old, new) if old != new => {
            lines.extend([head(format!("old mode {old}")), head(format!("new mode {new}"))]);
        }
        _ => (),
    }
    let hunks = match (text(journal, before), text(journal, after)) {
        (Some(before), Some(after)) => exact_patch(&before, &after),
        _ => {
            let (a, b) = (side(&old, 'a'), side(&new, 'b'));
            lines.push(head(format!("Binary files {a} and {b} differ")));
            return lines;
        }
    };
    if !hunks.is_empty() {
        lines.push(RenderedLine::new(LineStyle::Removed, format!("--- {}", side(&old, 'a'))));
        lines.push(RenderedLine::new(LineStyle::Added, format!("+++ {}", side(&new, 'b'))));
    }
    for hunk in hunks {
        lines.push(RenderedLine::new(LineStyle::Hunk, hunk_head(&hunk)));
        lines.extend(hunk.lines.iter().map(|line| match line.chars().next() {
            Some('+') => RenderedLine::new(LineStyle::Added, line.as_str()),
            Some('-') => RenderedLine::new(LineStyle::Removed, line.as_str()),
            _ => RenderedLine::new(LineStyle::Plain, line.as_str()),
        }));
    }
    lines
}

fn hunk_head(hunk: &haft_workspace::Hunk) -> String {
    format!("@@ -{},{} +{},{} @@", hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines)
}

/// The file mode in git's notation; empty for an absent file, `None` for a directory (git does not track
/// them).
fn git_mode(state: &FileState) -> Option<String> {
    match state {
        FileState::Absent => Some(String::new()),
        FileState::File { mode, .. } => Some(format!("100{}", if mode & 0o111 == 0 { "644" } else { "755" })),
        FileState::Symlink { .. } => Some(String::from("120000")),
        FileState::Directory { .. } => None,
    }
}

fn shown_name(path: &Path) -> String {
    path.strip_prefix("/").unwrap_or(path).display().to_string()
}

/// The path as git writes it in patches: quoted if it contains special characters.
fn quoted_name(name: &str) -> String {
    if !name.contains(['"', '\\']) && !name.chars().any(char::is_control) {
        return name.to_owned();
    }
    format!("{name:?}")
}

fn text(journal: &Journal, state: &FileState) -> Option<String> {
    match state {
        FileState::Absent => Some(String::new()),
        FileState::File { hash, .. } => {
            let text = Text::decode(journal.content(hash).ok()?).ok()?;
            Some(text.literal(&text.raw()[text.encoding().bom_bytes().len()..]))
        }
        FileState::Symlink { target } => Some(target.display().to_string()),
        FileState::Directory { .. } => None,
    }
}
