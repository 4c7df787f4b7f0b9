//! JSON with comments and trailing commas, as settings files of other agents have.

use serde_json::Value;

/// Parses JSON with comments and trailing commas. The error has line and column.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(&plain(text)).map_err(|err| err.to_string())
}

/// Removes comments and trailing commas. Keeps line breaks, so that line numbers in errors are right.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(it) = chars.next() {
        match it {
            '\\' if in_string => {
                out.push(it);
                out.extend(chars.next());
            }
            '"' => {
                in_string = !in_string;
                out.push(it);
            }
            '/' if !in_string && chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            '/' if !in_string && chars.peek() == Some(&'*') => {
                chars.next();
                let mut before = ' ';
                for next in chars.by_ref() {
                    if next == '\n' {
                        out.push('\n');
                    }
                    if before == '*' && next == '/' {
                        break;
                    }
                    before = next;
                }
            }
            '}' | ']' if !in_string => {
                let kept = out.trim_end().len();
                if out[..kept].ends_with(',') {
                    let blanks = out.split_off(kept);
                    out.pop();
                    out.push_str(&blanks);
                }
                out.push(it);
            }
            it => out.push(it),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_people_write_is_read() {
        for (text, want) in [
            ("{\"a\": 1, // no\n \"b\": [1, 2,], }", json!({"a": 1, "b": [1, 2]})),
            ("/* a\n*/{\"u\": \"http://x/*y*/ //z\"}", json!({"u": "http://x/*y*/ //z"})),
            ("{\"a\": \"q\\\"//\"}", json!({"a": "q\"//"})),
            ("{\"a\": \",]\"}", json!({"a": ",]"})),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
        assert!(parse("{").is_err());
    }
}
