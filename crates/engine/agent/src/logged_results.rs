//! Tool results in the log and in a compacted conversation.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haft_types::{CallId, Content, Message, MessageBlock, text};
use serde_json::Value;

/// Shortens long texts of a structured result. The message contains them already.
pub(crate) fn shorten_texts(value: &mut Value) {
    const LONG: usize = 1_000;
    match value {
        Value::String(long) if LONG < long.len() => {
            let (all, head) = (long.chars().count(), text::head(long, 200));
            *long = format!("{head}… [{all} characters]");
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_texts),
        Value::Object(fields) => fields.values_mut().for_each(shorten_texts),
        _ => (),
    }
}

/// Ids of the results that are identical before and after.
pub(crate) fn unchanged_results(before: &[Arc<Message>], after: &[Message]) -> HashSet<CallId> {
    fn results<'a>(
        content: impl Iterator<Item = &'a MessageBlock>,
    ) -> impl Iterator<Item = (&'a CallId, &'a Content)> {
        content.filter_map(|block| match block {
            MessageBlock::ToolResult { tool_use_id, content, .. } => Some((tool_use_id, content)),
            _ => None,
        })
    }
    let old: HashMap<_, _> = results(before.iter().flat_map(|message| &message.content)).collect();
    let new = results(after.iter().flat_map(|message| &message.content));
    new.filter(|(id, content)| old.get(id) == Some(content)).map(|(id, _)| id.clone()).collect()
}
