//! Replays a session from its log.

use std::{io, path::Path};

use haft_agent::log::{ConversationLine, LogEntry, LogState, RequestLine};
use haft_model::Catalog;
use haft_types::{CallId, MessageBlock, Usage};
use serde_json::{Value, json};

use super::{
    command_changes::JournalView,
    diffs,
    read_ahead::read_ahead,
    update::AcpUpdate,
    update_builder::{UpdateBuilder, title_of, usage_update, user_message},
};

/// Start of texts that Haft logs in the user's role after an interruption.
const INTERRUPTION: &str = "[Request interrupted by user";
const REMINDER: &str = "<system-reminder>";

/// Sends everything in a log, in order. Blocks.
pub(crate) fn replay_log(
    path: &Path,
    teller: &mut UpdateBuilder,
    journal: &JournalView,
    catalog: &Catalog,
    mut tell: impl FnMut(AcpUpdate<'_>),
) -> io::Result<()> {
    let mut used: Option<(Usage, u64)> = None;
    let mut usd = None;
    let (mut title, mut first, mut changes) = (None, None, None);
    read_ahead(path, |entry| match entry {
        LogEntry::User(line) if !line.head.is_sidechain => {
            if first.is_none() {
                first = first_words(&line);
            }
            let mut changed = |call: &CallId| changes.get_or_insert_with(|| journal.in_log()).diffs(call);
            user(&line, teller, &mut changed, &mut tell);
        }
        LogEntry::Assistant(line) if !line.head.is_sidechain => {
            let id = line.message.id.as_deref().unwrap_or_default();
            for block in &line.message.message.content {
                teller.block(block, id).into_iter().for_each(&mut tell);
            }
        }
        LogEntry::System(line) if line.subtype == "compact_boundary" && !line.head.is_sidechain => {
            teller.compacted(&line.head.uuid).into_iter().for_each(&mut tell);
        }
        LogEntry::Haft(LogState::Asked(asked)) => note_request(&asked, catalog, &mut used, &mut usd),
        LogEntry::Haft(LogState::Shown(line)) => teller.shown(&line).into_iter().for_each(&mut tell),
        LogEntry::CustomTitle { custom_title, .. } => title = Some(custom_title),
        _ => (),
    })?;
    if let Some(title) = title.or(first) {
        tell(AcpUpdate::Other(json!({"sessionUpdate": "session_info_update", "title": title})));
    }
    if let Some((usage, window)) = used {
        tell(AcpUpdate::Other(usage_update(&usage, window, usd)));
    }
    Ok(())
}

fn note_request(
    asked: &RequestLine,
    catalog: &Catalog,
    used: &mut Option<(Usage, u64)>,
    usd: &mut Option<f64>,
) {
    *used = Some((asked.usage, catalog.get(&asked.model).window));
    if let Some(more) = asked.usd {
        *usd = Some(usd.unwrap_or(0.0) + more);
    }
}

fn user(
    line: &ConversationLine,
    teller: &mut UpdateBuilder,
    changed: &mut dyn FnMut(&CallId) -> Vec<Value>,
    tell: &mut impl FnMut(AcpUpdate<'_>),
) {
    for block in &line.message.message.content {
        match block {
            MessageBlock::ToolResult { tool_use_id, content, is_error } => {
                let data = line.tool_use_result.as_ref();
                let is_cut = !*is_error && data.is_some_and(diffs::is_shortened);
                let changes = if is_cut || runs_command(teller, tool_use_id) {
                    changed(tool_use_id)
                } else {
                    Vec::new()
                };
                let updates = teller.ended(tool_use_id, content, *is_error, data, changes);
                updates.into_iter().for_each(&mut *tell);
            }
            block if !line.is_meta && !is_ours(block, line) => {
                user_message(block, &line.head.uuid).into_iter().for_each(&mut *tell);
            }
            _ => (),
        }
    }
}

/// Whether a call ran a shell command, whose changes are not in its result.
fn runs_command(teller: &UpdateBuilder, call: &CallId) -> bool {
    teller.open_call(call).is_some_and(|look| look.command.is_some())
}

/// Whether a text was inserted by the program in the user's role.
fn is_ours(block: &MessageBlock, line: &ConversationLine) -> bool {
    let is_note = |text: &str| text.starts_with(INTERRUPTION) || text.starts_with(REMINDER);
    line.rest.get("isCompactSummary").is_some_and(|it| it == true)
        || matches!(block, MessageBlock::Text { text } if is_note(text))
}

/// Returns the title of an unnamed session: the first words of the user.
fn first_words(line: &ConversationLine) -> Option<String> {
    let blocks = line.message.message.content.iter().filter(|it| !line.is_meta && !is_ours(it, line));
    let mut words = blocks.filter_map(|it| match it {
        MessageBlock::Text { text } => Some(title_of(text)),
        _ => None,
    });
    words.find(|it| !it.is_empty())
}
