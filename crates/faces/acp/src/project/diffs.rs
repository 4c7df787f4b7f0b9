//! What changed in files, as the protocol spells it.

use std::path::Path;

use serde_json::{Value, json};

/// Longest diff that is shown whole, in bytes of both sides.
const LONGEST_WHOLE: usize = 200_000;

/// Longest side of a diff that was cut to its surroundings, in bytes.
const LONGEST_SIDE: usize = 150_000;

/// Lines around a change that was cut out of its file.
const SURROUNDINGS: usize = 10;

/// A diff of two texts. Where they are long, only the part that differs is
/// shown, with a few lines around it.
pub(crate) fn diff(path: &Path, old: Option<&str>, new: &str) -> Value {
    let whole = old.map_or(0, str::len) + new.len();
    let (old, new) = match old {
        Some(old) if LONGEST_WHOLE < whole => {
            let (old, new) = differing(old, new);
            (Some(bounded(old)), bounded(new))
        }
        old => (old.map(bounded), bounded(new)),
    };
    json!({"type": "diff", "path": path, "oldText": old, "newText": new})
}

fn bounded(side: &str) -> String {
    let cut = haft_types::text::head(side, LONGEST_SIDE / 4);
    match side.len() <= LONGEST_SIDE {
        true => side.to_owned(),
        false => format!("{cut}\n[cut: {} bytes in all]\n", side.len()),
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

/// The diff that the structured result of a call describes, if it describes one:
/// a path, what was there, and hunks.
pub(crate) fn of_data(data: &Value) -> Option<Value> {
    let path = Path::new(data["filePath"].as_str()?);
    let hunks = data["structuredPatch"].as_array()?;
    let original = data["originalFile"].as_str();
    if let Some(original) = original
        && let Some(new) = patched(original, hunks)
    {
        return Some(diff(path, Some(original), &new));
    }
    if let (None, Some(content)) = (original, data["content"].as_str()) {
        return Some(diff(path, None, content));
    }
    let side = |skip: char| {
        let lines = hunks.iter().flat_map(|it| it["lines"].as_array().into_iter().flatten());
        let kept = lines.filter_map(Value::as_str).filter(|line| !line.starts_with(skip));
        kept.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect::<String>()
    };
    (!hunks.is_empty()).then(|| diff(path, Some(&side('+')), &side('-')))
}

/// Whether a log keeps only the beginning of what a result describes: texts that are
/// in the record of changes as well.
pub(crate) fn is_shortened(data: &Value) -> bool {
    let texts = ["originalFile", "content"].iter().filter_map(|key| data[*key].as_str());
    data["filePath"].is_string() && texts.into_iter().any(|it| it.ends_with(" characters]"))
}

/// The first line that changed.
pub(crate) fn first_line(data: &Value) -> Option<u64> {
    data["structuredPatch"][0]["newStart"].as_u64().filter(|it| 0 < *it)
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
                _ => return None,
            }
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
        fn hunks_give_the_new_text_back(old in "([a-c]{0,2}\n){0,12}", new in "([a-c]{0,2}\n){0,12}") {
            let shown = of_data(&data(&old, &new)).map(|it| it["newText"].clone());
            prop_assert_eq!(shown, Some(json!(new)));
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
        assert_eq!(made, Some(json!({"type": "diff", "path": "/w/a", "oldText": null, "newText": "x\n"})));
        let mut foreign = data("a\nb\n", "a\nc\n");
        foreign["originalFile"] = json!("something else\n");
        let shown = of_data(&foreign).unwrap_or_default();
        assert_eq!((&shown["oldText"], &shown["newText"]), (&json!("a\nb\n"), &json!("a\nc\n")));
        assert_eq!(of_data(&json!({"stdout": "x"})), None);
    }
}
