//! Text that stands for other text instead of being it.

use super::matching::without_line_numbers;

/// How our own listings mark what they leave out. Whoever writes this into a
/// file has copied a listing.
pub(crate) const PARTIAL_MARK: &str = "[PARTIAL view: ";

/// What makes a text a stand-in, in words.
pub(crate) fn stand_in(text: &str) -> Option<String> {
    let line = text.lines().position(|line| is_marker(line) || is_placeholder(line));
    if let Some(at) = line {
        let line = text.lines().nth(at).unwrap_or_default().trim();
        return Some(format!(
            "line {} stands for text that is left out (`{}`)",
            at + 1,
            haft_types::text::one_line(line, 80)
        ));
    }
    let numbered = 2 < text.lines().count() && without_line_numbers(text.trim_end_matches('\n')).is_some();
    numbered.then(|| "every line begins with a line number, as in a listing".to_owned())
}

/// A mark of our own listings.
fn is_marker(line: &str) -> bool {
    let line = line.trim();
    let bracketed = line.starts_with('[') && line.ends_with(']');
    line.starts_with(PARTIAL_MARK)
        || (bracketed && line.contains("not shown") && line.bytes().any(|it| it.is_ascii_digit()))
        || (bracketed && line.contains("offset=") && line.contains("lines"))
        || (bracketed && line.contains("characters truncated"))
}

/// A comment such as `// … rest of code unchanged`.
fn is_placeholder(line: &str) -> bool {
    let line = line.trim();
    let Some(body) = comment_body(line) else { return false };
    let body = body.to_lowercase();
    let dotted = body.contains("...") || body.contains('…');
    let words: Vec<&str> = body.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
    let has = |list: &[&str]| words.iter().any(|it| list.contains(it));
    let subject = has(&[
        "code",
        "file",
        "content",
        "contents",
        "implementation",
        "function",
        "functions",
        "method",
        "methods",
        "class",
        "logic",
        "lines",
        "imports",
        "rest",
        "above",
        "below",
        "everything",
    ]);
    let state = has(&[
        "unchanged",
        "same",
        "existing",
        "remaining",
        "rest",
        "omitted",
        "previous",
        "before",
        "original",
        "other",
        "here",
    ]);
    // Without dots it takes the whole phrase, and nothing else.
    let phrase = has(&["unchanged", "omitted"]) && has(&["rest", "remaining", "code", "existing"]);
    words.len() <= 12 && ((dotted && subject && state) || phrase)
}

/// What a line consists of when it is nothing but a comment, or dots.
fn comment_body(line: &str) -> Option<&str> {
    for mark in ["//", "#", "--", ";", "%", "<!--", "/*", "{/*", "(*", "\"\"\"", "*"] {
        if let Some(body) = line.strip_prefix(mark) {
            return Some(body);
        }
    }
    (line.starts_with("...") || line.starts_with('…') || line.starts_with("[...") || line.starts_with("[…"))
        .then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_are_told_from_text() {
        for text in [
            "a\n// … rest of code unchanged\n",
            "// ... rest of the file remains the same",
            "# ... existing code ...",
            "<!-- rest of file unchanged -->",
            "/* ... other methods ... */",
            "    // ... (previous implementation) ...",
            "# rest of the code omitted",
            "... rest of file unchanged ...",
            "x\n[PARTIAL view: lines 1-20 of 3000]\n",
            "[lines 21-3000 not shown]",
            "1\ta\n2\tb\n3\tc\n",
            "     1→a\n     2→b\n     3→c\n",
        ] {
            assert!(stand_in(text).is_some(), "{text}");
        }
        for text in [
            "",
            "fn main() {}\n",
            "// Returns the rest of the list.\n",
            "// see the code above for the same idea\n",
            "x = [...]\n",
            "print('...')\n",
            "// TODO: handle other cases ...\n",
            "- item one\n- item two\n",
            "1. a\n2. b\n3. c\n",
            "/// The existing file is kept.\n",
            "1\t2\n3\t4\n9\t9\n",
            "args = (*rest, ...)\n",
            "[1]: https://example.org\n",
        ] {
            assert_eq!(stand_in(text), None, "{text}");
        }
    }
}
