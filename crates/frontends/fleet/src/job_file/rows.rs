//! Tables of jobs: CSV and JSON lines.

use serde_json::Value;

use super::{
    FileLocation,
    located_yaml::{LocatedError, LocatedNode, LocatedValue},
};

/// Parses a CSV file with a header line to mappings of strings.
pub(super) fn of_csv(text: &str) -> Result<Vec<LocatedNode>, Vec<LocatedError>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Rows are counted by line ends.
    let text = &text.replace("\r\n", "\n");
    if let Some(place) = open_quote(text) {
        return Err(vec![(
            place,
            String::from("a quote begins here and does not end; write \"\" for one in a value"),
        )]);
    }
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let at = |row: u64, column: usize| FileLocation { row: usize::try_from(row).unwrap_or(1), column };
    let names = reader.headers().map_err(|err| vec![csv_error(&err)])?.clone();
    let mut wrong = Vec::new();
    for (column, name) in names.iter().enumerate() {
        if name.trim().is_empty() {
            wrong.push((at(1, column + 1), format!("column {} has no name", column + 1)));
        } else if names.iter().take(column).any(|it| it.trim() == name.trim()) {
            wrong.push((at(1, column + 1), format!("the column `{}` is there twice", name.trim())));
        }
    }
    if names.is_empty() {
        wrong.push((at(1, 1), String::from("there are no columns; the first line names them")));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(err) => {
                wrong.push(csv_error(&err));
                continue;
            }
        };
        let row = record.position().map_or(1, csv::Position::line);
        if record.len() != names.len() {
            wrong.push((
                at(row, record.len().min(names.len()) + 1),
                format!("there are {} values for {} columns", record.len(), names.len()),
            ));
            continue;
        }
        let fields = names.iter().zip(&record).enumerate().map(|(column, (name, value))| {
            let place = at(row, column + 1);
            let value = LocatedValue::One(Value::String(value.trim().to_owned()));
            (name.trim().to_owned(), place, LocatedNode { at: place, value })
        });
        rows.push(LocatedNode { at: at(row, 1), value: LocatedValue::Table(fields.collect()) });
    }
    if wrong.is_empty() { Ok(rows) } else { Err(wrong) }
}

/// Returns the location of an unterminated quoted value, which would swallow the rest of the file.
fn open_quote(text: &str) -> Option<FileLocation> {
    let (mut place, mut begun, mut is_start) = (FileLocation { row: 1, column: 1 }, None, true);
    let mut chars = text.chars().peekable();
    while let Some(it) = chars.next() {
        match (it, begun) {
            ('"', Some(_)) if chars.peek() == Some(&'"') => drop(chars.next()),
            ('"', Some(_)) => begun = None,
            ('"', None) if is_start => begun = Some(place),
            (',', None) => place.column += 1,
            ('\n', None) => place = FileLocation { row: place.row + 1, column: 1 },
            ('\n', Some(_)) => place.row += 1,
            _ => (),
        }
        is_start = begun.is_none() && matches!(it, ',' | '\n' | '\r');
    }
    begun
}

fn csv_error(err: &csv::Error) -> LocatedError {
    let row = err.position().map_or(1, csv::Position::line);
    (FileLocation { row: usize::try_from(row).unwrap_or(1), column: 1 }, err.to_string())
}

/// Parses lines of JSON objects.
pub(super) fn of_json_lines(text: &str) -> Result<Vec<LocatedNode>, Vec<LocatedError>> {
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row = number + 1;
        match LocatedNode::of_json(line) {
            Err((at, reason)) => wrong.push((FileLocation { row, column: at.column }, reason)),
            Ok(value) if value.table().is_none() => {
                wrong.push((FileLocation { row, column: 1 }, String::from("a line must be an object")));
            }
            Ok(value) => rows.push(moved(value, number)),
        }
    }
    if wrong.is_empty() { Ok(rows) } else { Err(wrong) }
}

/// Shifts all locations down by a number of rows.
fn moved(located: LocatedNode, down: usize) -> LocatedNode {
    let place = |at: FileLocation| FileLocation { row: at.row + down, ..at };
    let value = match located.value {
        LocatedValue::One(one) => LocatedValue::One(one),
        LocatedValue::List(items) => {
            LocatedValue::List(items.into_iter().map(|it| moved(it, down)).collect())
        }
        LocatedValue::Table(fields) => LocatedValue::Table(
            fields.into_iter().map(|(name, at, it)| (name, place(at), moved(it, down))).collect(),
        ),
    };
    LocatedNode { at: place(located.at), value }
}
