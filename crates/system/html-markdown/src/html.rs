//! Converts HTML to Markdown. A first pass removes invisible parts, renames elements the converter does
//! not know, makes links absolute and marks regions. Then the converter runs on the content.

use std::{borrow::Cow, collections::BTreeMap};

use mdream::{CleanConfig, HtmlToMarkdownOptions, html_to_markdown_result};
use url::Url;

use super::{
    code_language::LanguageHint,
    code_lines::{CodeBlock, holds_numbers, names_numbers},
    element_ends::ElementEnds,
    entities::{entities, strip_tags},
    hidden::{is_control, is_hidden},
    regions::{Region, RegionBounds, arrange, text_chars},
    table_write::{is_part_of_table, rewrite_tables},
    tags::{HtmlToken, HtmlTokens, OpenTag},
    tidy_lines::tidy,
};

/// Maximum bytes of one text, tag or table row in the converter; beyond it the page is cut.
const NODE_BYTES: usize = 2 << 20;
/// Maximum size of the embedded data that is kept (JSON-LD, Next.js) and, separately, of `noscript`
/// text.
const DATA_BYTES: usize = 60_000;

/// An HTML page converted to Markdown.
#[derive(Debug, Default)]
pub struct HtmlPage {
    /// The title with whitespace collapsed; `None` if it is missing or empty.
    pub title: Option<String>,
    /// The main content.
    pub markdown: String,
    /// Characters outside the main content that were dropped.
    pub left_out: usize,
    /// Whether the page is probably empty without JavaScript. Then `markdown` ends with its `noscript`
    /// text and embedded data.
    pub needs_script: bool,
    /// Whether the page is probably a login form: it has a password field and little text.
    pub asks_password: bool,
    /// Whether a part was too large for the converter and was dropped.
    pub cut: bool,
}

/// What the first pass found out about the page.
#[derive(Default)]
struct FirstPassFindings {
    title: String,
    base: Option<Url>,
    noscript: String,
    data: String,
    scripts: usize,
    password: bool,
}

/// Converts a page that was fetched from `base`. Pass the page by value to free its memory early. Never
/// fails: malformed HTML is converted as far as possible.
pub fn convert(html: impl AsRef<str>, base: &Url) -> HtmlPage {
    convert_counting(html, base).0
}

/// Like [`convert`]; also returns the number of bytes read, counting repeated reads. It is linear in the
/// size of the page, whatever the page contains.
pub(super) fn convert_counting(html: impl AsRef<str>, base: &Url) -> (HtmlPage, u64) {
    let mut noticed = FirstPassFindings { base: Some(base.clone()), ..FirstPassFindings::default() };
    let (prepared, notes, mut work) = FirstPass::new(html.as_ref(), &mut noticed).run();
    let bytes = html.as_ref().len();
    drop(html);
    let empty_root = notes
        .regions(Region::Root, prepared.len())
        .any(|(start, end)| text_chars(&prepared[start..end]) < 20);
    let asks_password = noticed.password && text_chars(&prepared) < 3_000;
    let arranged = arrange(prepared, notes);
    let mut convert = |part: String| {
        let (rewritten, looked_at) = rewrite_tables(&part);
        work += looked_at + rewritten.len() as u64;
        // Frees the input before the output is built.
        let rewritten = match rewritten {
            Cow::Owned(rewritten) => {
                drop(part);
                rewritten
            }
            Cow::Borrowed(_) => part,
        };
        to_markdown(&rewritten)
    };
    let (mut markdown, mut cut) = convert(arranged.content);
    let beside = convert(arranged.beside);
    cut |= beside.1;
    if !beside.0.is_empty() {
        markdown.push_str("\n\n---\n\n");
        markdown.push_str(&beside.0);
    }
    let needs_script = is_shell(bytes, empty_root, &markdown, noticed.scripts);
    if needs_script {
        add(&mut markdown, "What the page says to those without scripts", &strip_tags(&noticed.noscript));
        add(&mut markdown, "Data within the page", &noticed.data);
    }
    let title = noticed.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = HtmlPage {
        title: (!title.is_empty()).then_some(title),
        markdown: tidy(markdown),
        left_out: arranged.left_out,
        needs_script,
        asks_password,
        cut,
    };
    (page, work)
}

fn to_markdown(html: &str) -> (String, bool) {
    let clean = CleanConfig {
        empty_links: true,
        redundant_links: true,
        self_link_headings: true,
        empty_images: true,
        empty_link_text: true,
        ..CleanConfig::default()
    };
    let options = HtmlToMarkdownOptions {
        clean: Some(clean),
        max_node_bytes: NODE_BYTES,
        ..HtmlToMarkdownOptions::default()
    };
    let result = html_to_markdown_result(html, options);
    (result.markdown, result.truncated)
}

fn add(markdown: &mut String, heading: &str, text: &str) {
    if !text.trim().is_empty() {
        markdown.push_str(&format!("\n\n## {heading}\n\n{}\n", text.trim()));
    }
}

/// Whether a page has almost no text of its own and is filled by scripts.
fn is_shell(bytes: usize, empty_root: bool, markdown: &str, scripts: usize) -> bool {
    if scripts == 0 {
        return false;
    }
    let chars = markdown.chars().filter(|it| !it.is_whitespace()).count();
    chars < 200 && 500 < bytes
        || empty_root && chars < 1_000
        || 10_000 < bytes && chars * 100 < bytes && chars < 2_000
}

/// The first pass over a page.
struct FirstPass<'a> {
    pieces: HtmlTokens<'a>,
    html: &'a str,
    noticed: &'a mut FirstPassFindings,
    out: String,
    /// Which elements have end tags.
    ends: ElementEnds,
    /// Open elements that began a region, by name: the number of same-named elements open inside, and
    /// the region.
    marked: BTreeMap<String, Vec<(usize, Region)>>,
    regions: RegionBounds,
    /// Language of the next code block.
    language: LanguageHint,
    /// The code block being read.
    code: Option<CodeBlock>,
    /// Number of open inline `code` elements.
    code_words: usize,
    /// Number of open lists and quotes, and of those that were nested too deeply.
    nested: (usize, usize),
    /// Number of open tables, and of those that were nested too deeply.
    tables: (usize, usize),
    /// Output position of an emphasis tag that was just opened.
    stressed: Option<usize>,
}

/// Maximum nesting depth of lists and quotes; deeper ones are flattened. Every line of the deepest list
/// is indented by all of them.
const MAX_NESTED: usize = 24;

/// Maximum nesting depth of tables, each of which needs memory; deeper ones become text.
const MAX_TABLES: usize = 24;

/// Whether the tag ends a code block whose end tag is missing.
fn ends_code(name: &str) -> bool {
    matches!(
        name,
        "main"
            | "article"
            | "nav"
            | "header"
            | "footer"
            | "aside"
            | "body"
            | "html"
            | "table"
            | "thead"
            | "tbody"
            | "tfoot"
            | "tr"
            | "td"
            | "th"
    )
}

impl<'a> FirstPass<'a> {
    fn new(html: &'a str, noticed: &'a mut FirstPassFindings) -> Self {
        // Links become longer. Reserved memory costs nothing until it is written, but growing would
        // copy.
        let out = String::with_capacity(html.len() + html.len() / 4);
        Self {
            pieces: HtmlTokens::new(html),
            html,
            noticed,
            out,
            ends: ElementEnds::default(),
            marked: BTreeMap::new(),
            regions: RegionBounds::default(),
            language: LanguageHint::default(),
            code: None,
            code_words: 0,
            nested: (0, 0),
            tables: (0, 0),
            stressed: None,
        }
    }

    /// Returns the prepared page, its regions, and the number of bytes read.
    fn run(mut self) -> (String, RegionBounds, u64) {
        let mut in_head = true;
        while let Some(piece) = self.pieces.next() {
            match piece {
                HtmlToken::Text(text) => self.text(text),
                HtmlToken::Close(name) => self.close(&name),
                HtmlToken::Open(tag) if tag.name == "title" && in_head => self.title(),
                HtmlToken::Open(tag) => {
                    in_head &= tag.name != "body";
                    self.open(&tag);
                }
            }
        }
        self.end_code();
        let looked_at = self.pieces.looked_at() + self.ends.looked_at();
        (self.out, self.regions, looked_at)
    }

    /// Adds text. Whitespace at the beginning of emphasised text moves before the tag, because Markdown
    /// does not recognise `** text**`.
    fn text(&mut self, text: &str) {
        if let Some(code) = &mut self.code {
            return code.text(text);
        }
        let blanks = text.len() - text.trim_start().len();
        match self.stressed.take() {
            Some(at) if 0 < blanks => {
                self.out.insert(at, ' ');
                self.out.push_str(&text[blanks..]);
            }
            _ => self.out.push_str(text),
        }
    }

    /// Reads the title, which is not part of the text. Without an end tag, only its first line counts.
    fn title(&mut self) {
        let Some(HtmlToken::Text(text)) = self.pieces.next() else { return };
        let ends = self.ahead(7).eq_ignore_ascii_case("</title");
        let text = if ends { text } else { text.trim().lines().next().unwrap_or_default() };
        self.noticed.title = entities(haft_types::text::head(text, 1_000));
        if ends {
            self.pieces.next();
        }
    }

    fn open(&mut self, tag: &OpenTag<'_>) {
        let name = &*tag.name;
        if name == "script" {
            self.noticed.scripts += 1;
        }
        if is_unread(name) || is_control(tag) || self.is_mark_of_heading(tag) {
            return self.skip(tag);
        }
        if name != "code" {
            self.language.hear(tag, self.pieces.position());
        }
        if is_hidden(tag) {
            // Without an end tag everything that follows would be hidden, so the element is shown
            // instead.
            if tag.is_void() || self.has_end(name) {
                return self.skip(tag);
            }
        }
        if name == "base"
            && let Some(base) = tag.attribute("href")
            && let Some(Ok(base)) = self.noticed.base.as_ref().map(|from| from.join(base))
        {
            self.noticed.base = Some(base);
        }
        if name == "input" && tag.attribute("type").is_some_and(|it| it.eq_ignore_ascii_case("password")) {
            self.noticed.password = true;
        }
        if self.code.is_some() && ends_code(name) {
            self.end_code();
        }
        if self.code.is_some() {
            return self.open_in_code(tag);
        }
        let region = region_of(tag).filter(|it| !tag.is_void() && !self.regions.is_inside(*it));
        if let Some(region) = region {
            self.regions.begin(region, self.out.len());
            self.marked.entry(name.to_owned()).or_default().push((0, region));
        } else if let Some(open) = self.marked.get_mut(name).and_then(|it| it.last_mut()) {
            open.0 += 1;
        }
        self.stressed = matches!(name, "em" | "i" | "b" | "strong").then_some(self.out.len());
        match name {
            "pre" => {
                let at = self.pieces.position();
                // A column of line numbers must not take the language of the code next to it.
                let numbers = holds_numbers(self.ahead(1_000), "</pre");
                let language = if numbers { None } else { self.language.take(at) };
                self.code = Some(CodeBlock::new(language));
            }
            "math" if self.has_end("math") => self.formula(tag),
            "frame" => self.frame(tag),
            "table" if self.tables.0 == MAX_TABLES => {
                self.tables.1 += 1;
                self.out.push(' ');
            }
            "table" => {
                self.tables.0 += 1;
                self.write(tag);
            }
            // Cells of a table that is nested too deeply become text.
            _ if self.tables.1 != 0 && is_part_of_table(name) => self.out.push(' '),
            "ul" | "ol" | "blockquote" if self.nested.0 == MAX_NESTED => self.nested.1 += 1,
            "ul" | "ol" | "blockquote" => {
                self.nested.0 += 1;
                self.write(tag);
            }
            "code" => {
                self.code_words += 1;
                self.write(tag);
            }
            _ => self.write(tag),
        }
    }

    /// Processes a start tag inside a code block.
    fn open_in_code(&mut self, tag: &OpenTag<'_>) {
        if names_numbers(tag) && holds_numbers(self.ahead(200), &format!("</{}", tag.name)) {
            return self.skip(tag);
        }
        if let Some(code) = &mut self.code {
            code.open(tag);
        }
    }

    /// Writes the open code block. A blank block that only names a language passes it on to the next
    /// block.
    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        if !code.is_blank() {
            code.write(&mut self.out);
        } else if let Some(language) = code.language() {
            self.language.set(language, self.pieces.position());
        }
    }

    /// Writes a formula: its TeX source if there is one, else the text of its parts.
    fn formula(&mut self, tag: &OpenTag<'_>) {
        let (mut parts, mut source, mut annotation) = (String::new(), String::new(), None);
        for piece in self.pieces.by_ref() {
            match piece {
                HtmlToken::Text(text) if annotation == Some(true) => source.push_str(text),
                HtmlToken::Text(text) if annotation.is_none() => parts.push_str(text),
                HtmlToken::Open(inner) if inner.name.starts_with("annotation") => {
                    annotation = Some(inner.attribute("encoding").is_some_and(|it| it.contains("tex")));
                }
                HtmlToken::Close(name) if name.starts_with("annotation") => annotation = None,
                HtmlToken::Close(name) if name == "math" => break,
                _ => {}
            }
        }
        let written = tag.attribute("alttext").filter(|it| !it.trim().is_empty()).unwrap_or(&source);
        let shown = if written.trim().is_empty() { &parts } else { written };
        self.out.push_str(&shown.replace('<', "&lt;"));
    }

    /// Writes a frame as a link to the page it contains.
    fn frame(&mut self, tag: &OpenTag<'_>) {
        let Some(to) = tag.attribute("src").and_then(|it| absolute(it, self.noticed.base.as_ref())) else {
            return;
        };
        let name = tag.attribute("title").or_else(|| tag.attribute("name")).unwrap_or("frame");
        let quoted = |text: &str| text.replace('"', "&quot;").replace('<', "&lt;");
        self.out.push_str(&format!("<p>Frame: <a href=\"{}\">{}</a></p>", quoted(&to), quoted(name)));
    }

    /// Returns the next bytes of the page, at most `most`.
    fn ahead(&self, most: usize) -> &str {
        let start = self.pieces.position();
        let mut end = self.html.len().min(start + most);
        while !self.html.is_char_boundary(end) {
            end -= 1;
        }
        &self.html[start..end]
    }

    /// Whether the link is only an anchor mark (`#`, `¶`, …) as found in headings.
    fn is_mark_of_heading(&self, tag: &OpenTag<'_>) -> bool {
        if tag.name != "a" || !tag.attribute("href").is_some_and(|it| it.starts_with('#')) {
            return false;
        }
        let Some((text, _)) = self.ahead(80).split_once("</a") else { return false };
        text.len() < 20
            && matches!(
                text.trim(),
                "§" | "¶" | "#" | "🔗" | "&para;" | "&sect;" | "&#182;" | "&#xb6;" | "link"
            )
    }

    fn close(&mut self, name: &str) {
        self.stressed = None;
        if self.code.is_some() && ends_code(name) {
            self.end_code();
        }
        if let Some(code) = &mut self.code {
            if code.close(name) {
                self.end_code();
            }
            return;
        }
        match name {
            // The code block was already written.
            "pre" => return,
            "code" if self.code_words == 0 => return,
            "code" => self.code_words -= 1,
            "ul" | "ol" | "blockquote" if self.nested.1 != 0 => {
                self.nested.1 -= 1;
                return;
            }
            "ul" | "ol" | "blockquote" => self.nested.0 = self.nested.0.saturating_sub(1),
            "table" if self.tables.1 != 0 => {
                self.tables.1 -= 1;
                return self.out.push(' ');
            }
            "table" => self.tables.0 = self.tables.0.saturating_sub(1),
            _ if self.tables.1 != 0 && is_part_of_table(name) => return self.out.push(' '),
            _ => {}
        }
        self.out.push_str("</");
        self.out.push_str(renamed(name));
        self.out.push('>');
        let Some(open) = self.marked.get_mut(name) else { return };
        match open.last_mut() {
            Some((inside, _)) if *inside != 0 => *inside -= 1,
            _ => {
                if let Some((_, region)) = open.pop() {
                    self.regions.end(region, self.out.len());
                }
            }
        }
    }

    /// Skips an element with its content.
    fn skip(&mut self, tag: &OpenTag<'_>) {
        if tag.is_void() {
            return;
        }
        let (name, start) = (&*tag.name, self.pieces.position());
        let data = name == "script"
            && (tag.attribute("type").is_some_and(|it| it == "application/ld+json")
                || tag.attribute("id").is_some_and(|it| it == "__NEXT_DATA__"));
        let shows = !matches!(name, "script" | "style");
        if shows && self.ends.is_endless(start) {
            return;
        }
        let mut depth = 1_usize;
        for piece in self.pieces.by_ref() {
            match piece {
                HtmlToken::Text(text) if data => keep(&mut self.noticed.data, text),
                HtmlToken::Text(text) if name == "noscript" => keep(&mut self.noticed.noscript, text),
                HtmlToken::Open(inner) if inner.name == name && !inner.is_void() => depth += 1,
                HtmlToken::Close(closed) if closed == name => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                _ => {}
            }
        }
        // The element has no end tag: show what follows, except for scripts and styles.
        if shows {
            self.pieces.go_to(start);
            self.ends.match_all(self.pieces.clone());
        }
    }

    /// Whether an end tag of this name follows.
    fn has_end(&mut self, name: &str) -> bool {
        self.ends.comes_after(self.html, name, self.pieces.position())
    }

    fn write(&mut self, tag: &OpenTag<'_>) {
        self.out.push('<');
        self.out.push_str(renamed(&tag.name));
        for (name, value) in tag.attributes() {
            let link = matches!((&*tag.name, name), ("a", "href") | ("img", "src"));
            let value = if link {
                match absolute(value, self.noticed.base.as_ref()) {
                    Some(value) => Cow::Owned(value),
                    None => continue,
                }
            } else {
                Cow::Borrowed(value)
            };
            let kept = if link { Some(name) } else { kept_attribute(name) };
            let Some(name) = kept else { continue };
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            if value.contains('"') {
                self.out.push_str(&value.replace('"', "&quot;"))
            } else {
                self.out.push_str(&value)
            }
            self.out.push('"');
        }
        if tag.name == "table"
            && let Some(language) = self.language.near(self.pieces.position())
        {
            self.out.push_str(&format!(" data-lang=\"{language}\""));
        }
        self.out.push('>');
    }
}

/// Attributes the converter uses, except for links.
const KEPT_ATTRIBUTES: &[&str] = &[
    "alt", "title", "class", "start", "type", "align", "colspan", "rowspan", "lang", "checked", "id", "role",
];

/// Returns the canonical name of an attribute that is kept.
fn kept_attribute(name: &str) -> Option<&'static str> {
    KEPT_ATTRIBUTES.iter().find(|it| name.eq_ignore_ascii_case(it)).copied()
}

/// Maps elements the converter does not know to plain ones.
fn renamed(name: &str) -> &str {
    match name {
        "details" | "summary" | "dl" | "dt" | "dd" | "center" | "font" | "noframes" | "frameset" => "div",
        // Nested emphasis would end the outer one.
        "cite" | "u" | "ins" | "mark" | "big" => "span",
        "address" => "div",
        other => other,
    }
}

fn keep(into: &mut String, text: &str) {
    let room = DATA_BYTES.saturating_sub(into.len());
    into.push_str(haft_types::text::head(text, room));
}

fn is_unread(name: &str) -> bool {
    matches!(
        name,
        "script" | "style" | "noscript" | "template" | "svg" | "iframe" | "object" | "embed" | "canvas"
    )
}

fn region_of(tag: &OpenTag<'_>) -> Option<Region> {
    let attribute = |name: &str| tag.attribute(name).unwrap_or_default();
    match &*tag.name {
        "main" => Some(Region::Main),
        "article" => Some(Region::Article),
        "nav" | "header" | "footer" | "aside" => Some(Region::Side),
        _ if attribute("role") == "main" => Some(Region::Main),
        "div" if ["root", "app", "__next", "__nuxt", "___gatsby"].contains(&attribute("id")) => {
            Some(Region::Root)
        }
        _ => None,
    }
}

/// Returns a link as an absolute URL. `None` for `javascript:` and `data:` URLs.
fn absolute(value: &str, base: Option<&Url>) -> Option<String> {
    let value = entities(value.trim());
    let begins = |with: &str| value.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
    if begins("data:") || begins("javascript:") {
        return None;
    }
    let whole = match base.filter(|_| !value.starts_with('#')).map(|base| base.join(&value)) {
        Some(Ok(url)) => String::from(url),
        _ => value,
    };
    // A `|` would end a table cell in Markdown.
    Some(if whole.contains('|') { whole.replace('|', "%7C") } else { whole })
}
