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

/// Words that say of other text that it is somewhere else, or as it was.
const LEAVING_OUT: &[&str] = &[
    "abbreviated",
    "above",
    "already",
    "before",
    "brevity",
    "change",
    "changed",
    "changes",
    "continue",
    "continued",
    "continues",
    "earlier",
    "elided",
    "elsewhere",
    "etc",
    "existing",
    "identical",
    "keep",
    "keeps",
    "kept",
    "likewise",
    "modified",
    "more",
    "omit",
    "omitted",
    "original",
    "originally",
    "other",
    "others",
    "preserved",
    "previous",
    "previously",
    "prior",
    "remain",
    "remainder",
    "remaining",
    "remains",
    "rest",
    "same",
    "shortened",
    "skipped",
    "snip",
    "snipped",
    "stay",
    "stays",
    "trimmed",
    "truncated",
    "unaltered",
    "unchanged",
    "unmodified",
    "untouched",
];

/// Words that may stand beside those without saying anything of their own.
const FILLING: &[&str] = &[
    "a",
    "all",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "been",
    "below",
    "block",
    "body",
    "case",
    "cases",
    "class",
    "classes",
    "code",
    "component",
    "components",
    "config",
    "content",
    "contents",
    "declarations",
    "definition",
    "definitions",
    "elements",
    "entries",
    "everything",
    "exactly",
    "far",
    "field",
    "fields",
    "file",
    "files",
    "follow",
    "follows",
    "for",
    "from",
    "function",
    "functions",
    "go",
    "goes",
    "handlers",
    "has",
    "have",
    "helpers",
    "here",
    "i",
    "implementation",
    "implementations",
    "import",
    "imports",
    "in",
    "is",
    "it",
    "items",
    "its",
    "just",
    "left",
    "line",
    "lines",
    "logic",
    "method",
    "methods",
    "module",
    "no",
    "not",
    "of",
    "on",
    "or",
    "our",
    "part",
    "parts",
    "properties",
    "props",
    "routes",
    "rules",
    "section",
    "sections",
    "so",
    "stuff",
    "styles",
    "test",
    "tests",
    "text",
    "than",
    "that",
    "the",
    "there",
    "these",
    "things",
    "this",
    "to",
    "up",
    "was",
    "we",
    "were",
    "what",
    "with",
    "your",
];

/// A comment that may stand for other text: nothing but dots, or nothing but words
/// that say so. Alone it proves nothing; see [`stands_for_lost_lines`].
fn may_stand_in(line: &str) -> bool {
    let line = line.trim();
    let is_bracketed = [('[', ']'), ('<', '>'), ('(', ')')]
        .iter()
        .any(|(open, close)| line.starts_with(*open) && line.ends_with(*close));
    // Dots alone are a statement in some languages.
    let is_bare = line.chars().all(|it| matches!(it, '.' | '…'));
    if is_bare || (!is_bracketed && comment_body(line).is_none()) {
        return false;
    }
    let text = line.to_lowercase();
    let dotted = text.contains("...") || text.contains('…');
    let words: Vec<&str> = text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
    let leaves_out = words.iter().filter(|it| LEAVING_OUT.contains(it)).count();
    let is_filled = words.iter().all(|it| {
        LEAVING_OUT.contains(it) || FILLING.contains(it) || it.bytes().all(|byte| byte.is_ascii_digit())
    });
    words.len() <= 14 && is_filled && (0 < leaves_out || dotted)
}

/// Why a text that replaces another is not all of it: a comment that says so
/// stands where several lines go and hardly any come.
pub(crate) fn stands_for_lost_lines(new: &str, there: &str) -> Option<String> {
    let suspects: Vec<(usize, &str)> =
        new.lines().enumerate().filter(|(_, line)| may_stand_in(line)).collect();
    if suspects.is_empty() {
        return None;
    }
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) = (there.lines().collect(), new.lines().collect());
    let is_text = |line: &&&str| line.chars().any(char::is_alphanumeric);
    let found = similar::capture_diff_slices(similar::Algorithm::Myers, &old_lines, &new_lines);
    for change in found.iter().filter(|it| it.tag() != similar::DiffTag::Equal) {
        let come = change.new_range();
        let Some((at, line)) = suspects.iter().find(|(at, _)| come.contains(at)) else { continue };
        let lost = old_lines[change.old_range()].iter().filter(is_text).count();
        let own = new_lines[come].iter().filter(|line| is_text(line) && !may_stand_in(line)).count();
        if own + 2 <= lost {
            let line = haft_types::text::one_line(line.trim(), 80);
            return Some(format!("line {} (`{line}`) stands for {lost} lines that would be lost", at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_in_place_of_lines_is_no_text() {
        let there =
            "fn a() {\n    let x = 1;\n    let y = 2;\n    let z = 3;\n    run(x, y, z);\n}\n\nfn b() {}\n";
        for line in [
            "// existing code",
            "// ...",
            "/* ... */",
            "/* … */",
            "[truncated]",
            "<snip>",
            "# same as before",
            "// (unchanged)",
            "-- keep the rest as it was",
            "<!-- no changes here -->",
            "{/* other props stay the same */}",
            "// etc.",
            "// remaining lines omitted for brevity",
            "; previous implementation",
            "// code continues as above",
            "# [4 lines not modified]",
            "// body is identical to the original",
            "(rest of this function is untouched)",
            "% skipped",
            "// keep existing logic",
        ] {
            let new = format!("fn a() {{\n    {line}\n}}\n\nfn b() {{ a() }}\n");
            let found = stands_for_lost_lines(&new, there);
            assert!(found.as_ref().is_some_and(|it| it.contains("4 lines")), "{line}: {found:?}");
            // As a line among others it is a comment.
            let beside = there.replace("    run", &format!("    {line}\n    run"));
            assert_eq!(stands_for_lost_lines(&beside, there), None, "{line}");
        }
        for (new, there) in [
            // The lines are gone, and the comment says something else.
            ("fn a() {\n    // Adds the rest of the list.\n}\n", there),
            ("fn a() {\n    // TODO\n}\n", there),
            ("fn a() {\n    unreachable()\n}\n", there),
            ("    ...\n", "    x = 1\n    y = 2\n    z = 3\n"),
            // Nothing was there.
            ("// existing code\n", ""),
            // As much comes as goes.
            ("// same as before\na\nb\nc\n", "x\ny\nz\n"),
        ] {
            assert_eq!(stands_for_lost_lines(new, there), None, "{new}");
        }
    }

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
