//! JSON lines with a maximum length.

use haft_types::text;
use serde::Serialize;
use serde_json::{Value, json};

/// Maximum bytes of a written line. The Python SDK closes the session at 1 MiB.
pub const MAX_LINE: usize = 1_000_000;

/// Serialises a frame as one line of at most [`MAX_LINE`] bytes. If it is too long, its longest texts
/// are truncated with a note; images and documents that do not fit are replaced by a note.
pub fn bounded_line(frame: &impl Serialize) -> String {
    match serde_json::to_string(frame) {
        Ok(line) if line.len() <= MAX_LINE => line,
        Ok(_) => shortened_line(frame),
        Err(problem) => broken_line(&problem),
    }
}

/// Appends the line and a line break to a buffer.
pub(crate) fn push_bounded_line(lines: &mut Vec<u8>, frame: &impl Serialize) {
    let start = lines.len();
    let written = serde_json::to_writer(&mut *lines, frame);
    if written.is_err() || MAX_LINE < lines.len() - start {
        lines.truncate(start);
        let line = written.map_or_else(|problem| broken_line(&problem), |()| shortened_line(frame));
        lines.extend_from_slice(line.as_bytes());
    }
    lines.push(b'\n');
}

/// Returns the line for a frame that cannot be serialised.
fn broken_line(problem: &serde_json::Error) -> String {
    json!({"error": problem.to_string()}).to_string()
}

fn shortened_line(frame: &impl Serialize) -> String {
    let mut frame = json!(frame);
    let (mut texts, mut items) = (200_000, usize::MAX);
    loop {
        cut(&mut frame, texts, items);
        let line = frame.to_string();
        if line.len() <= MAX_LINE {
            return line;
        }
        // If many short texts remain, lists are truncated too.
        texts = (texts / 4).max(200);
        items = if texts == 200 { (items / 4).clamp(8, 4_000) } else { items };
        if texts == 200 && items == 8 {
            return shell_of(&frame).to_string();
        }
    }
}

fn cut(value: &mut Value, texts: usize, items: usize) {
    match value {
        Value::String(it) if texts < it.len() => {
            let whole = it.len();
            *it = format!("{}… [cut: {whole} bytes in all]", text::head(it, texts / 4));
        }
        Value::Object(map) if texts < media_bytes(map) => {
            let kind = map.get("type").and_then(Value::as_str).unwrap_or("data").to_owned();
            let note = format!("[{kind} of {} bytes of base64 left out]", media_bytes(map));
            *value = json!({"type": "text", "text": note});
        }
        Value::Object(map) => {
            if items < map.len() {
                let extra: Vec<String> = map.keys().skip(items).cloned().collect();
                extra.iter().for_each(|key| drop(map.remove(key)));
            }
            map.values_mut().for_each(|it| cut(it, texts, items));
        }
        Value::Array(list) => {
            list.truncate(items);
            list.iter_mut().for_each(|it| cut(it, texts, items));
        }
        _ => (),
    }
}

/// Returns the length of the data of an image or document, which cannot be truncated.
fn media_bytes(map: &serde_json::Map<String, Value>) -> usize {
    let of_block = map.get("source").and_then(|it| it.get("data"));
    let of_mcp = map.get("data").filter(|_| map.contains_key("mimeType"));
    of_block.or(of_mcp).and_then(Value::as_str).map_or(0, str::len)
}

/// Returns the identifying fields of a frame that cannot be shortened enough.
fn shell_of(frame: &Value) -> Value {
    let keep = [
        "type",
        "subtype",
        "session_id",
        "uuid",
        "request_id",
        "is_error",
        "parent_tool_use_id",
        "jsonrpc",
        "id",
        "method",
    ];
    let kept = keep.iter().filter_map(|key| Some(((*key).to_owned(), frame.get(*key)?.clone())));
    Value::Object(kept.collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            (0..2_000_000usize).prop_map(|n| Value::from("é".repeat(n / 2))),
            (0..300_000usize).prop_map(|n| Value::from(vec![1; n])),
            "[ -~]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-z]{1,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_line_is_bounded_json(value in any_json()) {
            let frame = json!({"type": "user", "session_id": "s", "uuid": "u", "message": value});
            let line = bounded_line(&frame);
            let mut lines = b"before\n".to_vec();
            push_bounded_line(&mut lines, &frame);
            prop_assert_eq!(lines, format!("before\n{line}\n").into_bytes());
            prop_assert!(line.len() <= MAX_LINE && !line.contains('\n'));
            let back: Value = serde_json::from_str(&line).map_err(|err| TestCaseError::fail(err.to_string()))?;
            prop_assert_eq!(&back["type"], "user");
            if frame.to_string().len() <= MAX_LINE {
                prop_assert_eq!(back, frame);
            }
        }
    }

    #[test]
    fn images_are_sent_whole_or_replaced() {
        let picture = json!({"type": "image", "source": {"type": "base64", "data": "A".repeat(2_000_000)}});
        let line = bounded_line(&json!({"type": "user", "content": [picture]}));
        assert!(line.contains("image of 2000000 bytes of base64 left out"), "{}", text::head(&line, 300));
    }
}
