//! Shortens a text that is too large: keeps the beginning, the end, and the lines in between that look
//! like errors.

use std::sync::LazyLock;

use haft_types::text;
use regex::Regex;

/// Words that mark a line of a long log as a probable error.
static ERROR_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = r"\b(error|errors|failed|failure|failures|fail|panicked|panic|exception|traceback|fatal|undefined reference|segmentation fault|assertion|denied|not found|cannot|unresolved)\b";
    Regex::new(&format!("(?i){words}")).ok()
});

/// Lines that mention errors only to say that there were none ("0 errors").
static NO_ERROR: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)\b(0|no) (errors?|failures?|failed)\b").ok());

/// Returns a preview of roughly `budget` characters: two fifths each for head and tail, one fifth for
/// error lines. Notes about omitted parts come on top.
pub(crate) fn preview(full: &str, budget: usize) -> String {
    let part = budget * 2 / 5;
    let head = whole_lines_head(full, part);
    let rest = &full[head.len()..];
    let tail = whole_lines_tail(rest, part);
    let middle = &rest[..rest.len() - tail.len()];
    let head_lines = head.lines().count();
    let errors = error_lines(middle, head_lines, budget / 5);
    let mut out = head.trim_end_matches('\n').to_owned();
    let left_out = format!("\n[… {} characters left out …]\n", middle.chars().count());
    if middle.is_empty() {
        out.push('\n');
    } else if errors.is_empty() {
        out.push_str(&left_out);
    } else {
        out.push_str(&left_out);
        out.push_str("[lines in between that look like errors, with their line numbers:]\n");
        out.push_str(&errors);
        out.push_str("[…]\n");
    }
    out.push_str(tail);
    out
}

/// Returns as many whole lines as fit into `max` characters. A first line that does not fit is cut.
fn whole_lines_head(full: &str, max: usize) -> &str {
    let cut = text::head(full, max);
    if cut.len() == full.len() {
        return cut;
    }
    match cut.rfind('\n') {
        Some(end) => &cut[..=end],
        None => cut,
    }
}

fn whole_lines_tail(full: &str, max: usize) -> &str {
    let cut = text::tail(full, max);
    if cut.len() == full.len() {
        return cut;
    }
    match cut.find('\n') {
        Some(start) if start + 1 < cut.len() => &cut[start + 1..],
        _ => cut,
    }
}

fn error_lines(middle: &str, lines_before: usize, budget: usize) -> String {
    /// Characters of a line that are searched for an error and shown; minified files have very long
    /// lines.
    const MAX_LINE: usize = 300;
    let (Some(error), Some(no_error)) = (&*ERROR_LINE, &*NO_ERROR) else { return String::new() };
    let mut out = String::new();
    let mut used = 0;
    let mut unseen = 0_usize;
    for (idx, line) in middle.lines().enumerate() {
        let start = text::head(line, MAX_LINE);
        if !error.is_match(start) || no_error.is_match(start) {
            continue;
        }
        let shown = format!("{}: {}\n", lines_before + idx + 1, start.trim_end());
        used += shown.chars().count();
        if budget < used {
            unseen += 1;
            continue;
        }
        out.push_str(&shown);
    }
    if 0 < unseen {
        out.push_str(&format!("[and {unseen} more such lines]\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn preview_shows_head_tail_and_error_lines() {
        let mut full: String = (1..=1000).map(|n| format!("line {n}\n")).collect();
        full = full.replace("line 500\n", "line 500: error[E0308]: mismatched types\n");
        full = full.replace("line 600\n", "line 600: 0 errors so far\n");
        insta::assert_snapshot!(preview(&full, 400));
    }

    #[test]
    fn preview_cuts_one_huge_line_at_characters() {
        let full = "é".repeat(5_000);
        let got = preview(&full, 100);
        assert!(got.starts_with("ééé") && got.ends_with("ééé") && got.contains("4920 characters left out"));
    }

    proptest! {
        #[test]
        fn preview_length_is_bounded(full in "(error é\n|x|\u{1b}\\[1m){0,600}", budget in 50_usize..300) {
            let got = preview(&full, budget).chars().count();
            prop_assert!(got <= full.chars().count().min(budget) + 250, "{got}");
        }
    }
}
