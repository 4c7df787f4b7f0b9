//! Shows cells and outputs of a Jupyter notebook.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    line_page::{fit, tokens},
    output::{Cell, CellOutput, NotebookFile},
};

/// Maximum bytes of a notebook; larger ones are rejected.
pub(super) const MAX_BYTES: u64 = 100 * 1024 * 1024;

/// Maximum characters shown of one output.
const OUTPUT_CHARS: usize = 8000;

/// Maximum number of images in one result.
const MAX_IMAGES: usize = 10;

/// Maximum base64 characters of an image that is decoded; it is shrunk if necessary.
const IMAGE_CHARS: usize = 20 * 1024 * 1024;

/// Maximum characters of a cell id.
const ID_CHARS: usize = 80;

/// The requested cells.
pub(super) struct CellRange {
    /// Number of the first cell, counted from 1.
    pub(super) first: usize,
    pub(super) count: Option<usize>,
    pub(super) max_tokens: usize,
}

/// A formatted notebook.
pub(super) struct ShownNotebook {
    pub(super) file: NotebookFile,
    /// Whether all cells are shown in full.
    pub(super) complete: bool,
}

/// The parts of a notebook used here. Cells are parsed only when shown, because a notebook may have a
/// million.
#[derive(Deserialize)]
struct Notebook<'a> {
    #[serde(borrow)]
    cells: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
}

/// Shows the requested cells; `None` if the text is not a notebook.
pub(super) fn show(path: &Path, text: &str, ask: &CellRange) -> Option<ShownNotebook> {
    let Notebook { cells, metadata } = serde_json::from_str(text).ok()?;
    let metadata = metadata.and_then(|it| serde_json::from_str(it.get()).ok()).unwrap_or(Value::Null);
    let language = language_of(&serde_json::json!({ "metadata": metadata }));
    let mut shown = Vec::new();
    let mut notices = Vec::new();
    let mut left = ask.max_tokens;
    let mut images = 0;
    let mut whole = true;
    let last = ask.count.map_or(cells.len(), |count| (ask.first - 1).saturating_add(count).min(cells.len()));
    let mut next = None;
    for (at, cell) in cells.iter().enumerate().take(last).skip(ask.first - 1) {
        let cell = serde_json::from_str(cell.get()).unwrap_or_else(|err| {
            whole = false;
            serde_json::json!({ "source": format!("[This cell cannot be read: {err}]") })
        });
        let mut cell = read_cell(&cell, at, &language, &mut images);
        if left < cost(&cell) {
            if !shown.is_empty() {
                next = Some(at + 1);
                break;
            }
            // A cell that does not fit on any page is cut.
            cut_cell(&mut cell, left);
            whole = false;
            notices.push(format!(
                "[Cell {} is cut; take out the rest of it with Bash (jq '.cells[{at}]').]",
                cell.cell_id
            ));
        }
        left = left.saturating_sub(cost(&cell));
        shown.push(cell);
    }
    let behind = next.or((last < cells.len()).then_some(last + 1));
    if let Some(next) = behind {
        notices.push(format!(
            "{}cells {}-{} of {}. Continue with offset={next}]",
            crate::edit_common::PARTIAL_MARK,
            ask.first,
            next - 1,
            cells.len()
        ));
    }
    if cells.len() < ask.first && !cells.is_empty() {
        notices.push(format!("[The notebook has only {} cells.]", cells.len()));
    }
    let complete = whole && ask.first == 1 && behind.is_none();
    Some(ShownNotebook { file: NotebookFile { file_path: path.to_owned(), cells: shown, notices }, complete })
}

/// Estimates the tokens of a cell.
fn cost(cell: &Cell) -> usize {
    let outputs: usize = cell.outputs.iter().map(|it| tokens(&it.text) + 8).sum();
    tokens(&cell.source) + outputs + 12
}

/// Cuts a cell to the budget: half for the source, the rest for outputs.
fn cut_cell(cell: &mut Cell, max_tokens: usize) {
    let source = fit(&cell.source, max_tokens / 2).to_owned();
    let mut left = max_tokens.saturating_sub(tokens(&source) + 12);
    cell.source = source;
    let mut kept = Vec::new();
    let total = cell.outputs.len();
    for output in std::mem::take(&mut cell.outputs) {
        let cost = tokens(&output.text) + 8;
        if left < cost {
            break;
        }
        left -= cost;
        kept.push(output);
    }
    if kept.len() < total {
        let text = format!("[{} more outputs are not shown.]", total - kept.len());
        kept.push(CellOutput { text, image: None });
    }
    cell.outputs = kept;
}

/// Returns the language of the notebook's kernel.
pub(crate) fn language_of(notebook: &Value) -> String {
    let at = |pointer: &str| notebook.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    at("/metadata/language_info/name")
        .or_else(|| at("/metadata/kernelspec/language"))
        .unwrap_or_else(|| "python".to_owned())
}

fn read_cell(cell: &Value, at: usize, language: &str, images: &mut usize) -> Cell {
    let text = |key: &str| cell.get(key).and_then(Value::as_str).map(str::to_owned);
    let cell_type = text("cell_type").unwrap_or_else(|| "raw".to_owned());
    let is_code = cell_type == "code";
    let outputs = cell.get("outputs").and_then(Value::as_array);
    Cell {
        cell_id: text("id").map_or_else(|| format!("cell-{at}"), |id| one_word(&id)),
        source: joined(cell.get("source")),
        language: is_code.then(|| one_word(language)),
        execution_count: cell.get("execution_count").filter(|it| !it.is_null()).cloned(),
        outputs: outputs.into_iter().flatten().map(|it| read_output(it, images)).collect(),
        cell_type: one_word(&cell_type),
    }
}

/// Sanitizes an id or type from the file for use in a tag.
fn one_word(text: &str) -> String {
    let odd = |it: char| it.is_control() || matches!(it, '"' | '<' | '>');
    text.chars().take(ID_CHARS).map(|it| if odd(it) { '_' } else { it }).collect()
}

fn read_output(output: &Value, images: &mut usize) -> CellOutput {
    match output.get("output_type").and_then(Value::as_str) {
        Some("stream") => CellOutput { text: cut(&joined(output.get("text"))), image: None },
        Some("error") => {
            let part = |key: &str| output.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let trace = joined_lines(output.get("traceback"));
            let text =
                if trace.is_empty() { format!("{}: {}", part("ename"), part("evalue")) } else { trace };
            CellOutput { text: cut(&text), image: None }
        }
        _ => {
            let data = output.get("data");
            let image = ["image/png", "image/jpeg", "image/gif", "image/webp"].into_iter().find_map(|kind| {
                let base64: String = joined(data.and_then(|it| it.get(kind)))
                    .chars()
                    .filter(|it| !it.is_whitespace())
                    .collect();
                (!base64.is_empty()).then(|| (kind.to_owned(), base64))
            });
            let mut text = cut(&joined(data.and_then(|it| it.get("text/plain"))));
            let image = image.filter(|(kind, base64)| {
                let fits = *images < MAX_IMAGES && base64.len() <= IMAGE_CHARS;
                if !fits {
                    text.push_str(&format!("\n[{kind}, {} characters of base64, not shown]", base64.len()));
                }
                *images += usize::from(fits);
                fits
            });
            CellOutput { text, image }
        }
    }
}

/// Returns text that is stored as one string or as a list of strings.
pub(crate) fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn joined_lines(value: Option<&Value>) -> String {
    let parts = value.and_then(Value::as_array);
    let lines: Vec<&str> = parts.into_iter().flatten().filter_map(Value::as_str).collect();
    lines.join("\n")
}

/// Cuts the middle of a long output and removes color codes.
fn cut(text: &str) -> String {
    let text = without_escapes(text);
    let count = text.chars().count();
    if count <= OUTPUT_CHARS {
        return text;
    }
    let head = haft_types::text::head(&text, OUTPUT_CHARS / 2);
    let tail = haft_types::text::tail(&text, OUTPUT_CHARS / 2);
    format!("{head}\n[{} characters not shown]\n{tail}", count - OUTPUT_CHARS)
}

/// Removes terminal escapes, which tracebacks contain.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            out.push(character);
            continue;
        }
        if characters.next() == Some('[') {
            for it in characters.by_ref() {
                if !(' '..='?').contains(&it) {
                    break;
                }
            }
        }
    }
    out
}
