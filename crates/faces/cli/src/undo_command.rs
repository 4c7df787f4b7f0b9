//! `haft undo | redo | history | diff`: what tools changed, and taking it back.

use std::{io::IsTerminal as _, path::Path, process::ExitCode, time::Duration};

use haft_session::Premises;
use haft_tool::{Line, LineStyle, Rendered};
use haft_workspace::{
    Entry, EntryId, FileChange, FileState, HistoryItem, Journal, Origin, Standing, TurnId, UndoReport,
    UndoTarget, Workspace, exact_patch, patch, text::Text,
};
use serde_json::{Value, json};

use crate::{
    args::Options,
    output::{Ended, Failure, print_bytes, print_line},
    show, spec,
};

pub(crate) fn undo(id: Option<String>, turn: bool, options: &Options) -> Ended {
    let premises = spec::premises(options)?;
    let workspace = premises.workspace()?;
    let target = match id {
        None => UndoTarget::Last,
        Some(id) if turn => UndoTarget::Turn(turn_of(&workspace, &id)?),
        Some(id) => target(&workspace, id)?,
    };
    let report = workspace.undo(&target, &origin(&premises, "undo")).map_err(|err| err.to_string())?;
    told(&report, "restored", options)
}

pub(crate) fn redo(options: &Options) -> Ended {
    let premises = spec::premises(options)?;
    let report = premises.workspace()?.redo(&origin(&premises, "redo")).map_err(|err| err.to_string())?;
    told(&report, "brought back", options)
}

/// The turn of this id, or the one that a change or call of this id belongs to.
fn turn_of(workspace: &Workspace, id: &str) -> Result<TurnId, Failure> {
    let items = items(workspace)?;
    let origins = || items.iter().map(|item| (&item.entry.id, &item.entry.origin));
    let turns = || origins().filter_map(|(_, origin)| origin.turn.as_ref());
    if let Some(turn) = turns().find(|turn| turn.as_str() == id) {
        return Ok(turn.clone());
    }
    let named = origins().find(|(entry, origin)| entry.as_str() == id || &*origin.call == id);
    match named.map(|(_, origin)| origin.turn.clone()) {
        Some(Some(turn)) => Ok(turn),
        Some(None) => Err(Failure::Message(format!("the change {id} belongs to no turn; undo it by itself"))),
        None => {
            Err(Failure::Message(format!("no turn, change or call {id} is recorded; see `haft history`")))
        }
    }
}

/// An id is an entry if the journal knows it as one, else a call.
fn target(workspace: &Workspace, id: String) -> Result<UndoTarget, Failure> {
    let entry = EntryId::new(id.as_str());
    let known = items(workspace)?.iter().any(|item| item.entry.id == entry);
    Ok(if known { UndoTarget::Entry(entry) } else { UndoTarget::Call(id.into()) })
}

fn items(workspace: &Workspace) -> Result<Vec<HistoryItem>, Failure> {
    Ok(workspace.history().map_err(|err| err.to_string())?)
}

fn origin(premises: &Premises, tool: &str) -> Origin {
    Origin { session: None, turn: None, call: premises.session_id.as_str().into(), tool: tool.to_owned() }
}

fn told(report: &UndoReport, verb: &str, options: &Options) -> Ended {
    if options.json {
        let conflicts: Vec<Value> =
            report.conflicts.iter().map(|it| json!({"path": it.path, "reason": it.reason})).collect();
        let told = json!({"restored": report.restored, "conflicts": conflicts, "commits": report.commits});
        print_line(&told.to_string())?;
    } else {
        let restored = report.restored.iter().map(|path| match path.symlink_metadata().is_ok() {
            true => Line::new(LineStyle::Added, format!("{verb} {}", path.display())),
            false => Line::new(LineStyle::Removed, format!("removed {}", path.display())),
        });
        let kept = report.conflicts.iter().map(|it| {
            Line::new(LineStyle::Error, format!("left alone {}: {}", it.path.display(), it.reason))
        });
        let commits =
            report.commits.iter().map(|it| Line::new(LineStyle::Dim, format!("the commit stays: {it}")));
        let lines = restored.chain(kept).chain(commits).collect();
        let rendered = Rendered { headline: String::new(), lines };
        print_bytes(show::text(&rendered, show::colours()).as_bytes())?;
    }
    Ok(if report.conflicts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn history(options: &Options) -> Ended {
    let items = items(&spec::premises(options)?.workspace()?)?;
    let mut out = String::new();
    for item in &items {
        out.push_str(&if options.json { json_line(item) } else { line(item) });
        out.push('\n');
    }
    if items.is_empty() && !options.json {
        out.push_str("No tool has changed anything here.\n");
    }
    print_bytes(out.as_bytes())
}

fn json_line(item: &HistoryItem) -> String {
    let mut json = serde_json::to_value(&item.entry).unwrap_or_default();
    json["standing"] = Value::from(standing(item.standing));
    json.to_string()
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::InEffect => "in effect",
        Standing::Undone => "undone",
        Standing::Undo => "undo",
        Standing::Redo => "redo",
    }
}

fn line(item: &HistoryItem) -> String {
    let Entry { id, time, origin, changes, .. } = &item.entry;
    let paths: Vec<String> = changes.iter().take(3).map(|change| change.path.display().to_string()).collect();
    let more = changes.len().saturating_sub(3);
    let more = if 0 < more { format!(" and {more} more") } else { String::new() };
    let head = show::painted(id.as_str(), "1", show::colours());
    let text =
        format!("{}  {:9}  {} {}{more}", age(*time), standing(item.standing), origin.tool, paths.join(", "));
    format!("{head}  {}", show::clean(&text))
}

/// How long ago, in one unit.
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

pub(crate) fn diff(id: Option<&str>, options: &Options) -> Ended {
    let workspace = spec::premises(options)?.workspace()?;
    let items = items(&workspace)?;
    let named = |item: &&HistoryItem| match id {
        None => item.standing == Standing::InEffect,
        Some(id) => item.entry.id.as_str() == id || &*item.entry.origin.call == id,
    };
    let Some(item) = items.iter().find(named) else {
        return Err(Failure::Message(String::from("there is no such change; see `haft history`")));
    };
    let journal = workspace.journal()?;
    if options.json {
        return json_diff(journal, &item.entry);
    }
    let root = workspace.root();
    let lines: Vec<Line> =
        item.entry.changes.iter().flat_map(|change| patch_lines(journal, root, change)).collect();
    if !std::io::stdout().is_terminal() {
        // For a program that applies it, byte by byte.
        let patch: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
        return print_bytes(patch.as_bytes());
    }
    let rendered = Rendered { headline: String::new(), lines };
    print_bytes(show::text(&rendered, show::colours()).as_bytes())
}

/// The same for programs.
fn json_diff(journal: &Journal, entry: &Entry) -> Ended {
    let changes: Vec<Value> = entry
        .changes
        .iter()
        .map(|change| {
            let hunks = text(journal, &change.before)
                .zip(text(journal, &change.after))
                .map(|(before, after)| patch(&before, &after));
            json!({"path": change.path, "before": change.before, "after": change.after, "structuredPatch": hunks})
        })
        .collect();
    let origin = &entry.origin;
    print_line(
        &json!({"id": entry.id, "call": origin.call, "tool": origin.tool, "changes": changes}).to_string(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A change as `git apply` and `patch -p1` take it. What is no text is named and
/// left out.
fn patch_lines(journal: &Journal, root: &Path, change: &FileChange) -> Vec<Line> {
    let (before, after) = (&change.before, &change.after);
    let (Some(old), Some(new)) = (git_mode(before), git_mode(after)) else {
        // Directories are made for what is in them.
        return Vec::new();
    };
    let name = shown_name(change.path.strip_prefix(root).unwrap_or(&change.path));
    let side = |mode: &str, letter: char| match mode.is_empty() {
        true => String::from("/dev/null"),
        false => quoted_name(&format!("{letter}/{name}")),
    };
    let (a, b) = (quoted_name(&format!("a/{name}")), quoted_name(&format!("b/{name}")));
    let mut lines = vec![Line::new(LineStyle::Dim, format!("diff --git {a} {b}"))];
    let head = |text: String| Line::new(LineStyle::Dim, text);
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
        lines.push(Line::new(LineStyle::Removed, format!("--- {}", side(&old, 'a'))));
        lines.push(Line::new(LineStyle::Added, format!("+++ {}", side(&new, 'b'))));
    }
    for hunk in hunks {
        lines.push(Line::new(LineStyle::Hunk, hunk_head(&hunk)));
        lines.extend(hunk.lines.iter().map(|line| match line.chars().next() {
            Some('+') => Line::new(LineStyle::Added, line.as_str()),
            Some('-') => Line::new(LineStyle::Removed, line.as_str()),
            _ => Line::new(LineStyle::Plain, line.as_str()),
        }));
    }
    lines
}

fn hunk_head(hunk: &haft_workspace::Hunk) -> String {
    format!("@@ -{},{} +{},{} @@", hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines)
}

/// How git writes what something is: empty for what is not there, nothing for
/// what it does not keep.
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

/// A name as patches write it: quoted where a reader could misread it.
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
