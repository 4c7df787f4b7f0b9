//! Detects placeholders: text that stands for other text ("rest unchanged").

use super::matching::without_line_numbers;

/// Start of the marker with which the tools' own listings note omitted lines. Text that contains it was
/// copied from a listing.
pub(crate) const PARTIAL_MARK: &str = "[PARTIAL view: ";

/// Returns why the text is a placeholder, for the error message.
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

/// Whether the line is a truncation marker of the tools' own output.
fn is_marker(line: &str) -> bool {
    let line = line.trim();
    let bracketed = line.starts_with('[') && line.ends_with(']');
    line.starts_with(PARTIAL_MARK)
        || (bracketed && line.contains("not shown") && line.bytes().any(|it| it.is_ascii_digit()))
        || (bracketed && line.contains("offset=") && line.contains("lines"))
        || (bracketed && line.contains("characters truncated"))
}

/// Whether the line is a comment such as `// … rest of code unchanged`.
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
    // Without dots, the phrase must be complete.
    let phrase = has(&["unchanged", "omitted"]) && has(&["rest", "remaining", "code", "existing"]);
    words.len() <= 12 && ((dotted && subject && state) || phrase)
}

/// Returns the text of a line that consists only of a comment or begins with dots.
fn comment_body(line: &str) -> Option<&str> {
    for mark in ["//", "#", "--", ";", "%", "<!--", "/*", "{/*", "(*", "\"\"\"", "*"] {
        if let Some(body) = line.strip_prefix(mark) {
            return Some(body);
        }
    }
    (line.starts_with("...") || line.starts_with('…') || line.starts_with("[...") || line.starts_with("[…"))
        .then_some(line)
}

/// Words that say that other text is somewhere else or unchanged.
const LEAVING_OUT: &[&str] = &[
    "abbreviated",
    "above",
    "already",
    "asis",
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
    "hidden",
    "identical",
    "intact",
    "keep",
    "keeps",
    "kept",
    "likewise",
    "modification",
    "modifications",
    "modified",
    "more",
    "omit",
    "omitted",
    "original",
    "originally",
    "other",
    "others",
    "preserve",
    "preserved",
    "previous",
    "previously",
    "prior",
    "remain",
    "remainder",
    "remaining",
    "remains",
    "rest",
    "retain",
    "retained",
    "same",
    "shortened",
    "skipped",
    "snip",
    "snipped",
    "stay",
    "stays",
    "trimmed",
    "truncated",
    "unaffected",
    "unaltered",
    "unchanged",
    "unmodified",
    "untouched",
];

/// Filler words that may appear next to [`LEAVING_OUT`] words.
const FILLING: &[&str] = &[
    "a",
    "all",
    "an",
    "and",
    "any",
    "are",
    "arguments",
    "as",
    "at",
    "attributes",
    "be",
    "been",
    "below",
    "block",
    "body",
    "branches",
    "case",
    "cases",
    "class",
    "classes",
    "code",
    "columns",
    "component",
    "components",
    "config",
    "content",
    "contents",
    "data",
    "declarations",
    "definition",
    "definitions",
    "don't",
    "down",
    "elements",
    "else",
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
    "functionality",
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
    "keys",
    "left",
    "line",
    "lines",
    "logic",
    "markup",
    "method",
    "methods",
    "module",
    "necessary",
    "needed",
    "no",
    "not",
    "nothing",
    "of",
    "on",
    "onwards",
    "option",
    "options",
    "or",
    "our",
    "out",
    "parameters",
    "part",
    "parts",
    "program",
    "properties",
    "props",
    "queries",
    "required",
    "routes",
    "rows",
    "rules",
    "script",
    "section",
    "sections",
    "see",
    "settings",
    "setup",
    "snippet",
    "so",
    "source",
    "statements",
    "steps",
    "structure",
    "stuff",
    "styles",
    "sub",
    "test",
    "tests",
    "text",
    "than",
    "that",
    "the",
    "them",
    "then",
    "there",
    "these",
    "they",
    "things",
    "this",
    "to",
    "touch",
    "types",
    "up",
    "values",
    "variables",
    "was",
    "we",
    "were",
    "what",
    "with",
    "your",
];

/// The subset of [`LEAVING_OUT`] that almost always marks omitted code. One of these makes a short
/// comment a suspected placeholder even without dots.
const PLAINLY: &[&str] = &[
    "abbreviated",
    "brevity",
    "elided",
    "identical",
    "omitted",
    "remainder",
    "remaining",
    "rest",
    "same",
    "snip",
    "snipped",
    "truncated",
    "unaltered",
    "unchanged",
    "unmodified",
    "untouched",
];

/// Phrases with the same meaning in other languages; parts of words for languages without spaces.
const ELSEWHERE: &[&str] = &[
    "unverändert",
    "wie bisher",
    "wie vorher",
    "bleibt gleich",
    "bleibt wie",
    "inchangé",
    "reste du",
    "sin cambios",
    "igual que antes",
    "resto del",
    "sem alterações",
    "restante do",
    "invariato",
    "ongewijzigd",
    "bez zmian",
    "без изменений",
    "без змін",
    "остальн",
    "остаётся",
    "değişmedi",
    "不变",
    "不變",
    "省略",
    "其余",
    "其餘",
    "保持原",
    "同上",
    "変更なし",
    "以下同",
    "そのまま",
    "변경 없",
    "생략",
    "나머지",
    "동일",
];

/// How likely a line is a placeholder.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum ElisionLikelihood {
    /// The line has content of its own.
    None,
    /// Possibly. Counts only if the replacement consists of such lines.
    Perhaps,
    /// The line consists only of dots and words that mark omitted text.
    Plain,
}

/// Rates a line. The rating alone does not make it a placeholder; see [`replaces_lost_lines`].
fn weight(line: &str) -> ElisionLikelihood {
    let line = line.trim();
    let is_bracketed = [('[', ']'), ('<', '>'), ('(', ')')]
        .iter()
        .any(|(open, close)| line.starts_with(*open) && line.ends_with(*close));
    // Dots alone are valid code in some languages.
    let is_bare = line.chars().all(|it| matches!(it, '.' | '…'));
    if is_bare || (!is_bracketed && comment_body(line).is_none() && other_comment(line).is_none()) {
        return ElisionLikelihood::None;
    }
    let text = line.to_lowercase();
    let text = other_comment(&text).unwrap_or(&text);
    let dotted = ["...", "…", "⋮", "⋯", ". . .", "8<", "。。。"].iter().any(|it| text.contains(it));
    let words: Vec<&str> =
        text.split(|it: char| !it.is_alphanumeric() && it != '\'').filter(|it| !it.is_empty()).collect();
    let count = |list: &[&str]| words.iter().filter(|it| list.contains(it)).count();
    let is_known = |it: &&&str| {
        LEAVING_OUT.contains(it) || FILLING.contains(it) || it.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (leaves_out, unknown) = (count(LEAVING_OUT), words.iter().filter(|it| !is_known(it)).count());
    match () {
        () if 14 < words.len() => ElisionLikelihood::None,
        () if unknown == 0 && (0 < leaves_out || dotted) => ElisionLikelihood::Plain,
        () if dotted && 0 < leaves_out && unknown <= 2 => ElisionLikelihood::Perhaps,
        () if 0 < count(PLAINLY) && unknown <= 1 && words.len() <= 7 => ElisionLikelihood::Perhaps,
        () if ELSEWHERE.iter().any(|it| text.contains(it)) => ElisionLikelihood::Perhaps,
        () => ElisionLikelihood::None,
    }
}

/// Returns the text of a comment whose marker has other meanings in most languages (`rem`, `'`, `!`).
fn other_comment(line: &str) -> Option<&str> {
    let rem = line.get(..4).filter(|it| it.eq_ignore_ascii_case("rem ")).and(line.get(4..));
    rem.or_else(|| line.strip_prefix(['\'', '!']))
}

fn may_stand_in(line: &str) -> bool {
    weight(line) != ElisionLikelihood::None
}

/// Returns why a replacement is incomplete: a placeholder comment takes the place of several lines while
/// hardly any new ones are added.
pub(crate) fn replaces_lost_lines(new: &str, there: &str) -> Option<String> {
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
        // A possible placeholder counts only if nothing else is added.
        let enough = match weight(line) {
            ElisionLikelihood::Plain => own + 2 <= lost,
            _ => own == 0 && 2 <= lost,
        };
        if enough {
            let line = haft_types::text::one_line(line.trim(), 80);
            return Some(format!("line {} (`{line}`) stands for {lost} lines that would be lost", at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: &str =
        "fn a() {\n    let x = 1;\n    let y = 2;\n    let z = 3;\n    run(x, y, z);\n}\n\nfn b() {}\n";

    const STAND_INS: &[&str] = &[
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
        "// rest of function unchanged",
        "// ... (no changes)",
        "# --- snip ---",
        "// [unchanged]",
        "/* same code here */",
        "// as before",
        "// (lines 10-40 stay the same)",
        "// everything else is the same",
        "# unchanged code omitted",
        "// ... keep as is",
        "<!-- ...existing markup... -->",
        "// your existing code here",
        "// original content preserved",
        "{/* ... rest of JSX ... */}",
        "-- remaining columns unchanged",
        "# previous imports remain",
        "// snipped for brevity",
        "// <rest of the implementation>",
        "' rest of Sub unchanged",
        "REM unchanged",
        "// - - 8< - -",
        "// same as original file from here on",
        "# (keep everything below)",
        "// nothing changed below this line",
        "/* [20 more lines] */",
        "// no modifications needed here",
        "// \u{22ee}",
        "// (omitted)",
        "// \u{2013} unchanged \u{2013}",
        "// rest is identical; see above",
        "// Rest des Codes bleibt unverändert",
        "// le reste du code est inchangé",
        "# el resto del archivo sin cambios",
        "// 其余代码不变",
        "// 以下省略",
        "// остальной код без изменений",
        "// unmodified validation",
        "/* ...the other reducers... */",
    ];

    #[test]
    fn placeholder_comment_replacing_lines_is_rejected() {
        for line in STAND_INS {
            let new = format!("fn a() {{\n    {line}\n}}\n\nfn b() {{ a() }}\n");
            let found = replaces_lost_lines(&new, THERE);
            assert!(found.as_ref().is_some_and(|it| it.contains("4 lines")), "{line}: {found:?}");
            // Among other lines it is an ordinary comment.
            let beside = THERE.replace("    run", &format!("    {line}\n    run"));
            assert_eq!(replaces_lost_lines(&beside, THERE), None, "{line}");
        }
    }

    #[test]
    fn ordinary_comment_replacing_lines_is_accepted() {
        for (new, there) in [
            // Lines were removed, but the comment is not a placeholder.
            ("fn a() {\n    // Adds the rest of the list.\n}\n", THERE),
            ("fn a() {\n    // TODO\n}\n", THERE),
            ("fn a() {\n    // handled by the caller\n}\n", THERE),
            ("fn a() {\n    // removed: the server does this now\n}\n", THERE),
            ("fn a() {\n    // the previous token\n    back(1);\n}\n", THERE),
            ("fn a() {\n    // existing users only\n    check(2);\n}\n", THERE),
            ("fn a() {\n    // the same order as in b()\n    run(1, 2, 3);\n}\n", THERE),
            ("fn a() {\n    // Not used any longer.\n}\n", THERE),
            ("fn a() {\n    // The rest of the work is done by `b` in the background.\n}\n", THERE),
            ("fn a() {\n    unreachable()\n}\n", THERE),
            ("    ...\n", "    x = 1\n    y = 2\n    z = 3\n"),
            // Nothing was removed.
            ("// existing code\n", ""),
            // As many lines are added as removed.
            ("// same as before\na\nb\nc\n", "x\ny\nz\n"),
        ] {
            assert_eq!(replaces_lost_lines(new, there), None, "{new}");
        }
    }

    #[test]
    fn placeholders_are_distinguished_from_text() {
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
