//! Computes the content of a file after a proposed call, from the call's input.

use serde_json::Value;

/// The effect of a call on a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ProposedText {
    /// The complete new content.
    Whole(String),
    /// The text to replace is not in the file verbatim: only the replacement is known.
    Part {
        /// The text to replace.
        old: String,
        /// The new text.
        new: String,
    },
}

/// The effect of a call on a file with the content `there`; `None` if the input does not determine it.
pub fn proposed_text(input: &Value, there: Option<&str>) -> Option<ProposedText> {
    if let Some(content) = input["content"].as_str() {
        return Some(ProposedText::Whole(content.to_owned()));
    }
    let edits: Vec<&Value> = match input["edits"].as_array() {
        Some(edits) => edits.iter().collect(),
        None => vec![input],
    };
    let mut text = there.unwrap_or_default().to_owned();
    for edit in edits {
        let (old, new) = (edit["old_string"].as_str()?, edit["new_string"].as_str()?);
        text = match (old.is_empty(), edit["replace_all"] == true) {
            (true, _) if text.is_empty() => new.to_owned(),
            (false, true) if text.contains(old) => text.replace(old, new),
            (false, false) if text.contains(old) => text.replacen(old, new, 1),
            _ => return Some(ProposedText::Part { old: old.to_owned(), new: new.to_owned() }),
        };
    }
    Some(ProposedText::Whole(text))
}

/// The input that makes the same call write `text` instead of its proposal.
pub(crate) fn input_for(input: &Value, there: &str, text: &str) -> Value {
    let mut input = input.clone();
    if input.get("content").is_some() {
        input["content"] = Value::from(text);
        return input;
    }
    let edit = serde_json::json!({"old_string": there, "new_string": text});
    if input.get("edits").is_some() {
        input["edits"] = Value::from(vec![edit])
    } else {
        (input["old_string"], input["new_string"]) = (Value::from(there), Value::from(text));
        if let Some(fields) = input.as_object_mut() {
            fields.remove("replace_all");
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_somebody_changed_is_what_the_call_makes() {
        let there = "one two one\n";
        for input in [
            json!({"file_path": "/a", "content": "x"}),
            json!({"file_path": "/a", "old_string": "one", "new_string": "1", "replace_all": true}),
            json!({"file_path": "/a", "edits": [{"old_string": "one", "new_string": "1"}]}),
        ] {
            let changed = input_for(&input, there, "by hand\n");
            assert_eq!(changed["file_path"], "/a");
            let made = proposed_text(&changed, Some(there));
            assert_eq!(made, Some(ProposedText::Whole(String::from("by hand\n"))), "{input}");
        }
        assert_eq!(proposed_text(&json!({"cell": 1}), Some(there)), None);
        assert_eq!(
            proposed_text(&json!({"old_string": "nine", "new_string": "9"}), Some(there)),
            Some(ProposedText::Part { old: String::from("nine"), new: String::from("9") })
        );
    }
}
