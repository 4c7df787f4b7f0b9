//! What the person says, as blocks for the model.

use haft_types::{MediaSource, MessageBlock, text};
use serde_json::Value;

use crate::{file_uri_path, jsonrpc::AcpError};

/// Longest text of an embedded resource that is taken whole, in bytes.
const MAX_RESOURCE_BYTES: usize = 400_000;

/// The blocks of a prompt. Links become mentions, which the session reads; what
/// is embedded is shown as it is.
pub(crate) fn read_blocks(prompt: &Value) -> Result<Vec<MessageBlock>, AcpError> {
    let list = prompt.as_array().ok_or_else(|| AcpError::params("`prompt` is a list of blocks"))?;
    let blocks = list.iter().map(read_block).collect::<Result<Vec<_>, _>>()?;
    let joined = join_texts(blocks);
    if joined.is_empty() { Err(AcpError::params("`prompt` says nothing")) } else { Ok(joined) }
}

fn read_block(block: &Value) -> Result<MessageBlock, AcpError> {
    let text = |text: String| MessageBlock::Text { text };
    let field = |name: &str| {
        let found = block[name].as_str().map(str::to_owned);
        found.ok_or_else(|| {
            AcpError::params(format!("a block of the prompt has no `{name}`: {}", shown(block)))
        })
    };
    match block["type"].as_str() {
        Some("text") => Ok(text(field("text")?)),
        Some("image") => {
            let source = MediaSource::Base64 { media_type: field("mimeType")?, data: field("data")? };
            Ok(MessageBlock::Image { source })
        }
        Some("resource_link") => Ok(text(mention(&field("uri")?, block["name"].as_str()))),
        Some("resource") => Ok(text(embedded(&block["resource"])?)),
        Some("audio") => Err(AcpError::params("sound is not understood; promptCapabilities says so")),
        Some(other) => Err(AcpError::params(format!(
            "a block of the prompt is of type `{other}`; text, image, resource_link and resource are known"
        ))),
        None => Err(AcpError::params("a block of the prompt has no `type`")),
    }
}

fn shown(block: &Value) -> String {
    text::one_line(&block.to_string(), 120)
}

/// A link: a file is mentioned the way a person mentions one, so that the session
/// reads it under its rules.
fn mention(uri: &str, name: Option<&str>) -> String {
    match file_uri_path(uri) {
        Some(path) => {
            let path = path.display().to_string();
            if path.contains(char::is_whitespace) { format!("@\"{path}\"") } else { format!("@{path}") }
        }
        None => match name.filter(|it| !it.is_empty()) {
            Some(name) => format!("[{name}]({uri})"),
            None => uri.to_owned(),
        },
    }
}

/// What the editor shows of a resource, with the name it has.
fn embedded(resource: &Value) -> Result<String, AcpError> {
    let uri = resource["uri"].as_str().unwrap_or_default();
    let name = file_uri_path(uri).map_or_else(|| uri.to_owned(), |path| path.display().to_string());
    let Some(content) = resource["text"].as_str() else {
        return Ok(format!("[{name}: not text, so it is only named]"));
    };
    let cut = text::head(content, MAX_RESOURCE_BYTES);
    let note = if cut.len() < content.len() {
        format!("\n[cut: {} bytes in all]", content.len())
    } else {
        String::new()
    };
    Ok(haft_session::as_context(&name, &format!("{cut}{note}")))
}

/// Neighbouring texts are one: a mention belongs to the sentence around it.
fn join_texts(blocks: Vec<MessageBlock>) -> Vec<MessageBlock> {
    let mut joined: Vec<MessageBlock> = Vec::new();
    for block in blocks {
        match (joined.last_mut(), block) {
            (Some(MessageBlock::Text { text: before }), MessageBlock::Text { text }) => {
                let glued = before.ends_with(char::is_whitespace) || text.starts_with(char::is_whitespace);
                if !(glued || before.is_empty()) {
                    before.push(if text.starts_with('<') { '\n' } else { ' ' });
                }
                before.push_str(&text);
            }
            (_, block) => joined.push(block),
        }
    }
    joined.retain(|block| !matches!(block, MessageBlock::Text { text } if text.trim().is_empty()));
    joined
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_block_is_understood_or_refused() {
        let said = |prompt: Value| {
            let blocks = read_blocks(&prompt).map_err(|it| it.message)?;
            serde_json::to_value(blocks).map_err(|it| it.to_string())
        };
        let one = |text: &str| Ok(json!([{"type": "text", "text": text}]));
        for (prompt, want) in [
            (json!([{"type": "text", "text": "hi"}]), one("hi")),
            (
                json!([{"type": "text", "text": "see"}, {"type": "resource_link", "name": "a", "uri": "file:///w/a%20b.rs"}]),
                one("see @\"/w/a b.rs\""),
            ),
            (
                json!([{"type": "resource_link", "name": "site", "uri": "https://x.test/"}]),
                one("[site](https://x.test/)"),
            ),
            (
                json!([{"type": "text", "text": "why"}, {"type": "resource", "resource": {"uri": "file:///w/a.rs", "text": "fn a"}}]),
                one("why\n<context path=\"/w/a.rs\">\nfn a\n</context>"),
            ),
            (
                json!([{"type": "image", "mimeType": "image/png", "data": "AA=="}]),
                Ok(
                    json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]),
                ),
            ),
        ] {
            assert_eq!(said(prompt.clone()), want, "{prompt}");
        }
        for bad in [
            json!([]),
            json!("text"),
            json!([{"type": "text", "text": " "}]),
            json!([{"type": "text"}]),
            json!([{"type": "image", "data": "AA"}]),
            json!([{"type": "audio", "data": "AA", "mimeType": "audio/wav"}]),
            json!([{"type": "later"}]),
        ] {
            assert!(said(bad.clone()).is_err(), "{bad}");
        }
    }
}
