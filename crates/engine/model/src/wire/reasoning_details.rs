//! `reasoning_details`: thinking as returned by routers such as OpenRouter.
//!
//! A list of items in the format of the model's vendor: text with a signature, a summary, or encrypted
//! data. Models that sign their thinking require the whole list back, in order and unchanged, to
//! continue after a call. It is stored as the signature of the thinking block, so that it is logged,
//! restored and dropped like signed thinking.

use serde_json::Value;

/// The items of one answer, assembled from fragments.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails(Vec<Value>);

/// Prefix of all item types.
const KIND: &str = "reasoning.";

impl ReasoningDetails {
    /// Adds the items of a chunk; returns the displayable text in them.
    pub(super) fn take(&mut self, items: &Value) -> String {
        let mut shown = String::new();
        for item in items.as_array().into_iter().flatten().filter(|item| is_detail(item)) {
            shown.extend(streamed(item).and_then(|name| item[name].as_str()));
            self.add(item);
        }
        shown
    }

    /// Appends a fragment to the last item, or starts a new item.
    fn add(&mut self, piece: &Value) {
        let whole = self.0.last_mut().filter(|last| goes_on(last, piece));
        let (Some(whole), Some(name)) = (whole, streamed(piece)) else {
            self.0.push(piece.clone());
            return;
        };
        let (Some(whole), Some(piece)) = (whole.as_object_mut(), piece.as_object()) else { return };
        for (key, value) in piece {
            match (whole.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more)) if key == name => text.push_str(more),
                (Some(_), Value::Null) => (),
                (_, value) => drop(whole.insert(key.clone(), value.clone())),
            }
        }
    }

    /// Returns the list in the form in which it is stored; `None` if it is empty.
    pub(super) fn kept(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| Value::Array(self.0.clone()).to_string())
    }
}

/// Returns the items stored in a signature; empty for signatures of other wire formats.
pub(super) fn of_signature(signature: &str) -> Vec<Value> {
    let items = signature.starts_with('[').then(|| serde_json::from_str::<Vec<Value>>(signature).ok());
    items.flatten().filter(|items| items.iter().all(is_detail)).unwrap_or_default()
}

fn is_detail(item: &Value) -> bool {
    item["type"].as_str().is_some_and(|kind| kind.starts_with(KIND))
}

/// Returns the field of an item that arrives in fragments; encrypted data arrives whole.
fn streamed(item: &Value) -> Option<&'static str> {
    match item["type"].as_str()?.strip_prefix(KIND)? {
        "text" => Some("text"),
        "summary" => Some("summary"),
        _ => None,
    }
}

/// Whether a fragment continues the previous item: same type and index, no different id, and the item is
/// not signed yet.
fn goes_on(last: &Value, piece: &Value) -> bool {
    let agrees = |name: &str| last[name] == piece[name] || last[name].is_null() || piece[name].is_null();
    last["type"] == piece["type"] && agrees("index") && agrees("id") && last["signature"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reasoning_detail_fragments_reassemble_to_items() {
        let mut details = ReasoningDetails::default();
        let text = |text: &str, signature: Value, index: u64| json!([{"type": "reasoning.text", "text": text, "signature": signature, "format": "f", "index": index}]);
        assert_eq!(details.take(&text("a ", json!(null), 0)), "a ");
        assert_eq!(details.take(&text("b", json!(null), 0)), "b");
        assert_eq!(details.take(&text("", json!("sig"), 0)), "");
        // A new item, although it has the same index.
        assert_eq!(details.take(&text("c", json!(null), 0)), "c");
        assert_eq!(details.take(&json!([{"type": "reasoning.encrypted", "data": "x", "index": 1}])), "");
        assert_eq!(details.take(&json!([{"type": "reasoning.encrypted", "data": "y", "index": 1}])), "");
        assert_eq!(details.take(&json!([{"type": "reasoning.summary", "summary": "s", "index": 2}])), "s");
        assert_eq!(details.take(&json!([{"type": "other"}, 3, null])), "");
        let kept = details.kept().unwrap();
        let want = json!([
            {"type": "reasoning.text", "text": "a b", "signature": "sig", "format": "f", "index": 0},
            {"type": "reasoning.text", "text": "c", "signature": null, "format": "f", "index": 0},
            {"type": "reasoning.encrypted", "data": "x", "index": 1},
            {"type": "reasoning.encrypted", "data": "y", "index": 1},
            {"type": "reasoning.summary", "summary": "s", "index": 2},
        ]);
        assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), want);
        assert_eq!(Value::Array(of_signature(&kept)), want);
    }

    #[test]
    fn foreign_signatures_contain_no_reasoning_details() {
        for signature in ["", "EqQB", "{\"type\":\"reasoning\"}", "[1]", "[{\"type\":\"text\"}]", "["] {
            assert_eq!(of_signature(signature), Vec::<Value>::new(), "{signature}");
        }
        assert_eq!(ReasoningDetails::default().kept(), None);
    }
}
