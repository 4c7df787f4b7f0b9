//! Renders terminal output as an image: `ansi_picture COLUMNS FIRST_WORDS < output > picture.svg`.
//!
//! The image starts with the first line that contains these words. It consists of text, so that it
//! scales and can be searched.
#![allow(clippy::print_stdout, missing_docs, reason = "a program for developers")]

use std::{
    fmt::Write as _,
    io::{self, Read as _},
};

use avt::{Cell, Color, Pen, Terminal};

/// More rows than any output, so that nothing scrolls away.
const ROWS: usize = 2_000;
const CELL: (f64, f64) = (8.4, 19.0);
const MARGIN: f64 = 18.0;
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d8dbe2";
const FAINT: &str = "#8a91a0";
const INDEXED: [&str; 16] = [
    "#3a3f4b", "#f2777a", "#8fd694", "#ffcc66", "#6fb3ff", "#d99bff", "#66d9d0", "#d8dbe2", "#5c6370",
    "#ff8f92", "#a8e6ac", "#ffdb8f", "#94c7ff", "#e6bbff", "#8ce8e0", "#ffffff",
];

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let columns = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(100);
    let words = arguments.next().unwrap_or_default();
    let mut output = Vec::new();
    io::stdin().read_to_end(&mut output)?;
    let mut terminal = Terminal::new(columns, ROWS).map_err(io::Error::other)?;
    terminal.feed([&*String::from_utf8_lossy(&output)]);
    let screen = terminal.screen();
    let lines: Vec<Vec<Cell>> =
        (0..ROWS).filter_map(|row| Some(screen.line(row)?.cells().to_vec())).collect();
    let is_blank = |line: &Vec<Cell>| line.iter().all(|cell| cell.char() == ' ');
    let last = lines.iter().rposition(|line| !is_blank(line)).map_or(0, |at| at + 1);
    let holds = |line: &Vec<Cell>| line.iter().map(Cell::char).collect::<String>().contains(&words);
    let first = lines.iter().position(holds).unwrap_or(0).min(last);
    print!("{}", picture(&lines[first..last], columns));
    Ok(())
}

fn picture(lines: &[Vec<Cell>], columns: usize) -> String {
    let width = columns as f64 * CELL.0 + 2.0 * MARGIN;
    let height = lines.len() as f64 * CELL.1 + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\" \
         fill=\"{FOREGROUND}\">\n"
    );
    for (row, cells) in lines.iter().enumerate() {
        let bottom = MARGIN + (row as f64 + 0.75) * CELL.1;
        for (column, run) in runs(cells) {
            let text: String = run.iter().filter(|cell| 0 < cell.width()).map(Cell::char).collect();
            let shown = text.trim();
            if shown.is_empty() {
                continue;
            }
            let indent = text.chars().take_while(|it| *it == ' ').count();
            let outside = text.chars().count() - shown.chars().count();
            let left = MARGIN + (column + indent) as f64 * CELL.0;
            // `textLength` keeps columns aligned with any font.
            let length = (run.len() - outside) as f64 * CELL.0;
            let about = style(run[0].pen());
            // Non-breaking spaces, because consecutive spaces would collapse.
            let text = shown.replace('&', "&amp;").replace('<', "&lt;").replace(' ', "\u{a0}");
            let place = format!("x=\"{left:.1}\" y=\"{bottom:.1}\" textLength=\"{length:.1}\"");
            writeln!(out, "<text {place}{about}>{text}</text>").ok();
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// Groups adjacent cells of the same style; returns each group with its start column.
fn runs(cells: &[Cell]) -> Vec<(usize, &[Cell])> {
    let mut at = 0;
    let same = |a: &Cell, b: &Cell| a.pen() == b.pen();
    let run = |run| {
        let begins = at;
        at += <[Cell]>::len(run);
        (begins, run)
    };
    cells.chunk_by(same).map(run).collect()
}

fn style(pen: &Pen) -> String {
    let mut out = String::new();
    let colour = match pen.foreground() {
        Some(Color::Indexed(number)) => INDEXED.get(usize::from(number)).map(|it| (*it).to_owned()),
        Some(Color::RGB(it)) => Some(format!("#{:02x}{:02x}{:02x}", it.r, it.g, it.b)),
        None if pen.is_faint() => Some(FAINT.to_owned()),
        None => None,
    };
    if let Some(colour) = colour {
        write!(out, " fill=\"{colour}\"").ok();
    }
    if pen.is_bold() {
        out.push_str(" font-weight=\"bold\"");
    }
    if pen.is_italic() {
        out.push_str(" font-style=\"italic\"");
    }
    out
}
