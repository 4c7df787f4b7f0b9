//! Full-text search in a log.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
};

use haft_types::text;
use memchr::memmem;

use crate::{log_index::LogIndex, row::RowKind, row_content::RowContent};

/// A row that contains the text.
#[derive(Debug)]
pub(crate) struct MatchedRow {
    pub(crate) row: usize,
    pub(crate) excerpt: String,
}

/// Returns the first `most` rows that contain the text, ignoring case.
pub(crate) fn search(index: &LogIndex, wanted: &str, most: usize) -> io::Result<Vec<MatchedRow>> {
    let wanted = wanted.trim().to_lowercase();
    let mut hits = Vec::new();
    if wanted.is_empty() {
        return Ok(hits);
    }
    for row in candidates(index, &wanted)? {
        if most <= hits.len() {
            break;
        }
        let words = row_words(index, row);
        if let Some(excerpt) = excerpt(&words, &wanted) {
            hits.push(MatchedRow { row, excerpt });
        }
    }
    Ok(hits)
}

/// Returns rows that may contain the text, judged by raw bytes.
fn candidates(index: &LogIndex, wanted: &str) -> io::Result<Vec<usize>> {
    let plain = wanted.bytes().all(|it| it.is_ascii_alphanumeric() || b" _-.:()".contains(&it));
    if !plain {
        return Ok((0..index.rows.len()).collect());
    }
    let finder = memmem::Finder::new(wanted.as_bytes());
    let mut lines: Vec<u64> = Vec::new();
    let mut reader = BufReader::with_capacity(1 << 20, File::open(index.path())?);
    let (mut line, mut offset) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let read = (&mut reader).take(64 << 20).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        line.make_ascii_lowercase();
        if finder.find(&line).is_some() {
            lines.push(offset);
        }
        offset += read as u64;
    }
    let holds = |offset: u64| lines.binary_search(&offset).is_ok();
    let fits = |row: &usize| {
        let row = &index.rows[*row];
        let result = match row.kind {
            RowKind::Call(call) => index.calls.get(call as usize).and_then(|it| it.result),
            _ => None,
        };
        holds(row.spot.offset) || result.is_some_and(|it| holds(it.offset))
    };
    Ok((0..index.rows.len()).filter(fits).collect())
}

/// Returns the full text of a row.
fn row_words(index: &LogIndex, row: usize) -> String {
    match index.content(row) {
        RowContent::Words(words) => words,
        RowContent::Call(input) => {
            let call = match index.rows.get(row).map(|it| it.kind) {
                Some(RowKind::Call(call)) => index.calls.get(call as usize),
                _ => None,
            };
            let result = call.and_then(|it| index.result(it).content);
            let result = result.map(|it| it.to_text()).unwrap_or_default();
            format!("{} {input}\n{result}", call.map_or("", |it| it.tool.as_str()))
        }
        _ => String::new(),
    }
}

fn excerpt(words: &str, wanted: &str) -> Option<String> {
    let line = words.lines().find(|line| line.to_lowercase().contains(wanted))?;
    let at = line.to_lowercase().find(wanted)?;
    let start = line.floor_char_boundary(at.min(line.len()).saturating_sub(50));
    let dots = if 0 < start { "…" } else { "" };
    Some(format!("{dots}{}", text::one_line(&line[start..], 160)))
}
