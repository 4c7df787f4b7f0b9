//! Diffs contain every change and can be applied.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use haft_workspace::{
    Hunk, patch, patch_of_splices,
    text::{Splice, Text},
    unified,
};
use proptest::prelude::*;

/// Applies hunks to lines.
fn apply(old: &str, hunks: &[Hunk]) -> String {
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let mut out = String::new();
    let mut at = 0;
    for hunk in hunks {
        let start = (hunk.old_start as usize).saturating_sub(usize::from(hunk.old_lines != 0));
        old_lines[at..start].iter().for_each(|it| out.push_str(it));
        at = start + hunk.old_lines as usize;
        let mut new = String::new();
        let mut last = ' ';
        for line in &hunk.lines {
            match line.chars().next().unwrap() {
                '\\' if last != '-' => assert_eq!(new.pop(), Some('\n')),
                '\\' => (),
                '-' => last = '-',
                tag => {
                    new.push_str(&line[1..]);
                    new.push('\n');
                    last = tag;
                }
            }
        }
        let first_new = out.split_inclusive('\n').count() as u64 + u64::from(hunk.new_lines != 0);
        assert_eq!(first_new, hunk.new_start, "{hunk:?}");
        out.push_str(&new);
    }
    old_lines[at..].iter().for_each(|it| out.push_str(it));
    out
}

#[test]
fn patch_shows_line_ends_where_they_differ() {
    for (old, new, want) in [
        ("a\nb\n", "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        ("a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        ("a\r\nb\r\n", "a\r\nb\n", "@@ -1,2 +1,2 @@\n a␍\n-b␍\n+b\n"),
        ("a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"),
        ("", "a\n", "@@ -0,0 +1,1 @@\n+a\n"),
        ("a\n", "", "@@ -1,1 +0,0 @@\n-a\n"),
        (
            "a\rb",
            "a\rc",
            "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n",
        ),
    ] {
        assert_eq!(unified(&patch(old, new)), want, "{old:?} {new:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exact_patch_can_be_applied(old in "[abc\n]{0,60}", new in "[abc\n]{0,60}") {
        prop_assert_eq!(apply(&old, &patch(&old, &new)), new);
    }

    #[test]
    fn patch_of_splices_equals_patch_of_result(
        lines in prop::collection::vec("[ab]{0,2}", 1..80),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..6, "[xy\n]{0,5}"), 1..4),
    ) {
        let old = lines.join("\n");
        let mut splices: Vec<Splice> = cuts.into_iter().map(|(at, len, text)| {
            let start = if old.is_empty() { 0 } else { at.index(old.len()) };
            Splice { range: start..(start + len).min(old.len()), text }
        }).collect();
        splices.sort_by_key(|it| it.range.start);
        splices.dedup_by(|b, a| b.range.start < a.range.end || a.range.start == b.range.start);
        let text = Text::decode(old.clone().into_bytes()).unwrap();
        let new = String::from_utf8(text.splice(&splices).unwrap().to_vec()).unwrap();
        let hunks = patch_of_splices(&text, &splices).unwrap();
        prop_assert_eq!(apply(&old, &hunks), new);
    }
}
