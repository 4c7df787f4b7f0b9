//! Wraps help to the terminal's width. clap leaves some lines unwrapped (usage, a flag with its value
//! name, a word without spaces); this module breaks them.

use std::io;

/// Whether every line fits into this many columns.
pub(super) fn fits(text: &str, columns: usize) -> bool {
    text.lines().all(|line| line.chars().count() <= columns)
}

/// Wraps every line that is longer than this many columns.
pub(super) fn fold(text: &str, columns: usize) -> String {
    let row = |line| if fits(line, columns) { String::from(line) } else { folded(line, columns) };
    text.lines().map(|line| row(line) + "\n").collect()
}

/// Columns of the terminal on standard output; otherwise the variable `COLUMNS`. `None` if neither is
/// known.
pub(super) fn columns() -> Option<usize> {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).map(|size| usize::from(size.ws_col));
    let said = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    terminal.ok().or_else(said).filter(|columns| 0 < *columns)
}

/// Wraps one line, with continuation rows indented by four more columns. Breaks at spaces; a word wider
/// than a row is split anywhere.
fn folded(line: &str, columns: usize) -> String {
    let own = line.chars().take_while(|it| *it == ' ').count();
    let deeper = " ".repeat((own + 4).min(columns / 2));
    let (mut rows, mut row) = (Vec::new(), " ".repeat(own.min(columns / 2)));
    for word in line.split_whitespace() {
        let blank = usize::from(!row.trim_end().is_empty());
        if columns < row.chars().count() + blank + word.chars().count() && blank == 1 {
            rows.push(std::mem::replace(&mut row, deeper.clone()));
        } else if blank == 1 {
            row.push(' ');
        }
        for letter in word.chars() {
            if row.chars().count() == columns {
                rows.push(std::mem::replace(&mut row, deeper.clone()));
            }
            row.push(letter);
        }
    }
    rows.push(row);
    rows.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_become_rows() {
        for (line, columns, want) in [
            ("Usage: haft tool call [OPTIONS]", 20, "Usage: haft tool\n    call [OPTIONS]"),
            ("      --flag <VALUE>", 16, "      --flag\n        <VALUE>"),
            ("  {\"a\",\"b\",\"c\"}", 8, "  {\"a\",\"\n    b\",\"\n    c\"}"),
            ("short", 8, "short"),
            ("", 8, ""),
        ] {
            assert_eq!(folded(line, columns), want, "{line}");
        }
    }
}
