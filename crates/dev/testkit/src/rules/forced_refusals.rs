//! Forced rejections of the script.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::{RuleVerdict, blocks, media, refuse};
use crate::{Script, script::Forced};

/// Number of uses of each forced rejection.
#[derive(Debug, Default)]
pub(crate) struct ForceCounts(Mutex<Vec<usize>>);

impl ForceCounts {
    pub(super) fn check(&self, script: &Script, body: &Value) -> RuleVerdict {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.resize(script.force.len(), 0);
        for (forced, used) in script.force.iter().zip(used.iter_mut()) {
            if forced.times.is_some_and(|times| *used >= times) {
                continue;
            }
            if let Some(path) = place(forced, body) {
                *used += 1;
                return refuse(&path, &forced.message);
            }
        }
        Ok(())
    }
}

/// Returns the path a forced rejection names, if it applies to the request.
fn place(forced: &Forced, body: &Value) -> Option<String> {
    if let Some(index) = forced.media {
        let found = media::all(body);
        let item = found.get(index)?;
        return Some(format!("{}.{}.source.base64.data", item.path, item.kind));
    }
    if forced.thinking {
        return first_thinking(body);
    }
    let text = forced.body_contains.as_ref()?;
    first_block(body, text).or_else(|| body.to_string().contains(text).then(|| "request".to_owned()))
}

fn first_thinking(body: &Value) -> Option<String> {
    each_block(body).find_map(|(path, block)| {
        let is_thinking = block["type"] == "thinking" || block["type"] == "redacted_thinking";
        is_thinking.then_some(path)
    })
}

fn first_block(body: &Value, text: &str) -> Option<String> {
    each_block(body).find_map(|(path, block)| block.to_string().contains(text).then_some(path))
}

fn each_block(body: &Value) -> impl Iterator<Item = (String, &Value)> {
    let messages = body["messages"].as_array().into_iter().flatten().enumerate();
    messages.flat_map(|(at, message)| {
        let list = blocks(&message["content"]).iter().enumerate();
        list.map(move |(index, block)| (format!("messages.{at}.content.{index}"), block))
    })
}
