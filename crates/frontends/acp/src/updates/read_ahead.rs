//! Reads a log on one thread while another one processes it.

use std::{
    io,
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use haft_agent::log::{LogEntry, read_shown};
use haft_types::{Block, MediaSource, MessageBlock};
use serde_json::Value;

/// Minimum bytes of a log for which a thread is worthwhile.
const WORTH_A_THREAD: u64 = 256 << 10;

/// Maximum entries per batch, and bytes of their content.
const MAX_ENTRIES: usize = 64;
const MAX_BYTES: usize = 64 << 10;

/// Maximum queued batches, so that a long log is not buffered in memory.
const WAITING_BATCHES: usize = 2;

/// Calls `each` with the displayable entries of a log, in order. Blocks.
pub(super) fn read_ahead(path: &Path, mut each: impl FnMut(LogEntry)) -> io::Result<()> {
    if path.metadata()?.len() < WORTH_A_THREAD {
        return read_shown(path, each).map(drop);
    }
    thread::scope(|scope| {
        let (sender, batches) = sync_channel(WAITING_BATCHES);
        let reader = thread::Builder::new().name(String::from("haft-log"));
        match reader.spawn_scoped(scope, move || read_batches(path, sender)) {
            Ok(reader) => {
                take_batches(&batches, &mut each);
                // Propagate a panic of the reader.
                reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            Err(_) => read_shown(path, each).map(drop),
        }
    })
}

fn take_batches(batches: &Receiver<Vec<LogEntry>>, each: &mut impl FnMut(LogEntry)) {
    for batch in batches {
        batch.into_iter().for_each(&mut *each);
    }
}

fn read_batches(path: &Path, sender: SyncSender<Vec<LogEntry>>) -> io::Result<()> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    // If the consumer panicked, sending fails and the rest is dropped.
    let read = read_shown(path, |entry| {
        bytes += bytes_of(&entry);
        batch.push(entry);
        if MAX_ENTRIES <= batch.len() || MAX_BYTES <= bytes {
            bytes = 0;
            let room = Vec::with_capacity(MAX_ENTRIES);
            sender.send(std::mem::replace(&mut batch, room)).ok();
        }
    });
    sender.send(batch).ok();
    read.map(drop)
}

/// Estimates the bytes of an entry.
fn bytes_of(entry: &LogEntry) -> usize {
    match entry {
        LogEntry::User(line) | LogEntry::Assistant(line) => {
            let blocks = line.message.message.content.iter().map(bytes_of_block).sum::<usize>();
            blocks + line.tool_use_result.as_ref().map_or(0, bytes_of_value)
        }
        LogEntry::Attachment(line) => bytes_of_value(&line.attachment),
        LogEntry::System(_) | LogEntry::Haft(_) | LogEntry::CustomTitle { .. } => 0,
    }
}

fn bytes_of_block(block: &MessageBlock) -> usize {
    match block {
        MessageBlock::Text { text } => text.len(),
        MessageBlock::Thinking { thinking, .. } => thinking.len(),
        MessageBlock::Image { source } | MessageBlock::Document { source, .. } => bytes_of_media(source),
        MessageBlock::ToolUse(call) => bytes_of_value(&call.input),
        MessageBlock::ToolResult { content, .. } => {
            let blocks = content.0.iter().map(|it| match it {
                Block::Text { text } => text.len(),
                Block::Image { source } | Block::Document { source, .. } => bytes_of_media(source),
                Block::ToolReference { tool_name } => tool_name.len(),
            });
            blocks.sum()
        }
        _ => MAX_BYTES / 8,
    }
}

fn bytes_of_media(source: &MediaSource) -> usize {
    match source {
        MediaSource::Base64 { data, .. } => data.len(),
        MediaSource::Url { url } => url.len(),
    }
}

fn bytes_of_value(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(bytes_of_value).sum(),
        Value::Object(map) => map.values().map(bytes_of_value).sum(),
    }
}
