//! Texts and pictures, as the protocol spells them.

use std::borrow::Cow;

use haft_types::{Block, Content, MediaSource, MessageBlock, text};
use serde_json::json;

use super::update::{CallContent, ContentBlock};

/// Longest text of one result, in bytes: editors freeze on more.
const MAX_TEXT_BYTES: usize = 200_000;

/// Longest picture, in bytes of base64.
const MAX_PICTURE_BYTES: usize = 700_000;

/// A text, cut where it is too long.
pub(crate) fn text_block<'a>(words: impl Into<Cow<'a, str>>) -> ContentBlock<'a> {
    let words = words.into();
    let shortened = cut(&words).map(|cut| format!("{cut}\n[cut: {} bytes in all]", words.len()));
    ContentBlock::Text { text: shortened.map_or(words, Cow::Owned) }
}

/// The beginning of a text that is too long; nothing of one that is not.
fn cut(words: &str) -> Option<&str> {
    // Most are short: those are not counted.
    let cut = (MAX_TEXT_BYTES < words.len()).then(|| text::head(words, MAX_TEXT_BYTES / 4))?;
    (cut.len() < words.len()).then_some(cut)
}

fn media<'a>(source: &MediaSource, what: &str) -> ContentBlock<'a> {
    match source {
        MediaSource::Base64 { media_type, data }
            if data.len() <= MAX_PICTURE_BYTES && media_type.starts_with("image/") =>
        {
            ContentBlock::Other(json!({"type": "image", "mimeType": media_type, "data": data}))
        }
        MediaSource::Base64 { media_type, data } => {
            text_block(format!("[{what} ({media_type}) of {} bytes of base64 left out]", data.len()))
        }
        MediaSource::Url { url } => {
            ContentBlock::Other(json!({"type": "resource_link", "name": what, "uri": url}))
        }
    }
}

/// What a message block says, for a chunk; nothing for what is not said.
pub(crate) fn chunk_content(block: &MessageBlock) -> Option<ContentBlock<'_>> {
    match block {
        MessageBlock::Text { text } => Some(text_block(text.as_str())),
        MessageBlock::Image { source } => Some(media(source, "picture")),
        MessageBlock::Document { source, title } => {
            Some(media(source, title.as_deref().unwrap_or("document")))
        }
        _ => None,
    }
}

/// A text as a block of code; the fence is longer than any in it.
pub(crate) fn fenced(words: &str) -> String {
    // Most hold none: those are only looked through.
    let longest = if words.as_bytes().contains(&b'`') {
        words.as_bytes().split(|it| *it != b'`').map(<[u8]>::len).max().unwrap_or(0)
    } else {
        0
    };
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", words.trim_end_matches('\n'))
}

/// A result, block by block. What is no prose is shown as it was printed.
pub(crate) fn of_result(content: &Content, is_printed: bool) -> Vec<CallContent<'_>> {
    let blocks = content.0.iter().map(|block| match block {
        Block::Text { text } if is_printed => match cut(text) {
            None => text_block(fenced(text)),
            Some(cut) => text_block(format!("{}\n[cut: {} bytes in all]", fenced(cut), text.len())),
        },
        Block::Text { text } => text_block(text.as_str()),
        Block::Image { source } => media(source, "picture"),
        Block::Document { source, title } => media(source, title.as_deref().unwrap_or("document")),
        Block::ToolReference { tool_name } => text_block(format!("[{tool_name} is loaded]")),
    });
    blocks.map(|content| CallContent::Content { content }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_longer_than_what_they_hold() {
        for (words, want) in
            [("a\n", "```\na\n```"), ("```\nb\n```", "````\n```\nb\n```\n````"), ("", "```\n\n```")]
        {
            assert_eq!(fenced(words), want);
        }
    }

    #[test]
    fn long_results_are_cut_and_say_so() {
        let long = "x".repeat(10_000_000);
        for is_printed in [true, false] {
            let shown = json!(of_result(&Content::text(long.clone()), is_printed));
            let text = shown[0]["content"]["text"].as_str().unwrap_or_default();
            assert!(text.len() < 256_000 && text.ends_with("[cut: 10000000 bytes in all]"), "{}", text.len());
        }
    }
}
