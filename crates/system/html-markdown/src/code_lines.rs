//! Splits a code block into lines. Syntax highlighters wrap each line in an element and leave line
//! breaks to the style sheet; line numbers next to the code are dropped.

use super::{code_language::language_of, tags::OpenTag};

/// A code block while it is read.
#[derive(Debug, Default)]
pub(super) struct CodeBlock {
    /// The text so far, with entities not decoded.
    text: String,
    language: Option<String>,
    /// Number of open `pre` elements inside this block.
    inner: usize,
    /// For every open span, whether it is a line.
    spans: Vec<bool>,
    /// Position where the current line began.
    line_at: usize,
    /// Whether a line element was closed since.
    line_closed: bool,
    /// Where the last inner `code` element began, and where it ended.
    code: (usize, Option<usize>),
}

impl CodeBlock {
    pub(super) fn new(language: Option<String>) -> Self {
        Self { language, ..Self::default() }
    }

    /// Whether only whitespace was read so far.
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    pub(super) fn language(self) -> Option<String> {
        self.language
    }

    /// Adds text inside the block.
    pub(super) fn text(&mut self, text: &str) {
        if self.line_closed && !text.starts_with(['\n', '\r']) {
            if text.trim().is_empty() && !text.contains('\n') {
                return;
            }
            if self.is_unbroken() {
                self.text.push('\n');
            }
            self.line_at = self.text.len();
            self.line_closed = false;
        }
        self.text.push_str(text);
    }

    /// Processes a start tag inside the block.
    pub(super) fn open(&mut self, tag: &OpenTag<'_>) {
        match &*tag.name {
            "br" => self.text.push('\n'),
            "pre" => {
                self.inner += 1;
                self.open_line();
            }
            "code" => {
                if self.is_blank()
                    && let Some(language) = language_of(tag)
                {
                    self.language = Some(language);
                }
                self.open_code();
            }
            "span" => {
                let is_line = is_line(tag);
                self.spans.push(is_line);
                if is_line {
                    self.open_line();
                }
            }
            name if is_block(name) => self.open_line(),
            _ => {}
        }
    }

    /// Processes an end tag inside the block. Returns true if it ends the block.
    pub(super) fn close(&mut self, name: &str) -> bool {
        let is_line = match name {
            "pre" if self.inner == 0 => return true,
            "pre" => {
                self.inner -= 1;
                true
            }
            "span" => self.spans.pop().unwrap_or_default(),
            "code" => {
                self.code.1 = Some(self.text.len());
                false
            }
            name => is_block(name),
        };
        self.line_closed |= is_line;
        false
    }

    /// Begins a new line.
    pub(super) fn open_line(&mut self) {
        if self.line_closed && self.is_unbroken() || !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.line_at = self.text.len();
        self.line_closed = false;
    }

    /// Ends the current line, even if it is empty.
    pub(super) fn close_line(&mut self) {
        self.line_closed = true;
    }

    /// Whether the current line contains no line break yet.
    fn is_unbroken(&self) -> bool {
        !self.text[self.line_at..].contains('\n')
    }

    /// Adjacent `code` elements with nothing in between are separate lines.
    fn open_code(&mut self) {
        let (began, ended) = self.code;
        if ended == Some(self.text.len()) && !self.text[began..].contains('\n') {
            self.text.push('\n');
        }
        self.code = (self.text.len(), None);
    }

    /// Appends the block as HTML for the converter. Appends nothing if the block is blank.
    pub(super) fn write(self, out: &mut String) {
        if self.is_blank() {
            return;
        }
        let text =
            self.text.strip_prefix("\r\n").or_else(|| self.text.strip_prefix('\n')).unwrap_or(&self.text);
        match &self.language {
            Some(language) => out.push_str(&format!("<pre><code class=\"language-{language}\">")),
            None => out.push_str("<pre><code>"),
        }
        out.push_str(text.trim_end());
        out.push_str("</code></pre>");
    }
}

/// Whether the element begins on a new line.
fn is_block(name: &str) -> bool {
    matches!(
        name,
        "div" | "p" | "li" | "ol" | "ul" | "section" | "figure" | "blockquote" | "dl" | "dt" | "dd"
    ) || is_heading(name)
}

pub(super) fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

/// Classes that highlighters give to spans containing one line.
const LINE_CLASSES: [&str; 8] = [
    "line",
    "token-line",
    "code-line",
    "hljs-line",
    "view-line",
    "highlight-line",
    "react-code-line",
    "code__line",
];

/// Whether a span contains one line.
fn is_line(tag: &OpenTag<'_>) -> bool {
    let block = |style: &str| {
        let style: String = style.chars().filter(|it| !it.is_whitespace()).collect();
        ["display:block", "display:flex", "display:table-row", "display:grid"]
            .iter()
            .any(|it| style.contains(it))
    };
    tag.has_class_of(&LINE_CLASSES)
        || tag.attribute("data-line").is_some()
        || tag.attribute("style").is_some_and(block)
}

/// Classes that highlighters give to line numbers.
const NUMBER_CLASSES: [&str; 18] = [
    "ln",
    "lnt",
    "lineno",
    "linenos",
    "linenumber",
    "linenumbers",
    "line-number",
    "line-numbers",
    "line-numbers-rows",
    "lineNumber",
    "js-line-number",
    "react-syntax-highlighter-line-number",
    "hljs-ln-numbers",
    "hljs-ln-n",
    "blob-num",
    "gutter",
    "rouge-gutter",
    "linenodiv",
];

/// Whether the class marks an element as line numbers.
pub(super) fn names_numbers(tag: &OpenTag<'_>) -> bool {
    tag.has_class_of(&NUMBER_CLASSES)
}

/// Whether the text before `end_tag` consists of digits only.
pub(super) fn holds_numbers(inside: &str, end_tag: &str) -> bool {
    let (mut digits, mut in_tag) = (0, false);
    let (inside, ends) = match inside.split_once(end_tag) {
        Some((inside, _)) => (inside, true),
        None => (inside, false),
    };
    for it in inside.chars() {
        match it {
            '<' => in_tag = true,
            '>' => in_tag = false,
            _ if in_tag || it.is_whitespace() => {}
            _ if it.is_ascii_digit() => digits += 1,
            _ => return false,
        }
    }
    // Without an end tag, a few digits are not enough.
    ends || 5 < digits
}

#[cfg(test)]
mod tests {
    use super::{
        super::tags::{HtmlToken, HtmlTokens},
        *,
    };

    fn lines(html: &str) -> String {
        let mut code = CodeBlock::default();
        for piece in HtmlTokens::new(html) {
            match piece {
                HtmlToken::Text(text) => code.text(text),
                HtmlToken::Open(tag) => code.open(&tag),
                HtmlToken::Close(name) => {
                    code.close(&name);
                }
            }
        }
        code.text.trim_end().to_owned()
    }

    #[test]
    fn code_lines_survive_every_highlighter() {
        for (make, html) in [
            ("newlines", "a\n\n  b"),
            (
                "spans without newlines",
                "<code><span class=line>a</span><span class=line></span><span class='line x'>  b</span></code>",
            ),
            (
                "spans and newlines",
                "<code><span class=line>a</span>\n<span class=line></span>\n<span class=line>  b</span></code>",
            ),
            (
                "newlines in spans",
                "<span class=line><span class=cl>a\n</span></span><span class=line><span class=cl>\n</span></span><span class=line><span class=cl>  b\n</span></span>",
            ),
            (
                "breaks in spans",
                "<span class=token-line>a<br></span><span class=token-line><br></span><span class=token-line>  b<br></span>",
            ),
            ("boxes", "<div class=c><div>a</div><div></div><div>  b</div></div>"),
            ("boxes and newlines", "<div>a</div>\n<div></div>\n<div>  b</div>\n"),
            ("a list", "<ol><li>a</li><li></li><li>  b</li></ol>"),
            ("a list without ends", "<ol><li>a</li><li></li><li>  b</ol>"),
            ("one code each", "<code>a</code><code></code><code>  b</code>"),
            (
                "styles",
                "<span style='display: block'>a</span><span style='display:block'></span><span style='display:flex'>  b</span>",
            ),
            ("a line, then text", "<span data-line=''>a</span>\n\n  <b>b</b>"),
        ] {
            assert_eq!(lines(html), "a\n\n  b", "{make}");
        }
        assert_eq!(lines("<span>a</span><span> b</span> <i>c</i>"), "a b c");
        assert_eq!(lines("a<div>b</div>c"), "a\nb\nc");
        assert_eq!(lines("a <code>b</code> <code>c</code> d"), "a b c d");
    }
}
