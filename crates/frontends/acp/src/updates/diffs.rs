//! What changed in files, as the protocol spells it.

use std::path::Path;

use serde_json::{Value, json};

/// Longest diff that is shown whole, in bytes of both sides.
const MAX_WHOLE_BYTES: usize = 200_000;

/// Longest side of a diff that was cut to its surroundings, in bytes.
const MAX_SIDE_BYTES: usize = 150_000;

/// Lines around a change that was cut out of its file.
const SURROUNDINGS: usize = 10;

/// The mark of a line of a hunk that says that the line before it has no end.
const NO_LINE_END: &str = "\\";

/// A diff of two texts. Where they are long, only the part that differs is
/// shown, with a few lines around it.
pub(crate) fn diff(path: &Path, old: Option<&str>, new: &str) -> Value {
    let whole = old.map_or(0, str::len) + new.len();
    let (old, new) = match old {
        Some(old) if MAX_WHOLE_BYTES < whole => {
            let (old, new) = differing(old, new);
            (Some(bounded(old)), bounded(new))
        }
        old => (old.map(bounded), bounded(new)),
    };
    json!({"type": "diff", "path": path.to_string_lossy(), "oldText": old, "newText": new})
}

fn bounded(side: &str) -> String {
    let cut = haft_types::text::head(side, MAX_SIDE_BYTES / 4);
    if side.len() <= MAX_SIDE_BYTES {
        side.to_owned()
    } else {
        format!("{cut}\n[cut: {} bytes in all]\n", side.len())
    }
}

/// The parts of two texts between their common beginning and end.
fn differing<'a>(old: &'a str, new: &'a str) -> (&'a str, &'a str) {
    let lines = |text: &'a str| text.split_inclusive('\n').collect::<Vec<_>>();
    let (olds, news) = (lines(old), lines(new));
    let head = olds.iter().zip(&news).take_while(|(a, b)| a == b).count();
    let most = olds.len().min(news.len()) - head;
    let tail = olds.iter().rev().zip(news.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (head, tail) = (head.saturating_sub(SURROUNDINGS), tail.saturating_sub(SURROUNDINGS));
    let before: usize = olds[..head].iter().map(|it| it.len()).sum();
    let after: usize = olds[olds.len() - tail..].iter().map(|it| it.len()).sum();
    (&old[before..old.len() - after], &new[before..new.len() - after])
}

/// The diffs that the structured result of a call describes: of one file, or of each of
/// its `files`.
pub(crate) fn of_data(data: &Value) -> Vec<Value> {
    described_files(data).filter_map(of_file).collect()
}

/// The files that a result describes.
fn described_files(data: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(data).chain(data["files"].as_array().into_iter().flatten())
}

/// The diff of one file, if there is one: a path, what was there, and hunks.
fn of_file(file: &Value) -> Option<Value> {
    let path = Path::new(file["filePath"].as_str()?);
    let hunks = file["structuredPatch"].as_array()?;
    let original = file["originalFile"].as_str();
    if let Some(original) = original
        && let Some(new) = patched(original, hunks)
    {
        return Some(diff(path, Some(original), &new));
    }
    if let (None, Some(content)) = (original, file["content"].as_str()) {
        return Some(diff(path, None, content));
    }
    (!hunks.is_empty()).then(|| diff(path, Some(&side_of_hunks(hunks, "-")), &side_of_hunks(hunks, "+")))
}

/// One side of hunks alone: the lines that both sides have, and those with this mark.
fn side_of_hunks(hunks: &[Value], own: &str) -> String {
    let (mut out, mut is_taken) = (String::new(), false);
    let lines = hunks.iter().flat_map(|it| it["lines"].as_array().into_iter().flatten());
    for line in lines.filter_map(Value::as_str) {
        let (mark, words) = (line.get(..1).unwrap_or_default(), line.get(1..).unwrap_or_default());
        if mark == NO_LINE_END {
            // It speaks of the line before it.
            out.truncate(out.len() - usize::from(is_taken));
            is_taken = false;
            continue;
        }
        is_taken = mark == own || mark == " ";
        if is_taken {
            out.push_str(words);
            out.push('\n');
        }
    }
    out
}

/// Whether a log keeps only the beginning of what a result describes: texts that are
/// in the record of changes as well.
pub(crate) fn is_shortened(data: &Value) -> bool {
    let is_cut = |file: &Value| {
        let hunks = file["structuredPatch"].as_array().into_iter().flatten();
        let lines = hunks.flat_map(|it| it["lines"].as_array().into_iter().flatten());
        let mut texts = lines.chain([&file["originalFile"], &file["content"]]).filter_map(Value::as_str);
        file["filePath"].is_string() && texts.any(|it| it.ends_with(" characters]"))
    };
    described_files(data).any(is_cut)
}

/// The first line that changed, where one file did.
pub(crate) fn first_line(data: &Value) -> Option<u64> {
    let mut patches = described_files(data).filter_map(|it| it["structuredPatch"].as_array());
    let (hunk, None) = (patches.next()?.first()?, patches.next()) else { return None };
    let start = hunk["newStart"].as_u64().filter(|it| 0 < *it)?;
    let lines = hunk["lines"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let around = lines.take_while(|it| it.starts_with(' ')).count();
    Some(start + u64::try_from(around).unwrap_or_default())
}

/// A text after some hunks; nothing where they do not fit it.
fn patched(original: &str, hunks: &[Value]) -> Option<String> {
    let lines: Vec<&str> = original.split_inclusive('\n').collect();
    let ending = if original.contains("\r\n") { "\r\n" } else { "\n" };
    let (mut out, mut at) = (String::new(), 0);
    for hunk in hunks {
        let start = usize::try_from(hunk["oldStart"].as_u64()?).ok()?;
        let count = usize::try_from(hunk["oldLines"].as_u64()?).ok()?;
        // A hunk that takes nothing names the line before it.
        let start = if count == 0 { start } else { start.checked_sub(1)? };
        out.push_str(&lines.get(at..start)?.concat());
        at = start;
        let mut was_added = false;
        for line in hunk["lines"].as_array()?.iter().filter_map(Value::as_str) {
            let (mark, words) = (line.get(..1).unwrap_or_default(), line.get(1..).unwrap_or_default());
            match mark {
                "+" => {
                    out.push_str(words);
                    out.push_str(ending);
                }
                " " | "-" => {
                    let there = lines.get(at)?;
                    if there.trim_end_matches(['\r', '\n']) != words {
                        return None;
                    }
                    if mark == " " {
                        out.push_str(there);
                    }
                    at += 1;
                }
                // Of a line that was there nothing has to be taken: it has no end.
                NO_LINE_END => {
                    if was_added {
                        out.truncate(out.len() - ending.len());
                    }
                }
                _ => return None,
            }
            was_added = mark == "+";
        }
    }
    out.push_str(&lines.get(at..)?.concat());
    Some(out)
}

#[cfg(test)]
mod tests {
    use haft_workspace::patch;
    use proptest::prelude::*;

    use super::*;

    fn data(old: &str, new: &str) -> Value {
        let hunks: Vec<Value> = patch(old, new)
            .iter()
            .map(|it| {
                json!({"oldStart": it.old_start, "oldLines": it.old_lines, "newStart": it.new_start,
                       "newLines": it.new_lines, "lines": it.lines})
            })
            .collect();
        json!({"filePath": "/w/a", "originalFile": old, "structuredPatch": hunks})
    }

    proptest! {
        #[test]
        fn hunks_give_the_new_text_back(old in "([a-c]{0,2}\n){0,12}[a-c]?", new in "([a-c]{0,2}\n){0,12}[a-c]?") {
            let shown: Vec<Value> = of_data(&data(&old, &new)).iter().map(|it| it["newText"].clone()).collect();
            prop_assert_eq!(shown, [json!(new)]);
        }

        #[test]
        fn cut_texts_differ_where_the_whole_ones_do(at in 0_usize..20_000, word in "[a-z]{1,5}\n") {
            let old: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
            let mut lines: Vec<&str> = old.split_inclusive('\n').collect();
            lines[at] = &word;
            let new = lines.concat();
            let shown = diff(Path::new("/a"), Some(&old), &new);
            let (was, is) = (shown["oldText"].as_str().unwrap_or_default(), shown["newText"].as_str().unwrap_or_default());
            prop_assert!(was.len() < 1_000 && is.contains(&word) && old.contains(was) && new.contains(is));
        }
    }

    #[test]
    fn new_files_have_no_old_text_and_foreign_hunks_are_shown_alone() {
        let made = of_data(&json!({"filePath": "/w/a", "content": "x\n", "structuredPatch": []}));
        assert_eq!(made, [json!({"type": "diff", "path": "/w/a", "oldText": null, "newText": "x\n"})]);
        for (old, new) in
            [("a\nb\n", "a\nc\n"), ("a\nb", "a\nc"), ("a\nb", "a\nb\n"), ("a\n", "a"), ("x\na", "y\na")]
        {
            let mut foreign = data(old, new);
            foreign["originalFile"] = json!("something else\n");
            let shown = of_data(&foreign);
            assert_eq!((&shown[0]["oldText"], &shown[0]["newText"]), (&json!(old), &json!(new)));
        }
        assert_eq!(of_data(&json!({"stdout": "x"})), Vec::<Value>::new());
    }

    #[test]
    fn several_files_are_several_diffs_and_one_has_the_line_that_changed() {
        let long: String = (1..=9).map(|n| format!("{n}\n")).collect();
        let one = data(&long, &long.replace('7', "seven"));
        assert_eq!(first_line(&one), Some(7));
        let mut both = json!({"files": [one, data("a", "b")], "undoId": "x"});
        let texts: Vec<Value> = of_data(&both).iter().map(|it| it["newText"].clone()).collect();
        assert_eq!(texts, [json!(long.replace('7', "seven")), json!("b")]);
        assert_eq!((first_line(&both), is_shortened(&both)), (None, false));
        both["files"][1]["originalFile"] = json!("a\n[cut: 9 characters]");
        assert!(is_shortened(&both));
        assert!(is_shortened(&data("a\n", "aaa… [2000 characters]\n")));
        both["files"].as_array_mut().and_then(Vec::pop);
        assert_eq!(first_line(&both), Some(7));
    }
}
