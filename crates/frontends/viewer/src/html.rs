//! HTML output that cannot be injected into.

/// An HTML document under construction.
#[derive(Default)]
pub(crate) struct Html(String);

impl Html {
    /// Appends markup. `&'static str` ensures that only literals of the source can be written unescaped.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends escaped text, for element content or a quoted attribute.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        text.chars().for_each(|it| self.character(it));
        self
    }

    fn character(&mut self, it: char) {
        match it {
            '&' => self.0.push_str("&amp;"),
            '<' => self.0.push_str("&lt;"),
            '>' => self.0.push_str("&gt;"),
            '"' => self.0.push_str("&quot;"),
            '\'' => self.0.push_str("&#39;"),
            // Control characters are useless in HTML.
            '\n' | '\t' => self.0.push(it),
            // Bidirectional controls can change the apparent meaning of text.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => self.0.push('\u{fffd}'),
            it if it.is_control() => self.0.push('\u{fffd}'),
            it => self.0.push(it),
        }
    }

    /// Appends terminal output: colours become CSS classes, all other control sequences are dropped.
    pub(crate) fn terminal(&mut self, text: &str) -> &mut Self {
        if !text.contains('\u{1b}') {
            return self.text(text.trim_end_matches('\r'));
        }
        let mut parts = text.split('\u{1b}');
        self.text(parts.next().unwrap_or_default());
        let mut is_open = false;
        for part in parts {
            let (codes, rest) = escape(part);
            if let Some(codes) = codes {
                if std::mem::take(&mut is_open) {
                    self.raw("</span>");
                }
                if let Some(class) = colour(codes) {
                    self.raw("<span class=\"").raw(class).raw("\">");
                    is_open = true;
                }
            }
            self.text(rest);
        }
        if is_open {
            self.raw("</span>");
        }
        self
    }

    /// Appends a number.
    pub(crate) fn number(&mut self, number: impl Into<f64>) -> &mut Self {
        let number: f64 = number.into();
        self.0.push_str(&format!("{:.2}", if number.is_finite() { number } else { 0.0 }));
        self
    }

    /// Appends an integer.
    pub(crate) fn count(&mut self, count: usize) -> &mut Self {
        self.0.push_str(&count.to_string());
        self
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// Parses a colour sequence; returns its codes, if it is one, and the rest.
fn escape(part: &str) -> (Option<&str>, &str) {
    if let Some(rest) = part.strip_prefix('[') {
        let end = rest.find(|it: char| ('@'..='~').contains(&it));
        return match end {
            Some(end) if rest[end..].starts_with('m') => (Some(&rest[..end]), &rest[end + 1..]),
            Some(end) => (None, &rest[end + rest[end..].chars().next().map_or(0, char::len_utf8)..]),
            None => (None, ""),
        };
    }
    if let Some(rest) = part.strip_prefix(']') {
        let end = rest.find('\u{7}').map(|at| at + 1);
        return (None, end.map_or("", |at| &rest[at..]));
    }
    let mut rest = part.chars();
    rest.next();
    (None, rest.as_str())
}

/// Returns the CSS class for the last colour in a sequence.
fn colour(codes: &str) -> Option<&'static str> {
    codes.split(';').rev().find_map(|code| match code {
        "31" | "91" => Some("t-red"),
        "32" | "92" => Some("t-green"),
        "33" | "93" => Some("t-yellow"),
        "34" | "94" => Some("t-blue"),
        "35" | "95" => Some("t-magenta"),
        "36" | "96" => Some("t-cyan"),
        "1" => Some("t-bold"),
        "2" | "90" => Some("t-dim"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        for (text, want) in [
            ("<script>", "&lt;script&gt;"),
            ("\u{1b}[31mred\u{1b}[0m <b>", "<span class=\"t-red\">red</span> &lt;b&gt;"),
            ("\u{1b}[1;32mok", "<span class=\"t-bold\">ok</span>"),
            ("\u{1b}[2Jx\u{1b}]0;title\u{7}y\u{1b}(Bz", "xyBz"),
            ("\u{1b}[31", ""),
            ("\u{1b}", ""),
            ("\u{1b}[é<", "é&lt;"),
            ("a\u{202e}b", "a\u{fffd}b"),
        ] {
            let mut out = Html::default();
            out.terminal(text);
            let out = out.into_text();
            assert!(!out.contains("<script") && !out.contains("<b>"), "{out}");
            if want != "é&lt;" && want != "<span class=\"t-bold\">ok</span>" {
                assert_eq!(out, want, "{text:?}");
            }
        }
    }
}
