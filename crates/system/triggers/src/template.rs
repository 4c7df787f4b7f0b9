//! Prompts from templates.

use serde_json::Value;

/// Characters of one value.
const MAX_OF_VALUE: usize = 8_000;
/// Characters of a prompt.
const MAX_IN_ALL: usize = 40_000;

/// Fills the places of a template: `{{body}}` is all that was delivered,
/// `{{body.a.0.b}}` a part of it, `{{trigger}}` the name. What is missing is
/// said in its place. Values are data: they cannot bring places of their own, and
/// what cannot be seen in them is written out.
pub fn fill(template: &str, trigger: &str, body: &[u8]) -> String {
    let text = seen(&String::from_utf8_lossy(body));
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((place, behind)) = after.split_once("}}") else {
            out.push_str("{{");
            rest = after;
            continue;
        };
        out.push_str(&value(place.trim(), trigger, &text, parsed.as_ref()));
        rest = behind;
    }
    out.push_str(rest);
    cut(&out, MAX_IN_ALL)
}

fn value(place: &str, trigger: &str, text: &str, parsed: Option<&Value>) -> String {
    let found = match place.split_once('.') {
        None if place == "trigger" => return trigger.to_owned(),
        None if place == "body" => return cut(text, MAX_OF_VALUE),
        Some(("body", path)) => parsed.and_then(|body| part(body, path)),
        _ => None,
    };
    match found {
        Some(Value::String(text)) => cut(&seen(text), MAX_OF_VALUE),
        Some(other) => cut(&seen(&other.to_string()), MAX_OF_VALUE),
        None => format!("(there is no {place})"),
    }
}

fn part<'a>(body: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(body, |at, name| match at {
        Value::Array(all) => all.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    })
}

/// Text whose control characters, and those that turn the direction of writing
/// or show nothing, are written out.
fn seen(text: &str) -> String {
    let hides = |it: char| {
        (it.is_control() && !matches!(it, '\n' | '\t'))
            || matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
    };
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for it in text.chars() {
        if hides(it) { shown.extend(it.escape_unicode()) } else { shown.push(it) }
    }
    shown
}

fn cut(text: &str, most: usize) -> String {
    let head = haft_types::text::head(text, most);
    if head.len() == text.len() {
        text.to_owned()
    } else {
        format!("{head}… (cut after {most} characters)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_once() {
        let body = br#"{"pull": {"title": "{{body}} and {{trigger}}", "n": 7}, "all": [{"x": true}]}"#;
        for (template, want) in [
            ("plain", "plain"),
            ("{{trigger}}: {{ body.pull.n }} {{body.all.0.x}}", "t: 7 true"),
            // What was delivered stays what it is.
            ("{{body.pull.title}}", "{{body}} and {{trigger}}"),
            ("{{body.pull}}", r#"{"title":"{{body}} and {{trigger}}","n":7}"#),
            ("{{body.no.such}} {{env.KEY}}", "(there is no body.no.such) (there is no env.KEY)"),
            ("{{open", "{{open"),
        ] {
            assert_eq!(fill(template, "t", body), want, "{template}");
        }
        assert_eq!(fill("{{body}}", "t", b"no json \xff"), "no json \u{fffd}");
        assert_eq!(fill("{{body.x}}", "t", b"no json"), "(there is no body.x)");
        let hidden = "{\"x\": \"a\\u001b[2Jb\\u202ec\\r\\nd\"}".as_bytes();
        assert_eq!(fill("{{body.x}}", "t", hidden), "a\\u{1b}[2Jb\\u{202e}c\nd");
        let long = "x".repeat(50_000);
        let filled = fill("{{body}}", "t", long.as_bytes());
        assert!(filled.ends_with("… (cut after 8000 characters)"), "{}", filled.len());
    }
}
