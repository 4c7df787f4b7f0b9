//! HTML as Markdown: a first pass takes out what nobody reads, renames what the
//! converter would leave as tags, makes links absolute and marks regions; then
//! the converter runs over the content.

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

/// What one text, tag or row may hold while it is converted.
const NODE_BYTES: usize = 2 << 20;
/// How much of the data within a page is kept.
const DATA_BYTES: usize = 60_000;

/// A page of HTML as Markdown.
#[derive(Debug, Default)]
pub(crate) struct HtmlPage {
    pub(crate) title: Option<String>,
    pub(crate) markdown: String,
    /// Characters beside the content that are not shown.
    pub(crate) left_out: usize,
    /// Whether only a script would show something here.
    pub(crate) needs_script: bool,
    /// Whether the page asks for a password.
    pub(crate) asks_password: bool,
    /// Whether something was too large to convert.
    pub(crate) cut: bool,
}

/// What the first pass notices.
#[derive(Default)]
struct FirstPassFindings {
    title: String,
    base: Option<Url>,
    noscript: String,
    data: String,
    scripts: usize,
    password: bool,
}

/// Converts a page that came from `base`. A page that is given away takes no
/// memory when it has been gone through once.
pub(crate) fn convert(html: impl AsRef<str>, base: &Url) -> HtmlPage {
    convert_counting(html, base).0
}

/// Converts a page; says how many bytes were looked at for it, those looked at again
/// counted again. In proportion to the page, whatever it holds.
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
        // What is not needed any more takes no memory while the rest is made.
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

/// Whether a page has next to nothing before its scripts ran.
fn is_shell(bytes: usize, empty_root: bool, markdown: &str, scripts: usize) -> bool {
    if scripts == 0 {
        return false;
    }
    let chars = markdown.chars().filter(|it| !it.is_whitespace()).count();
    chars < 200 && 500 < bytes
        || empty_root && chars < 1_000
        || 10_000 < bytes && chars * 100 < bytes && chars < 2_000
}

/// The first pass.
struct FirstPass<'a> {
    pieces: HtmlTokens<'a>,
    html: &'a str,
    noticed: &'a mut FirstPassFindings,
    out: String,
    /// Where elements end.
    ends: ElementEnds,
    /// Elements that are open and marked, by their names: how many of the name were
    /// opened inside, and what ends them.
    marked: BTreeMap<String, Vec<(usize, Region)>>,
    regions: RegionBounds,
    /// What the next block of code is in.
    language: LanguageHint,
    /// The block of code that is open.
    code: Option<CodeBlock>,
    /// Elements for code within text that are open.
    code_words: usize,
    /// Lists and quotes that are open, and those that were too deep.
    nested: (usize, usize),
    /// Tables that are open, and those that were too deep.
    tables: (usize, usize),
    /// Where something stressed was opened just now.
    stressed: Option<usize>,
}

/// Lists and quotes inside each other, so many at most: every line of the deepest
/// one is indented by all of them.
const MAX_NESTED: usize = 24;

/// Tables inside each other, so many at most: what is known of each takes memory.
const MAX_TABLES: usize = 24;

/// Elements that end a block of code whose end is not written.
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
        // Links become longer. Memory that is not written to is none, a copy of what was written is.
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

    /// The page as it is converted, where its regions are, and how many bytes were
    /// looked at for it.
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

    /// Blanks at the beginning of something stressed stand before it: Markdown
    /// would not see the stress otherwise.
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

    /// The title is not part of the text. One that does not end is a line.
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
            // An element whose end is not written is shown rather than all that follows hidden.
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
                // A column of numbers takes no language from the code beside it.
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
            // What is in it are words.
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

    /// A tag within a block of code.
    fn open_in_code(&mut self, tag: &OpenTag<'_>) {
        if names_numbers(tag) && holds_numbers(self.ahead(200), &format!("</{}", tag.name)) {
            return self.skip(tag);
        }
        if let Some(code) = &mut self.code {
            code.open(tag);
        }
    }

    /// Writes the block of code that is open. One that only says its language says it
    /// for the next one.
    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        if !code.is_blank() {
            code.write(&mut self.out);
        } else if let Some(language) = code.language() {
            self.language.set(language, self.pieces.position());
        }
    }

    /// A formula as its makers write it, or as its parts read one after the other.
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

    /// A frame holds another page.
    fn frame(&mut self, tag: &OpenTag<'_>) {
        let Some(to) = tag.attribute("src").and_then(|it| absolute(it, self.noticed.base.as_ref())) else {
            return;
        };
        let name = tag.attribute("title").or_else(|| tag.attribute("name")).unwrap_or("frame");
        let quoted = |text: &str| text.replace('"', "&quot;").replace('<', "&lt;");
        self.out.push_str(&format!("<p>Frame: <a href=\"{}\">{}</a></p>", quoted(&to), quoted(name)));
    }

    /// What comes next, so many bytes of it at most.
    fn ahead(&self, most: usize) -> &str {
        let start = self.pieces.position();
        let mut end = self.html.len().min(start + most);
        while !self.html.is_char_boundary(end) {
            end -= 1;
        }
        &self.html[start..end]
    }

    /// A link in a heading that only leads to the heading itself.
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
            // The end of a block that was written already.
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

    /// Leaves out an element with all that is in it.
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
        // It never ended: what follows is shown, but for scripts and styles.
        if shows {
            self.pieces.go_to(start);
            self.ends.match_all(self.pieces.clone());
        }
    }

    /// Whether an end tag of this name comes at all.
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

/// Attributes the converter looks at; links have their own.
const KEPT_ATTRIBUTES: &[&str] = &[
    "alt", "title", "class", "start", "type", "align", "colspan", "rowspan", "lang", "checked", "id", "role",
];

/// An attribute that is kept, in small letters.
fn kept_attribute(name: &str) -> Option<&'static str> {
    KEPT_ATTRIBUTES.iter().find(|it| name.eq_ignore_ascii_case(it)).copied()
}

/// What the converter would leave as tags becomes a plain block.
fn renamed(name: &str) -> &str {
    match name {
        "details" | "summary" | "dl" | "dt" | "dd" | "center" | "font" | "noframes" | "frameset" => "div",
        // Italics within italics would end them.
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

/// The whole address of a link; nothing for one that runs something or holds a
/// whole file.
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
    // A bar would end a cell of a table.
    Some(if whole.contains('|') { whole.replace('|', "%7C") } else { whole })
}
