//! Formats results for the model and the user.

use haft_tool::{Block, Content, LineStyle, Rendered, RenderedLine};

use super::output::{Cell, NotebookFile, Output, Parts, PdfFile, TextFile};
use crate::edit_common::thousands;

/// Formats a result for the model.
pub(super) fn text_for_model(output: &Output) -> Content {
    match output {
        Output::Text(file) => Content::text(numbered(file)),
        Output::Image(image) => {
            let size = &image.dimensions;
            let mut blocks = vec![Block::image(image.media_type.clone(), image.base64.clone())];
            if (size.original_width, size.original_height) != (size.display_width, size.display_height) {
                blocks.push(Block::text(format!(
                    "[The picture is {}×{} pixels; shown at {}×{}. Multiply coordinates by {:.3}.]",
                    size.original_width,
                    size.original_height,
                    size.display_width,
                    size.display_height,
                    f64::from(size.original_width) / f64::from(size.display_width.max(1))
                )));
            }
            Content::from(blocks)
        }
        Output::Notebook(file) => notebook(file),
        Output::Pdf(file) => pdf(file),
        Output::Parts(parts) => pages(parts),
        Output::FileUnchanged(file) => Content::text(format!(
            "{} has not changed: the result of your earlier call {} still shows it.",
            file.file_path.display(),
            file.shown_by
        )),
        Output::Binary(file) => {
            let mut text = format!(
                "{} is {} ({} bytes), not text. First bytes:\n{}",
                file.file_path.display(),
                file.sniffed,
                thousands(file.original_size),
                file.first_bytes
            );
            append(&mut text, &file.notices);
            Content::text(text)
        }
    }
}

/// Formats lines with their numbers, followed by the notices.
fn numbered(file: &TextFile) -> String {
    let mut text =
        String::with_capacity(file.content.len() + 8 * usize::try_from(file.num_lines).unwrap_or(0));
    if file.num_lines != 0 {
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', file.content.as_bytes()).chain([file.content.len()]);
        for ((at, end), number) in ends.enumerate().zip(file.start_line..) {
            let line = &file.content[start..end];
            start = end + 1;
            if at != 0 {
                text.push('\n');
            }
            push_number(&mut text, number);
            if let Some(Some(letters)) = file.marks.get(at) {
                text.push(':');
                text.push_str(letters);
            }
            text.push('\t');
            text.push_str(line);
        }
    }
    append(&mut text, &file.notices);
    text
}

/// Appends a number without allocating; called once per line.
fn push_number(text: &mut String, number: u64) {
    let rest = number / 10;
    if rest != 0 {
        push_number(text, rest);
    }
    text.push(char::from_digit(u32::try_from(number % 10).unwrap_or(0), 10).unwrap_or('0'));
}

fn append(text: &mut String, notices: &[String]) {
    for notice in notices {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(notice);
    }
}

fn notebook(file: &NotebookFile) -> Content {
    let mut blocks = Vec::new();
    let mut text = String::new();
    for cell in &file.cells {
        text.push_str(&cell_text(cell));
        for output in &cell.outputs {
            if !output.text.is_empty() {
                text.push_str(&format!("<output>\n{}\n</output>\n", output.text.trim_end_matches('\n')));
            }
            if let Some((media_type, data)) = &output.image {
                blocks.push(Block::text(std::mem::take(&mut text)));
                blocks.push(Block::image(media_type.clone(), data.clone()));
            }
        }
    }
    let mut text = text.trim_end_matches('\n').to_owned();
    if file.cells.is_empty() {
        text.push_str("[The notebook has no cells.]");
    }
    append(&mut text, &file.notices);
    if !text.is_empty() {
        blocks.push(Block::text(text));
    }
    Content::from(blocks)
}

fn cell_text(cell: &Cell) -> String {
    let language = cell.language.as_deref().map(|it| format!(" language=\"{it}\"")).unwrap_or_default();
    format!(
        "<cell id=\"{}\" type=\"{}\"{language}>\n{}\n</cell>\n",
        cell.cell_id,
        cell.cell_type,
        cell.source.trim_end_matches('\n')
    )
}

fn pdf(file: &PdfFile) -> Content {
    let mut blocks = Vec::new();
    let mut text = String::new();
    for (number, page) in &file.pages {
        text.push_str(&format!("--- page {number} of {} ---\n", file.page_count));
        match file.images.iter().find(|it| it.0 == *number) {
            Some((_, media_type, data)) => {
                blocks.push(Block::text(std::mem::take(&mut text)));
                blocks.push(Block::image(media_type.clone(), data.clone()));
            }
            None => text.push_str(&format!("{}\n", page.trim())),
        }
    }
    let mut text = text.trim_end_matches('\n').to_owned();
    append(&mut text, &file.notices);
    if !text.is_empty() {
        blocks.push(Block::text(text));
    }
    Content::from(blocks)
}

fn pages(parts: &Parts) -> Content {
    let mut blocks: Vec<Block> = parts
        .images
        .iter()
        .map(|(media_type, data)| Block::image(media_type.clone(), data.clone()))
        .collect();
    let mut text = format!(
        "[{} pages of {} from page {} on, as pictures; the file has {} pages.]",
        parts.count,
        parts.file_path.display(),
        parts.first_page,
        parts.page_count
    );
    append(&mut text, &parts.notices);
    blocks.push(Block::text(text));
    Content::from(blocks)
}

/// Maximum number of lines shown to the user.
const PREVIEW: usize = 12;

/// Formats a result for the user.
pub(super) fn render_for_user(output: &Output) -> Rendered {
    let file = match output {
        Output::Text(file) => file,
        Output::FileUnchanged(file) => {
            return Rendered::headline(format!("{}: unchanged", file.file_path.display()));
        }
        Output::Image(image) => {
            let size = &image.dimensions;
            return Rendered::headline(format!(
                "{} {}×{}, {} bytes",
                image.media_type,
                size.original_width,
                size.original_height,
                thousands(image.original_size)
            ));
        }
        other => return Rendered::preview(&text_for_model(other).to_text()),
    };
    let lines = numbered(file).lines().map(|line| RenderedLine::new(LineStyle::Plain, line)).collect();
    let headline = format!("{} ({} of {} lines)", file.file_path.display(), file.num_lines, file.total_lines);
    Rendered { headline, lines, ..Rendered::default() }.folded_to(PREVIEW)
}
