//! Compares a recorded with a new result.

use std::sync::LazyLock;

use regex::Regex;

/// Durations in texts.
static TIMES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|sec|seconds|min|minutes)\b").ok());

/// Compares two texts that may differ in ids only. Returns the pairs of recorded and new ids in order;
/// `None` if there is any other difference. Numbers are not ids: a changed count is a changed result.
pub(super) fn same_but_ids(recorded: &str, now: &str) -> Option<Vec<(String, String)>> {
    if recorded == now {
        return Some(Vec::new());
    }
    let timeless = |text: &str| match TIMES.as_ref() {
        Some(times) => times.replace_all(text, "‹time›").into_owned(),
        None => text.to_owned(),
    };
    let (recorded, now) = (timeless(recorded), timeless(now));
    let (mut left, mut right) = (pieces(&recorded), pieces(&now));
    let mut ids = Vec::new();
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Some(ids),
            (Some(a), Some(b)) if a == b => (),
            (Some(a), Some(b)) if is_id(a) && is_id(b) => ids.push((a.to_owned(), b.to_owned())),
            _ => return None,
        }
    }
}

/// Splits a text into words and separators.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let word = is_word(first);
        let end = rest.find(|it| is_word(it) != word).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// Whether a word is a generated id: mixed digits and letters, or long hexadecimal.
fn is_id(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let hex = word.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    let mixed = 6 <= word.len() && 0 < digits && digits < word.len();
    mixed || (hex && 8 <= word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_times_may_differ_and_nothing_else() {
        for (recorded, now, want) in [
            ("a b", "a b", Some(vec![])),
            ("Undo id: 906db4b6.", "Undo id: 9b636c0b.", Some(vec![("906db4b6", "9b636c0b")])),
            (
                "took 1.2s, task bash_1a2b3c",
                "took 31ms, task bash_9z8y7x",
                Some(vec![("bash_1a2b3c", "bash_9z8y7x")]),
            ),
            ("id 8156e84f", "id cdcbcabf", Some(vec![("8156e84f", "cdcbcabf")])),
            ("2 failed", "3 failed", None),
            ("one", "one and more", None),
            ("a  b", "a b", None),
            ("removed", "renamed", None),
        ] {
            let want = want.map(|ids| {
                ids.into_iter().map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned())).collect::<Vec<_>>()
            });
            assert_eq!(same_but_ids(recorded, now), want, "{recorded} | {now}");
        }
    }
}
