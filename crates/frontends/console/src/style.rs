//! Rendered tool calls, colours and escaping for a terminal.

use std::io::IsTerminal as _;

use haft_tool::Rendered;
use haft_tui::{LinePrinter, TerminalCaps};

/// Whether standard output should have colours: it is a terminal, and the environment allows them.
pub fn colours() -> bool {
    std::io::stdout().is_terminal() && wants_colours()
}

/// Whether the environment allows colours (`NO_COLOR`, `TERM`).
pub fn wants_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty())
        && std::env::var_os("TERM").is_none_or(|it| it != "dumb")
}

/// A rendered call as text.
pub fn text(rendered: &Rendered, colours: bool) -> String {
    if colours {
        return printer().rendered(rendered);
    }
    let mut out = String::new();
    if !rendered.headline.is_empty() {
        out.push_str(&clean(&rendered.headline));
        out.push('\n');
    }
    for line in rendered.folded(usize::MAX, "") {
        out.push_str(&clean(&line.text));
        out.push('\n');
    }
    out
}

/// The line printer for the terminal on standard output.
pub fn printer() -> LinePrinter {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    LinePrinter::new(look(), if columns == 0 { 88 } else { columns })
}

/// The terminal's capabilities according to the environment variables.
pub fn look() -> TerminalCaps {
    TerminalCaps::of_variables(|name| std::env::var(name).ok())
}

/// Wraps text in the SGR sequence `paint`, if `colours` is set and `paint` is not empty.
pub fn painted(text: &str, paint: &str, colours: bool) -> String {
    if colours && !paint.is_empty() { format!("\u{1b}[{paint}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Escapes control characters, which a terminal would execute. Tabs become four spaces; line breaks
/// stay.
pub fn clean(text: &str) -> String {
    let escape = |it: char| match it {
        '\t' => String::from("    "),
        '\n' => String::from("\n"),
        // Bidirectional controls can make text look like other text.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            it.escape_unicode().to_string()
        }
        // So can invisible characters, and line breaks that only some programs honour.
        '\u{200b}'
        | '\u{2028}'..='\u{2029}'
        | '\u{2060}'..='\u{2064}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}' => it.escape_unicode().to_string(),
        it if it.is_control() => it.escape_default().to_string(),
        it => it.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use haft_tool::{LineStyle, RenderedLine};

    use super::*;

    #[test]
    fn colours_are_ours_and_controls_are_escaped() {
        let rendered = Rendered {
            headline: String::from("Edit"),
            lines: vec![
                RenderedLine::new(LineStyle::Added, "+ a\u{1b}[2Jb"),
                RenderedLine::new(LineStyle::Plain, "plain"),
            ],
            ..Rendered::default()
        };
        assert_eq!(text(&rendered, false), "Edit\n+ a\\u{1b}[2Jb\nplain\n");
        let drawn = LinePrinter::new(TerminalCaps::default(), 80).rendered(&rendered);
        assert_eq!(drawn, "\u{1b}[1mEdit\u{1b}[m\n\u{1b}[32m+ a␛[2Jb\u{1b}[m\nplain\n");
    }
}
