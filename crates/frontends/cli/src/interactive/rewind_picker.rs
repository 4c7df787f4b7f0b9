//! Rewinding to an earlier prompt: the files, the conversation, or both.

use std::path::Path;

use haft_session::{Command, EventStream, LogStart, RewindReport, SessionHandle};
use haft_tool::RenderedLine;
use haft_tui::{PickerRow, UiUpdate};
use haft_types::text;
use serde_json::Value;

use super::{InteractiveSession, UpdateSink, log_of};

/// Shows the user's prompts with the files changed since each.
pub(super) async fn pick(face: &InteractiveSession, handle: &SessionHandle, news: &UpdateSink) {
    if face.said.is_empty() {
        return news.tell(UiUpdate::Notice(String::from("there is nothing to go back to yet")));
    }
    let now = PickerRow {
        id: String::from("now"),
        title: String::from("(stay here)"),
        detail: String::from("nothing changes"),
        preview: Vec::new(),
    };
    let mut rows = vec![now];
    for (uuid, words) in face.said.iter().rev() {
        let prompt = uuid.clone();
        let looked = handle.ask(|reply| Command::Rewind { prompt, dry_run: true, reply }).await;
        let detail = match looked {
            Some(Ok(RewindReport::Preview { files, insertions, deletions, .. })) if !files.is_empty() => {
                let names: Vec<String> = files.iter().take(3).map(|it| shown(face, it)).collect();
                let more =
                    if 3 < files.len() { format!(" and {} more", files.len() - 3) } else { String::new() };
                format!("{}{more} · +{insertions} -{deletions}", names.join(", "))
            }
            Some(Ok(_)) => String::from("no files"),
            Some(Err(why)) => text::one_line(&why, 80),
            None => String::new(),
        };
        rows.push(PickerRow {
            id: uuid.clone(),
            title: text::one_line(words, 100),
            detail,
            preview: Vec::new(),
        });
    }
    let (purpose, title) = (String::from("rewind"), String::from("Go back to before"));
    news.tell(UiUpdate::Pick { purpose, title, rows, previewed: true });
}

/// Shows the diff that a rewind to this prompt would apply. Changes nothing.
pub(super) async fn preview(handle: &SessionHandle, id: String, news: &UpdateSink) {
    let prompt = id.clone();
    let looked = handle.ask(|reply| Command::Rewind { prompt, dry_run: true, reply }).await;
    let Some(Ok(RewindReport::Preview { patch, .. })) = looked else { return };
    let lines = patch
        .iter()
        .map(|line| RenderedLine::new(super::slash_commands::style_of(line), line.as_str()))
        .collect();
    news.tell(UiUpdate::Preview { id, lines });
}

fn shown(face: &InteractiveSession, path: &Path) -> String {
    path.strip_prefix(&face.spec.place.cwd).unwrap_or(path).display().to_string()
}

/// Asks whether to rewind files, conversation or both.
pub(super) fn ask_how(face: &InteractiveSession, id: &str, news: &UpdateSink) {
    if id == "now" || !face.said.iter().any(|it| it.0 == id) {
        return;
    }
    let row = |how: &str, title: &str, detail: &str| PickerRow {
        id: format!("{how} {id}"),
        title: title.to_owned(),
        detail: detail.to_owned(),
        preview: Vec::new(),
    };
    let rows = vec![
        row("stay", "(stay here)", "nothing changes"),
        row("both", "files and talk", "the old session is kept"),
        row("talk", "talk only", "files stay as they are; the old session is kept"),
        row("files", "files only", "the conversation goes on; haft redo brings them back"),
    ];
    let (purpose, title) = (String::from("rewind-how"), String::from("What goes back"));
    news.tell(UiUpdate::Pick { purpose, title, rows, previewed: false });
}

/// Performs the rewind. A rewound conversation continues in a fork of the session; its event stream is
/// returned.
pub(super) async fn go_back(
    face: &mut InteractiveSession,
    choice: &str,
    news: &UpdateSink,
) -> Option<EventStream> {
    let (how, prompt) = choice.split_once(' ')?;
    let handle = face.handle.clone()?;
    if how == "both" || how == "files" {
        let name = prompt.to_owned();
        let done = handle.ask(|reply| Command::Rewind { prompt: name, dry_run: false, reply }).await;
        match done {
            Some(Ok(RewindReport::Done(kept))) if kept.is_empty() => {
                news.tell(UiUpdate::Notice(String::from("files are as they were then")));
            }
            Some(Ok(RewindReport::Done(kept))) => {
                news.tell(UiUpdate::Notice(format!("left as they are:\n{}", kept.join("\n"))));
            }
            Some(Err(why)) => {
                news.tell(UiUpdate::Notice(why));
                return None;
            }
            _ => (),
        }
    }
    if how != "both" && how != "talk" {
        return None;
    }
    let at = face.said.iter().position(|it| it.0 == prompt)?;
    let words = face.said[at].1.clone();
    let before = log_of(&handle).and_then(|log| line_before(&log, prompt));
    let id = handle.id().to_string();
    face.handle = None;
    handle.close().await;
    face.said.truncate(at);
    face.questions.clear();
    let log = &mut face.spec.log;
    log.id = None;
    (log.start, log.fork, log.until) = match before {
        Some(line) => (LogStart::Session(id), true, Some(line)),
        None => (LogStart::New, false, None),
    };
    news.tell(UiUpdate::Notice(String::from("back to before that message; it is the draft now")));
    let opened = face.open(news).await;
    // The spec is reused for later forks, and this cut-off is only for this one.
    face.spec.log.until = None;
    news.tell(UiUpdate::Draft(words));
    opened
}

/// Returns the id of the log entry before the prompt (its parent). Reads the whole log; blocks.
fn line_before(log: &Path, prompt: &str) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    let line = text.lines().filter(|line| line.contains(prompt)).find_map(|line| {
        let value: Value = serde_json::from_str(line).ok()?;
        (value["uuid"] == prompt).then_some(value)
    })?;
    line["parentUuid"].as_str().map(str::to_owned)
}
