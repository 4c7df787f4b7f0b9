//! Rendered calls on a terminal.

use std::io::IsTerminal as _;

use haft_tool::Rendered;
use haft_tui::{LinePrinter, TerminalCaps};

/// Whether standard output takes colours.
pub fn colours() -> bool {
    std::io::stdout().is_terminal() && wants_colours()
}

/// Whether the environment allows colours on a terminal.
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

/// How the terminal of standard output shows what was said and done.
pub fn printer() -> LinePrinter {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    LinePrinter::new(look(), if columns == 0 { 88 } else { columns })
}

/// What the variables of the environment say about the terminal.
pub fn look() -> TerminalCaps {
    TerminalCaps::of_variables(|name| std::env::var(name).ok())
}

/// Text in a colour, or as it is.
pub fn painted(text: &str, paint: &str, colours: bool) -> String {
    if colours && !paint.is_empty() { format!("\u{1b}[{paint}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// A terminal obeys control characters, so foreign text must not hold any.
pub fn clean(text: &str) -> String {
    let escape = |it: char| match it {
        '\t' => String::from("    "),
        '\n' => String::from("\n"),
        // Bidirectional controls make text look like other text.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            it.escape_unicode().to_string()
        }
        // So do characters nobody sees, and line breaks only some see.
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
