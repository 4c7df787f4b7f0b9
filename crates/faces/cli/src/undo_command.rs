//! `haft undo | redo | history | diff`: what tools changed, and taking it back.

use std::{process::ExitCode, time::Duration};

use haft_session::Premises;
use haft_tool::{Line, LineStyle, Rendered};
use haft_workspace::{
    Entry, EntryId, FileChange, FileState, HistoryItem, Journal, Origin, Standing, TurnId, UndoReport,
    UndoTarget, Workspace, patch, text::Text,
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
        Some(id) if turn => UndoTarget::Turn(TurnId::new(id)),
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
        let restored = report
            .restored
            .iter()
            .map(|path| Line::new(LineStyle::Added, format!("{verb} {}", path.display())));
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
    let journal = workspace.journal().map_err(str::to_owned)?;
    if options.json {
        return json_diff(journal, &item.entry);
    }
    let lines = item.entry.changes.iter().flat_map(|change| change_lines(journal, change)).collect();
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

fn change_lines(journal: &Journal, change: &FileChange) -> Vec<Line> {
    let mut lines = vec![
        Line::new(LineStyle::Removed, format!("--- {}", place(change, &change.before))),
        Line::new(LineStyle::Added, format!("+++ {}", place(change, &change.after))),
    ];
    match (text(journal, &change.before), text(journal, &change.after)) {
        (Some(before), Some(after)) => {
            for hunk in patch(&before, &after) {
                lines.push(Line::new(LineStyle::Hunk, hunk_head(&hunk)));
                lines.extend(hunk.lines.iter().map(|line| match line.chars().next() {
                    Some('+') => Line::new(LineStyle::Added, line.as_str()),
                    Some('-') => Line::new(LineStyle::Removed, line.as_str()),
                    _ => Line::new(LineStyle::Plain, line.as_str()),
                }));
            }
        }
        _ => lines.push(Line::new(LineStyle::Dim, "(no text, or no longer kept)")),
    }
    lines
}

fn hunk_head(hunk: &haft_workspace::Hunk) -> String {
    format!("@@ -{},{} +{},{} @@", hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines)
}

fn place(change: &FileChange, state: &FileState) -> String {
    match state {
        FileState::Absent => String::from("/dev/null"),
        FileState::File { mode, .. } => format!("{} (mode {mode:o})", change.path.display()),
        FileState::Symlink { target } => format!("{} -> {}", change.path.display(), target.display()),
        FileState::Directory { .. } => format!("{}/", change.path.display()),
    }
}

fn text(journal: &Journal, state: &FileState) -> Option<String> {
    match state {
        FileState::Absent => Some(String::new()),
        FileState::File { hash, .. } => {
            let text = Text::decode(journal.content(hash).ok()?).ok()?;
            Some(text.literal(&text.raw()[text.encoding().bom_bytes().len()..]))
        }
        FileState::Symlink { .. } | FileState::Directory { .. } => None,
    }
}
