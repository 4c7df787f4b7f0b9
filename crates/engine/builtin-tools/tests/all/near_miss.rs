//! Edits by models that do not copy exactly: a table of several hundred, each
//! played as it is and with the lines named by their marks.
//!
//! The table is `data/near_miss.jsonl`. It is made by `near_miss/make.rs` from
//! `near_miss/samples.rs`; after a change there, `HAFT_UPDATE=1 cargo nextest
//! run -p haft-builtin-tools --test near_miss` writes it anew, for review.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "test code")]

use crate::file_rig;
#[path = "near_miss/make.rs"]
mod make;
#[path = "near_miss/samples.rs"]
mod samples;

use std::path::Path;

use file_rig::Rig;
use make::{Row, Verdict};
use serde_json::{Value, json};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/data/near_miss.jsonl");

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(TABLE).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_table_is_in_step() {
    let made: String = make::table().iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect();
    if std::env::var_os("HAFT_UPDATE").is_some() {
        std::fs::create_dir_all(Path::new(TABLE).parent().unwrap()).unwrap();
        std::fs::write(TABLE, &made).unwrap();
    }
    assert!(std::fs::read_to_string(TABLE).unwrap_or_default() == made, "run again with HAFT_UPDATE=1");
    assert!(300 < made.lines().count(), "{}", made.lines().count());
}

/// How the place is named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    /// By its text alone.
    Text,
    /// By its text and the marks of its lines.
    TextAndLines,
    /// By the marks alone.
    Lines,
}

/// The marks of the lines a row is about, as Read shows them.
async fn marks(rig: &Rig, path: &str, (first, last): (usize, usize)) -> String {
    let shown = rig.say("Read", json!({ "file_path": path, "marks": true })).await;
    let mark = |number: usize| {
        let found = shown.lines().find_map(|line| {
            let (mark, _) = line.split_once('\t')?;
            mark.starts_with(&format!("{number}:")).then_some(mark)
        });
        found.unwrap_or_else(|| panic!("line {number} in {shown}")).to_owned()
    };
    if first == last { mark(first) } else { format!("{}-{}", mark(first), mark(last)) }
}

async fn check(row: &Row, mode: Mode) -> Result<(), String> {
    let rig = Rig::new(&[("f", &row.file)]);
    let mut input = json!({ "file_path": "f", "old_string": row.old, "new_string": row.new });
    match mode {
        Mode::Text => drop(rig.read("f").await),
        Mode::TextAndLines => input["lines"] = Value::from(marks(&rig, "f", row.lines).await),
        Mode::Lines => {
            input["lines"] = Value::from(marks(&rig, "f", row.lines).await);
            input["old_string"] = Value::from("");
            input["new_string"] = Value::from(wanted_lines(row));
        }
    }
    let said = rig.say("Edit", input).await;
    let got = rig.text("f");
    let applies = match (&row.verdict, mode) {
        (Verdict::Applies { .. }, _) => true,
        // Naming the lines is what makes it unique.
        (Verdict::Ambiguous, mode) => mode != Mode::Text,
        (Verdict::NotFound { .. }, _) => false,
    };
    // What was not to be found by its text has no replacement to put there.
    if !applies && mode == Mode::Lines {
        return Ok(());
    }
    let want = if applies { &row.want } else { &row.file };
    if got != *want {
        return Err(format!("{}, {mode:?}: the file is {got:?}\ninstead of {want:?}\n{said}", row.name));
    }
    let missing = |part: &str| Err(format!("{}, {mode:?}: {part:?} is not in {said}", row.name));
    match &row.verdict {
        Verdict::Applies { ignoring } if mode != Mode::Lines => {
            match ignoring.iter().find(|it| !said.contains(it.as_str())) {
                Some(it) => missing(it),
                None if ignoring.is_empty() && said.contains("ignoring") => missing("(no note)"),
                None => Ok(()),
            }
        }
        Verdict::Ambiguous if mode == Mode::Text && !said.contains("matches 2 places") => missing("2 places"),
        Verdict::NotFound { line } => {
            let parts = [format!("line {line}"), "U+".to_owned(), format!("\n{line}\t")];
            match parts.into_iter().find(|it| !said.contains(it)) {
                Some(it) => missing(&it),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// The lines of the wanted file in the place of those the row is about.
fn wanted_lines(row: &Row) -> String {
    let (first, last) = row.lines;
    let behind = row.file.replace("\r\n", "\n").lines().count() - last;
    let want = row.want.replace("\r\n", "\n");
    let lines: Vec<&str> = want.lines().collect();
    lines[first - 1..lines.len() - behind].join("\n")
}

async fn check_all(mode: Mode) {
    let mut wrong = Vec::new();
    let rows = rows();
    for row in &rows {
        wrong.extend(check(row, mode).await.err());
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n\n"));
}

#[tokio::test]
async fn by_text() {
    check_all(Mode::Text).await;
}

#[tokio::test]
async fn by_text_and_lines() {
    check_all(Mode::TextAndLines).await;
}

#[tokio::test]
async fn by_lines() {
    check_all(Mode::Lines).await;
}
