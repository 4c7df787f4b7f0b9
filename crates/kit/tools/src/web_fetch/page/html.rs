//! HTML as Markdown: a first pass takes out what nobody reads, renames what the
//! converter would leave as tags, makes links absolute and marks regions; then
//! the converter runs over the content.

use mdream::{CleanConfig, HtmlToMarkdownOptions, html_to_markdown_result};
use url::Url;

use super::{
    regions::{Region, arrange, regions, text_chars},
    tags::{HtmlPiece, OpenTag, Pieces},
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
struct Noticed {
    title: String,
    base: Option<Url>,
    noscript: String,
    data: String,
    scripts: usize,
    password: bool,
}

/// Converts a page that came from `base`.
pub(crate) fn convert(html: &str, base: &Url) -> HtmlPage {
    let mut noticed = Noticed { base: Some(base.clone()), ..Noticed::default() };
    let prepared = Preparing::new(html, &mut noticed).run();
    let arranged = arrange(&prepared);
    let (mut markdown, mut cut) = to_markdown(&arranged.content);
    let beside = to_markdown(&arranged.beside);
    cut |= beside.1;
    if !beside.0.is_empty() {
        markdown.push_str("\n\n---\n\n");
        markdown.push_str(&beside.0);
    }
    let needs_script = is_shell(html, &prepared, &markdown, noticed.scripts);
    if needs_script {
        add(&mut markdown, "What the page says to those without scripts", &strip_tags(&noticed.noscript));
        add(&mut markdown, "Data within the page", &noticed.data);
    }
    let title = noticed.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let asks_password = noticed.password && text_chars(&prepared) < 3_000;
    HtmlPage {
        title: (!title.is_empty()).then_some(title),
        markdown: tidy(&markdown),
        left_out: arranged.left_out,
        needs_script,
        asks_password,
        cut,
    }
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
fn is_shell(html: &str, prepared: &str, markdown: &str, scripts: usize) -> bool {
    let chars = markdown.chars().filter(|it| !it.is_whitespace()).count();
    let empty_root =
        regions(prepared, Region::Root).iter().any(|(start, end)| text_chars(&prepared[*start..*end]) < 20);
    scripts != 0
        && (chars < 200 && 500 < html.len()
            || empty_root && chars < 1_000
            || 10_000 < html.len() && chars * 100 < html.len() && chars < 2_000)
}

/// The first pass.
struct Preparing<'a> {
    pieces: Pieces<'a>,
    html: &'a str,
    noticed: &'a mut Noticed,
    out: String,
    /// Names that have no end tag any more, so that nobody looks again.
    endless: Vec<String>,
    /// Elements that are open and marked: their names, and what ends them.
    marked: Vec<(String, usize, Region)>,
}

impl<'a> Preparing<'a> {
    fn new(html: &'a str, noticed: &'a mut Noticed) -> Self {
        let out = String::with_capacity(html.len());
        Self { pieces: Pieces::new(html), html, noticed, out, endless: Vec::new(), marked: Vec::new() }
    }

    fn run(mut self) -> String {
        let mut in_head = true;
        while let Some(piece) = self.pieces.next() {
            match piece {
                HtmlPiece::Text(text) => self.out.push_str(text),
                HtmlPiece::Close(name) => self.close(&name),
                HtmlPiece::Open(tag) if tag.name == "title" && in_head => self.title(),
                HtmlPiece::Open(tag) => {
                    in_head &= tag.name != "body";
                    self.open(&tag);
                }
            }
        }
        self.out
    }

    /// The title is not part of the text.
    fn title(&mut self) {
        for piece in self.pieces.by_ref() {
            match piece {
                HtmlPiece::Text(text) if self.noticed.title.len() < 1_000 => {
                    self.noticed.title.push_str(&entities(haft_types::text::head(text, 1_000)));
                }
                HtmlPiece::Close(_) => break,
                _ => {}
            }
        }
    }

    fn open(&mut self, tag: &OpenTag<'_>) {
        let name = tag.name.as_str();
        if name == "script" {
            self.noticed.scripts += 1;
        }
        if is_unread(name) {
            return self.skip(tag);
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
        if let Some(region) = region_of(tag).filter(|_| !tag.is_void()) {
            self.out.push_str(&region.opening());
            self.marked.push((name.to_owned(), 0, region));
        } else if let Some(open) = self.marked.iter_mut().rev().find(|it| it.0 == name) {
            open.1 += 1;
        }
        self.write(tag);
    }

    fn close(&mut self, name: &str) {
        self.out.push_str("</");
        self.out.push_str(renamed(name));
        self.out.push('>');
        if let Some(at) = self.marked.iter().rposition(|it| it.0 == name) {
            match self.marked[at].1.checked_sub(1) {
                Some(left) => self.marked[at].1 = left,
                None => {
                    let (_, _, region) = self.marked.remove(at);
                    self.out.push_str(&region.closing());
                }
            }
        }
    }

    /// Leaves out an element with all that is in it.
    fn skip(&mut self, tag: &OpenTag<'_>) {
        if tag.is_void() {
            return;
        }
        let (name, start) = (tag.name.as_str(), self.pieces.position());
        let data = name == "script"
            && (tag.attribute("type").is_some_and(|it| it == "application/ld+json")
                || tag.attribute("id").is_some_and(|it| it == "__NEXT_DATA__"));
        let mut depth = 1_usize;
        for piece in self.pieces.by_ref() {
            match piece {
                HtmlPiece::Text(text) if data => keep(&mut self.noticed.data, text),
                HtmlPiece::Text(text) if name == "noscript" => keep(&mut self.noticed.noscript, text),
                HtmlPiece::Open(inner) if inner.name == name && !inner.is_void() => depth += 1,
                HtmlPiece::Close(closed) if closed == name => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                _ => {}
            }
        }
        // It never ended: what follows is shown, but for scripts and styles.
        if !matches!(name, "script" | "style") {
            self.endless.push(name.to_owned());
            self.pieces.go_to(start);
        }
    }

    /// Whether an end tag of this name comes at all.
    fn has_end(&mut self, name: &str) -> bool {
        if self.endless.iter().any(|it| it == name) {
            return false;
        }
        let rest = &self.html.as_bytes()[self.pieces.position()..];
        let mark = format!("</{name}");
        let found = memchr::memmem::find(rest, mark.as_bytes()).is_some()
            || memchr::memmem::find(rest, mark.to_ascii_uppercase().as_bytes()).is_some();
        if !found {
            self.endless.push(name.to_owned());
        }
        found
    }

    fn write(&mut self, tag: &OpenTag<'_>) {
        self.out.push('<');
        self.out.push_str(renamed(&tag.name));
        for (name, value) in tag.attributes() {
            let link = matches!((tag.name.as_str(), name), ("a", "href") | ("img", "src"));
            let value = match link {
                true => match absolute(value, self.noticed.base.as_ref()) {
                    Some(value) => value,
                    None => continue,
                },
                false if KEPT_ATTRIBUTES.iter().any(|it| name.eq_ignore_ascii_case(it)) => value.to_owned(),
                false => continue,
            };
            self.out.push_str(&format!(
                " {}=\"{}\"",
                name.to_ascii_lowercase(),
                value.replace('"', "&quot;")
            ));
        }
        self.out.push('>');
    }
}

/// Attributes the converter looks at; links have their own.
const KEPT_ATTRIBUTES: &[&str] =
    &["alt", "title", "class", "start", "type", "align", "colspan", "rowspan", "lang", "checked", "id"];

/// What the converter would leave as tags becomes a plain block.
fn renamed(name: &str) -> &str {
    match name {
        "details" | "summary" | "dl" | "dt" | "dd" | "center" | "font" => "div",
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
        "script"
            | "style"
            | "noscript"
            | "template"
            | "svg"
            | "iframe"
            | "object"
            | "embed"
            | "canvas"
            | "math"
    )
}

fn is_hidden(tag: &OpenTag<'_>) -> bool {
    let style = tag.attribute("style").unwrap_or_default();
    let style: String =
        style.chars().filter(|it| !it.is_whitespace()).collect::<String>().to_ascii_lowercase();
    let hidden = tag.attribute("hidden").is_some_and(|it| !it.eq_ignore_ascii_case("until-found"));
    hidden || style.contains("display:none") || style.contains("visibility:hidden")
}

fn region_of(tag: &OpenTag<'_>) -> Option<Region> {
    let attribute = |name: &str| tag.attribute(name).unwrap_or_default();
    match tag.name.as_str() {
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
    let lower: String = value.chars().take(11).collect::<String>().to_ascii_lowercase();
    if lower.starts_with("data:") || lower.starts_with("javascript:") {
        return None;
    }
    match base.filter(|_| !value.starts_with('#')).map(|base| base.join(&value)) {
        Some(Ok(url)) => Some(url.into()),
        _ => Some(value),
    }
}

/// The entities that occur in titles and addresses.
fn entities(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&nbsp;", " ")
        .replace("&mdash;", "—")
        .replace("&ndash;", "–")
        .replace("&amp;", "&")
}

fn strip_tags(html: &str) -> String {
    let (mut text, mut in_tag) = (String::new(), false);
    for it in html.chars() {
        match it {
            '<' => in_tag = true,
            '>' => in_tag = false,
            it if !in_tag => text.push(it),
            _ => {}
        }
    }
    entities(&text)
}

/// No more than one blank line in a row, outside of code.
fn tidy(markdown: &str) -> String {
    let mut tidy = String::with_capacity(markdown.len());
    let (mut blank, mut in_code) = (0, false);
    for line in markdown.trim_matches('\n').lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let line = if in_code { line } else { line.trim_end_matches(' ') };
        blank = if line.trim().is_empty() { blank + 1 } else { 0 };
        if in_code || blank < 2 {
            tidy.push_str(line);
            tidy.push('\n');
        }
    }
    tidy
}
