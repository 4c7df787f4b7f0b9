//! Draws the last output lines of a running command, or the progress of an MCP tool, and redraws them in
//! place.

use std::io::{IsTerminal as _, Write as _};

use haft_tool::ProgressEvent;
use serde_json::Value;

use crate::style::{clean, painted};

/// Maximum columns of a line. A line that wraps could not be redrawn in place.
const WIDEST: usize = 100;

/// Draws on standard error, over its previous output.
#[derive(Default)]
pub struct LiveTail {
    drawn: usize,
}

impl LiveTail {
    /// Whether standard error is a terminal.
    pub fn is_seen() -> bool {
        std::io::stderr().is_terminal()
    }

    /// Draws the progress of a call.
    pub fn take(&mut self, event: &ProgressEvent) {
        let lines = lines(event);
        draw(&lines, self.drawn);
        self.drawn = lines.len();
    }

    /// Erases the drawn lines; the result follows.
    pub fn end(&mut self) {
        if 0 < self.drawn {
            draw(&[], std::mem::take(&mut self.drawn));
        }
    }
}

fn lines(event: &ProgressEvent) -> Vec<String> {
    let tail = event.data["tail"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut lines: Vec<String> = tail.map(|line| format!("  {}", short(line))).collect();
    if let Some(elapsed) = event.data["elapsedMs"].as_u64() {
        let count = event.data["lines"].as_u64().unwrap_or(0);
        lines.push(format!("  … {}.{} s, {count} lines", elapsed / 1_000, elapsed % 1_000 / 100));
    }
    lines.extend(how_far(&event.data));
    lines
}

/// One line from an MCP progress notification; `None` if it has no usable content.
fn how_far(data: &Value) -> Option<String> {
    let done = data["progress"].as_f64()?;
    let count = match data["total"].as_f64().filter(|it| 0.0 < *it) {
        Some(total) => format!("{done} of {total}"),
        None => done.to_string(),
    };
    let said = data["message"].as_str().map(|it| format!(": {}", it.replace('\n', " "))).unwrap_or_default();
    Some(format!("  … {}", short(&format!("{count}{said}"))))
}

fn short(line: &str) -> String {
    clean(&line.replace('\t', " ")).chars().take(WIDEST).collect()
}

/// Draws `lines` over the `drawn` lines of the previous call.
fn draw(lines: &[String], drawn: usize) {
    let up = if 0 < drawn { format!("\u{1b}[{drawn}A\u{1b}[J") } else { String::new() };
    let text: String = lines.iter().map(|line| format!("{}\n", painted(line, "2", true))).collect();
    let mut terminal = std::io::stderr().lock();
    terminal.write_all(format!("{up}{text}").as_bytes()).and_then(|()| terminal.flush()).ok();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_of_servers_is_one_line() {
        for (data, want) in [
            (
                json!({"progress": 3.0, "total": 12.0, "message": "step\n\u{1b}[2J"}),
                Some("  … 3 of 12: step \\u{1b}[2J"),
            ),
            (json!({"progress": 0.5}), Some("  … 0.5")),
            (json!({"tail": []}), None),
        ] {
            assert_eq!(how_far(&data).as_deref(), want);
        }
    }
}
