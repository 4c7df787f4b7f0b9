use base64::{Engine, engine::general_purpose::GeneralPurpose, prelude::BASE64_STANDARD};
use haft_tool::{Block, Content, ErrorKind, Output, Rendering, ToolError};
use haft_types::text;
use serde_json::{Value, json};

use super::{MediaSink, ModelImage};

/// More pictures than this are saved, not shown.
const MAX_PICTURES: usize = 20;

/// An error message is cut to both ends beyond this; all of it is in a file.
const MAX_ERROR_CHARS: usize = 20_000;

/// So much is shown of a result that is not an object.
const MAX_ODD_RESULT_CHARS: usize = 200;

/// Turns the result of `tools/call` into what the model reads. All of it stays
/// in `data`, for hooks and programs.
///
/// A result is an object. Nothing at all is taken for an empty one; anything else
/// is an error, because "no output" would be said of what nobody could read.
pub(crate) async fn shape(result: Value, server: &str, media: &dyn MediaSink) -> Result<Output, ToolError> {
    if !matches!(result, Value::Object(_) | Value::Null) {
        let message = format!(
            "the answer of the server {server} cannot be read: the result of a call is an object, and this is {}",
            text::head(&result.to_string(), MAX_ODD_RESULT_CHARS)
        );
        return Err(ToolError::new(ErrorKind::Failed, message).with_data(result));
    }
    let mut shaping = ResultAdapter { server, media, blocks: Vec::new(), pictures: 0 };
    match result.get("content") {
        Some(Value::Array(items)) => {
            for item in items {
                shaping.item(item).await;
            }
        }
        // Some servers answer with one block, or with bare text.
        Some(Value::String(text)) => shaping.text(text).await,
        Some(item @ Value::Object(_)) => shaping.item(item).await,
        // Very old servers answered `{"toolResult": …}`.
        _ => {
            if let Some(old) = result.get("toolResult").filter(|it| !it.is_null()) {
                shaping.text(&old.as_str().map_or_else(|| pretty(old), str::to_owned)).await;
            }
        }
    }
    let ResultAdapter { mut blocks, .. } = shaping;
    add_structured(&mut blocks, &result["structuredContent"]);
    if result["isError"] == true || result["isError"] == "true" {
        return Err(error(Content(blocks), result, media).await);
    }
    if blocks.is_empty() {
        blocks.push(Block::text("(no output)"));
    }
    let content = Content(blocks);
    let meta = json!({"_meta": result["_meta"], "structuredContent": result["structuredContent"]});
    let shown = content.to_text();
    Ok(Output {
        content,
        data: result,
        new_messages: Vec::new(),
        changes: Vec::new(),
        meta: Some(meta),
        rendering: Rendering::preview_of(shown),
    })
}

/// Structured content is for programs; the model reads it where the text says
/// nothing, or much less.
fn add_structured(blocks: &mut Vec<Block>, structured: &Value) {
    if structured.is_null() {
        return;
    }
    let said: usize = blocks.iter().filter_map(Block::as_text).map(|it| it.trim().len()).sum();
    let shows_something = 0 < said || blocks.iter().any(|it| it.as_text().is_none());
    let is_copy = blocks
        .iter()
        .filter_map(Block::as_text)
        .any(|it| serde_json::from_str::<Value>(it).is_ok_and(|it| it == *structured));
    let text = pretty(structured);
    if !shows_something {
        blocks.clear();
        blocks.push(Block::text(text));
    } else if !is_copy && said * 4 < structured.to_string().len() {
        blocks.push(Block::text(text));
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

async fn error(content: Content, result: Value, media: &dyn MediaSink) -> ToolError {
    let message = content.to_text();
    let message = match message.trim() {
        "" => String::from("the tool failed and did not say why"),
        _ if MAX_ERROR_CHARS < message.chars().count() => {
            let kept = match media.save("text/plain", message.as_bytes()).await {
                Ok(path) => format!("all of it is in {}", path.display()),
                Err(reason) => format!("the rest could not be kept: {reason}"),
            };
            let half = MAX_ERROR_CHARS / 2;
            let (head, tail) = (text::head(&message, half), text::tail(&message, half));
            format!("{head}\n[… cut; {kept} …]\n{tail}")
        }
        _ => message,
    };
    ToolError::new(ErrorKind::Failed, message).with_data(result)
}

/// The contents of `resources/read` as the model reads them.
pub(crate) async fn contents_text(result: &Value, server: &str, media: &dyn MediaSink) -> Content {
    let mut shaping = ResultAdapter { server, media, blocks: Vec::new(), pictures: 0 };
    for item in result["contents"].as_array().into_iter().flatten() {
        shaping.resource(item).await;
    }
    if shaping.blocks.is_empty() {
        shaping.blocks.push(Block::text("(empty)"));
    }
    Content(shaping.blocks)
}

struct ResultAdapter<'a> {
    server: &'a str,
    media: &'a dyn MediaSink,
    blocks: Vec<Block>,
    pictures: usize,
}

impl ResultAdapter<'_> {
    async fn item(&mut self, item: &Value) {
        let field = |name: &str| item[name].as_str();
        match field("type") {
            Some("text") => match &item["text"] {
                Value::String(text) => self.text(text).await,
                other => self.text(&other.to_string()).await,
            },
            Some("image") => {
                self.bytes("image", field("mimeType").unwrap_or("image/png"), field("data")).await;
            }
            Some("audio") => {
                self.bytes("audio", field("mimeType").unwrap_or("audio/wav"), field("data")).await;
            }
            Some("resource") => self.resource(&item["resource"]).await,
            Some("resource_link") => self.link(item),
            None if field("text").is_some() => self.text(field("text").unwrap_or_default()).await,
            _ => {
                let shown = text::head(&item.to_string(), 2000).to_owned();
                self.say(format!("[content of a kind that is not known here: {shown}]"));
            }
        }
    }

    fn say(&mut self, text: String) {
        self.blocks.push(Block::text(text));
    }

    /// Text as it is, unless it is nothing but a picture in disguise.
    async fn text(&mut self, text: &str) {
        if let Some((media_type, data)) = data_uri(text.trim()).filter(|it| decode(it.1).is_some()) {
            self.bytes("data", media_type, Some(data)).await;
        } else if !text.is_empty() {
            self.say(text.to_owned());
        }
    }

    async fn bytes(&mut self, what: &str, media_type: &str, data: Option<&str>) {
        let Some(bytes) = data.and_then(decode) else {
            return self.broken(what, media_type, data.unwrap_or_default()).await;
        };
        let mut why = None;
        if media_type.starts_with("image/") || super::media::picture_type(&bytes).is_some() {
            if self.pictures < MAX_PICTURES {
                match self.media.picture(media_type, &bytes).await {
                    Ok(ModelImage::Whole(block)) => {
                        self.pictures += 1;
                        self.blocks.push(block);
                        return;
                    }
                    Ok(ModelImage::Smaller(block)) => {
                        self.pictures += 1;
                        self.blocks.push(block);
                        why = Some(String::from("shown smaller than it is"));
                    }
                    Err(reason) => why = Some(format!("not shown because {reason}")),
                }
            } else {
                why = Some(format!("not shown because only {MAX_PICTURES} pictures are"));
            }
        }
        let why = why.map(|it| format!(", {it}")).unwrap_or_default();
        let size = bytes.len();
        let note = match self.media.save(media_type, &bytes).await {
            Ok(path) => {
                format!("[{what} of type {media_type}, {size} bytes, saved to {}{why}]", path.display())
            }
            Err(reason) => {
                format!("[{what} of type {media_type}, {size} bytes, could not be saved: {reason}]")
            }
        };
        self.say(note);
    }

    /// What cannot be decoded is kept as it came.
    async fn broken(&mut self, what: &str, media_type: &str, data: &str) {
        let kept = if data.is_empty() {
            String::new()
        } else {
            match self.media.save("text/plain", data.as_bytes()).await {
                Ok(path) => format!("; it is in {} as it came", path.display()),
                Err(reason) => format!("; it could not be saved: {reason}"),
            }
        };
        self.say(format!("[{what} of type {media_type}: its base64 data is broken{kept}]"));
    }

    async fn resource(&mut self, resource: &Value) {
        let uri = resource["uri"].as_str().unwrap_or("(no address)");
        let media_type = resource["mimeType"].as_str().unwrap_or("application/octet-stream");
        match (resource["text"].as_str(), resource["blob"].as_str()) {
            (Some(text), _) => self.say(format!("[resource {uri}]\n{text}")),
            (None, Some(blob)) => self.bytes(&format!("resource {uri}"), media_type, Some(blob)).await,
            (None, None) => self.say(format!("[resource {uri} without content]")),
        }
    }

    fn link(&mut self, item: &Value) {
        let field = |name: &str| item[name].as_str().map(|it| text::one_line(it, 300));
        let uri = item["uri"].as_str().unwrap_or_default();
        let name = field("title").or_else(|| field("name")).unwrap_or_default();
        let mut about: Vec<String> = Vec::new();
        about.extend(field("mimeType"));
        about.extend(item["size"].as_u64().map(|size| format!("{size} bytes")));
        about.extend(field("description"));
        let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
        let server = self.server;
        self.say(format!(
            "[link to resource {name}: {uri}{about}; read it with ReadMcpResource, server {server:?}]"
        ));
    }
}

/// `data:image/png;base64,…` as a whole text.
fn data_uri(text: &str) -> Option<(&str, &str)> {
    let (head, data) = text.strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?.split(';').next()?;
    let is_media =
        ["image/", "audio/", "video/", "application/pdf"].iter().any(|it| media_type.starts_with(it));
    let is_data = data.bytes().all(|it| it.is_ascii_alphanumeric() || b"+/=-_\r\n".contains(&it));
    (is_media && is_data).then_some((media_type, data))
}

/// Base64 with or without padding, in either alphabet, with line breaks.
fn decode(data: &str) -> Option<Vec<u8>> {
    use base64::{alphabet, engine::DecodePaddingMode, engine::GeneralPurposeConfig};
    if let Ok(bytes) = BASE64_STANDARD.decode(data) {
        return Some(bytes);
    }
    let clean: String = data.chars().filter(|it| !it.is_ascii_whitespace()).collect();
    let any_padding = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let alphabet = if clean.contains(['-', '_']) { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    GeneralPurpose::new(alphabet, any_padding).decode(clean).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::MediaDirectory;

    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    async fn shaped(result: Value) -> (tempfile::TempDir, Result<Output, ToolError>) {
        let directory = tempfile::tempdir().unwrap();
        let media = MediaDirectory::new(directory.path());
        let shaped = shape(result, "srv", &media).await;
        (directory, shaped)
    }

    #[tokio::test]
    async fn every_kind_of_content_becomes_something_useful() {
        let numbers: Vec<u32> = (0..50).collect();
        for (result, want) in [
            (json!({"content": [{"type": "text", "text": "hi"}]}), vec!["hi"]),
            (json!({"content": "bare"}), vec!["bare"]),
            (json!({"content": {"type": "text", "text": "one"}}), vec!["one"]),
            (json!({"content": []}), vec!["(no output)"]),
            (json!(null), vec!["(no output)"]),
            (json!({"toolResult": "old"}), vec!["old"]),
            (json!({"content": [{"type": "text", "text": 7}]}), vec!["7"]),
            (json!({"content": [], "structuredContent": {"a": 1}}), vec!["{\n  \"a\": 1\n}"]),
            (
                json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "structuredContent": {"a": 1}}),
                vec!["{\"a\":1}"],
            ),
            (
                json!({"content": [{"type": "text", "text": "done"}], "structuredContent": numbers}),
                vec!["done", "[\n  0,"],
            ),
            (
                json!({"content": [{"type": "resource", "resource": {"uri": "x://y", "text": "t"}}]}),
                vec!["[resource x://y]\nt"],
            ),
            (
                json!({"content": [{"type": "resource_link", "uri": "x://y", "name": "n", "size": 3}]}),
                vec!["[link to resource n: x://y (3 bytes); read it with ReadMcpResource, server \"srv\"]"],
            ),
            (
                json!({"content": [{"type": "hologram", "x": 1}]}),
                vec!["[content of a kind that is not known"],
            ),
            (
                json!({"content": [{"type": "image", "data": "%%%"}]}),
                vec!["[image of type image/png: its base64"],
            ),
            (
                json!({"content": [{"type": "audio", "data": "AAAA"}]}),
                vec!["[audio of type audio/wav, 3 bytes, saved to"],
            ),
        ] {
            let (_directory, output) = shaped(result.clone()).await;
            let blocks = output.unwrap().content.0;
            assert_eq!(blocks.len(), want.len(), "{result}: {blocks:?}");
            for (block, want) in blocks.iter().zip(want) {
                assert!(block.as_text().unwrap().starts_with(want), "{result}: {block:?}");
            }
        }
    }

    #[tokio::test]
    async fn pictures_are_recognised_by_their_bytes() {
        let url_safe = PNG.replace('+', "-").replace('/', "_").replace('=', "");
        for data in [PNG, &url_safe, &format!("{}\n{}", &PNG[..10], &PNG[10..])] {
            let lie = json!({"content": [{"type": "image", "mimeType": "image/tiff", "data": data}]});
            let (_directory, output) = shaped(lie).await;
            assert_eq!(output.unwrap().content.0, [Block::image("image/png", PNG)]);
        }
        let disguised =
            json!({"content": [{"type": "text", "text": format!("data:image/png;base64,{PNG}")}]});
        let (_directory, output) = shaped(disguised).await;
        assert_eq!(output.unwrap().content.0, [Block::image("image/png", PNG)]);
    }

    #[tokio::test]
    async fn bytes_are_stored_whole_and_once() {
        let data = BASE64_STANDARD.encode(vec![7_u8; 5_000_000]);
        let item = json!({"type": "resource", "resource": {"uri": "x://y", "blob": data, "mimeType": "application/zip"}});
        let (directory, output) = shaped(json!({"content": [item, item]})).await;
        assert_eq!(output.unwrap().content.0.len(), 2);
        let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
        assert_eq!(files.len(), 1);
        assert_eq!(std::fs::read(files[0].path()).unwrap(), vec![7_u8; 5_000_000]);
    }

    #[tokio::test]
    async fn errors_keep_both_ends() {
        let (_directory, output) = shaped(json!({"isError": true, "content": []})).await;
        assert!(output.unwrap_err().message.contains("did not say why"));
        let long = format!("head {} tail", "x".repeat(100_000));
        let (directory, output) =
            shaped(json!({"isError": true, "content": [{"type": "text", "text": long}]})).await;
        let message = output.unwrap_err().message;
        assert!(message.starts_with("head ") && message.ends_with(" tail") && message.len() < 21_000);
        let file = std::fs::read_dir(directory.path()).unwrap().flatten().next().unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), long);
    }
}
