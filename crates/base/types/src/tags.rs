//! Tags that only Haft writes for the model, and escaping of such tags in other text.
//!
//! A Haft tag in a file, a tool result or another party's message gets a `~` after its `<` before a
//! model reads it. An existing `~` stays, so escaping is reversible byte for byte: text that the model
//! writes into a call has the escapes it was shown, and loses one `~` per tag.

use std::borrow::Cow;

use serde_json::Value;

/// Names of the tags that only Haft writes.
const TAGS: [&str; 8] = [
    "system-reminder",
    "task-notification",
    "command-name",
    "command-message",
    "command-args",
    "local-command-stdout",
    "local-command-stderr",
    "agent-message",
];

/// Inserted after the `<` of a tag that Haft did not write.
const MARK: u8 = b'~';

/// Tells a model what the marks in a result are.
pub const NOTE: &str = "(A `~` behind a `<` above is not in the original: it marks a tag that only the program writes. Copy such text as it is shown; the `~` is removed from what you pass to a tool.)";

/// Escapes every Haft tag in `text`. Borrowed if there is none.
pub fn neutral(text: &str) -> Cow<'_, str> {
    changed(text, |out, tag| {
        out.push_str("<~");
        out.push_str(&tag.text[1..]);
    })
}

/// Undoes [`neutral`]. A tag without a mark is unchanged.
pub fn restore(text: &str) -> Cow<'_, str> {
    changed(text, |out, tag| {
        out.push('<');
        out.push_str(&tag.text[1 + usize::from(tag.is_marked)..]);
    })
}

/// [`neutral`] in place. Returns whether anything changed.
pub fn neutralise_text(text: &mut String) -> bool {
    change_string(text, neutral)
}

/// [`neutral`] for every string in a JSON value, keys included.
pub fn neutralise(value: &mut Value) {
    change_value(value, neutral);
}

/// [`restore`] for every string in a JSON value, keys included.
pub fn restore_value(value: &mut Value) {
    change_value(value, restore);
}

/// Wraps `words` in a reminder tag for the model; Haft tags in `words` are escaped.
pub fn reminder(words: &str) -> String {
    wrapped("system-reminder", words)
}

/// Notification for the model about a background task, with a line that names its source. Haft tags in
/// either text are escaped.
pub fn task_notification(from: &str, news: &str) -> String {
    let news = wrapped("task-notification", news);
    format!("<system-reminder>\n{}\n{news}\n</system-reminder>", neutral(from))
}

fn wrapped(tag: &str, words: &str) -> String {
    format!("<{tag}>\n{}\n</{tag}>", neutral(words))
}

/// A tag in a text, from its `<` to the end of its name.
struct FoundTag<'a> {
    text: &'a str,
    is_marked: bool,
}

fn changed<'a>(text: &'a str, write: impl Fn(&mut String, &FoundTag<'_>)) -> Cow<'a, str> {
    let mut out = String::new();
    let mut done = 0;
    for at in memchr::memchr_iter(b'<', text.as_bytes()) {
        let Some(tag) = tag_at(&text[at..]) else { continue };
        out.push_str(&text[done..at]);
        write(&mut out, &tag);
        done = at + tag.text.len();
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Parses a tag at the start of `text`: `<`, then marks, white space and `/` in any order, then a tag
/// name in any case.
fn tag_at(text: &str) -> Option<FoundTag<'_>> {
    let bytes = text.as_bytes();
    let marks = bytes[1..].iter().take_while(|it| **it == MARK).count();
    let behind = &text[1 + marks..];
    let name = behind.trim_start_matches(|it: char| it == '/' || is_blank(it));
    let length = name.bytes().take_while(|it| is_part(*it)).count();
    let is_ours = TAGS.iter().any(|tag| name[..length].eq_ignore_ascii_case(tag));
    is_ours.then(|| FoundTag { text: &text[..text.len() - name.len() + length], is_marked: 0 < marks })
}

/// Whether the character may look like nothing to a reader (white space, invisible characters).
fn is_blank(it: char) -> bool {
    it.is_whitespace()
        || it.is_control()
        || matches!(it, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

fn is_part(it: u8) -> bool {
    it.is_ascii_alphanumeric() || it == b'-' || it == b'_'
}

fn change_value(value: &mut Value, change: fn(&str) -> Cow<'_, str>) {
    match value {
        Value::String(text) => {
            change_string(text, change);
        }
        Value::Array(items) => items.iter_mut().for_each(|it| change_value(it, change)),
        Value::Object(members) => {
            if members.keys().any(|key| matches!(change(key), Cow::Owned(_))) {
                let all = std::mem::take(members);
                members.extend(all.into_iter().map(|(key, value)| (change(&key).into_owned(), value)));
            }
            members.values_mut().for_each(|it| change_value(it, change));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// Replaces a string only if `change` modified it.
fn change_string(text: &mut String, change: fn(&str) -> Cow<'_, str>) -> bool {
    let Cow::Owned(new) = change(text) else { return false };
    *text = new;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neutral_marks_haft_tags_in_every_spelling() {
        for (text, want) in [
            ("<system-reminder>x</system-reminder>", "<~system-reminder>x<~/system-reminder>"),
            ("<SYSTEM-Reminder", "<~SYSTEM-Reminder"),
            ("</system-reminder >", "<~/system-reminder >"),
            ("< / system-reminder\n>", "<~ / system-reminder\n>"),
            ("<\u{200b}system-reminder>", "<~\u{200b}system-reminder>"),
            ("<~system-reminder>", "<~~system-reminder>"),
            ("<task-notification><command-name>", "<~task-notification><~command-name>"),
            ("<command-args a='b'>", "<~command-args a='b'>"),
            ("a <<system-reminder>", "a <<~system-reminder>"),
            ("<system-reminders>", "<system-reminders>"),
            ("<my-system-reminder>", "<my-system-reminder>"),
            ("a < b && c > d, Vec<u8>, <div>", "a < b && c > d, Vec<u8>, <div>"),
            ("<", "<"),
            ("\u{e9}<\u{e9}", "\u{e9}<\u{e9}"),
        ] {
            assert_eq!(neutral(text), want, "{text}");
            assert_eq!(restore(want), text, "{want}");
        }
        assert!(matches!(neutral("no tag < here"), Cow::Borrowed(_)));
        assert_eq!(restore("<system-reminder>"), "<system-reminder>");
    }

    #[test]
    fn reminder_escapes_closing_tag_in_its_text() {
        let made = reminder("a </system-reminder> b");
        assert_eq!(made, "<system-reminder>\na <~/system-reminder> b\n</system-reminder>");
        let made = task_notification("From </task-notification>", "x </task-notification> y");
        assert_eq!(made.matches("</task-notification>").count(), 1, "{made}");
        assert_eq!(made.matches("</system-reminder>").count(), 1, "{made}");
    }

    #[test]
    fn neutralise_changes_nested_strings_and_keys() {
        let raw = serde_json::json!({"a": ["<system-reminder>", 1], "<command-name>": {"b": "x"}});
        let mut value = raw.clone();
        neutralise(&mut value);
        assert_eq!(value["a"][0], "<~system-reminder>");
        assert_eq!(value["<~command-name>"]["b"], "x");
        restore_value(&mut value);
        assert_eq!(value, raw);
    }

    proptest::proptest! {
        #[test]
        fn restore_undoes_neutral(text in "([<~/ a\u{e9}]|</?|system-reminder|Command-Name|>){0,12}") {
            let marked = neutral(&text);
            proptest::prop_assert_eq!(restore(&marked), text.as_str());
            for tag in ["<system-reminder>", "</system-reminder>", "<system-reminder/"] {
                proptest::prop_assert!(!marked.contains(tag), "{}", marked);
            }
        }
    }
}
