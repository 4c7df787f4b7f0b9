//! Which part of a page is its content. Marks are put into the page while it is
//! prepared, and the page is cut at them afterwards.

/// A kind of region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Region {
    /// `main` or what says it is.
    Main,
    /// `article`.
    Article,
    /// Navigation, headers, footers, asides.
    Side,
    /// Where a script would draw the page.
    Root,
}

/// How all marks begin.
const MARK: &[u8] = b"<!--haft";

impl Region {
    const ALL: [Self; 4] = [Self::Main, Self::Article, Self::Side, Self::Root];

    /// What stands before a region.
    pub(crate) fn opening(self) -> &'static str {
        match self {
            Self::Main => "<!--haft+m-->",
            Self::Article => "<!--haft+a-->",
            Self::Side => "<!--haft+s-->",
            Self::Root => "<!--haft+r-->",
        }
    }

    /// What stands after it.
    pub(crate) fn closing(self) -> &'static str {
        match self {
            Self::Main => "<!--haft-m-->",
            Self::Article => "<!--haft-a-->",
            Self::Side => "<!--haft-s-->",
            Self::Root => "<!--haft-r-->",
        }
    }
}

/// Where the outermost regions of one kind are: from the beginning of the
/// opening mark to the end of the closing one. One that does not end goes to the
/// end.
pub(crate) fn regions(html: &str, kind: Region) -> Vec<(usize, usize)> {
    let (opening, closing) = (kind.opening(), kind.closing());
    let mut found = Vec::new();
    let (mut depth, mut start, mut at) = (0_usize, 0, 0);
    while let Some(hit) = memchr::memmem::find(&html.as_bytes()[at..], MARK) {
        let here = at + hit;
        at = here + MARK.len();
        if html[here..].starts_with(opening) {
            if depth == 0 {
                start = here;
            }
            depth += 1;
        } else if html[here..].starts_with(closing) && depth != 0 {
            depth -= 1;
            if depth == 0 {
                found.push((start, here + closing.len()));
            }
        }
    }
    if depth != 0 {
        found.push((start, html.len()));
    }
    found
}

/// About how many characters of a page a person would see.
pub(crate) fn text_chars(html: &str) -> usize {
    // Counts characters, not bytes, and no blanks.
    let counts = |byte: &&u8| **byte != b'>' && !byte.is_ascii_whitespace() && **byte & 0xc0 != 0x80;
    let (mut count, mut rest) = (0, html.as_bytes());
    loop {
        let end = memchr::memchr(b'<', rest).unwrap_or(rest.len());
        count += rest[..end].iter().filter(counts).count();
        let Some(tag) = memchr::memchr(b'>', &rest[end..]) else { return count };
        rest = &rest[end + tag..];
    }
}

/// A page as it is converted.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Arranged {
    /// What comes first.
    pub(crate) content: String,
    /// What stands beside it.
    pub(crate) beside: String,
    /// Characters that were left out because the page says where its content is.
    pub(crate) left_out: usize,
}

/// The content of a page: what it calls its main part, if that holds enough of
/// its text, else everything with the parts beside at the end.
pub(crate) fn arrange(html: &str) -> Arranged {
    let mains = regions(html, Region::Main);
    let articles = regions(html, Region::Article);
    let chosen = match (mains.as_slice(), articles.as_slice()) {
        ([first, ..], _) => Some(*first),
        ([], [only]) => Some(*only),
        _ => None,
    };
    if let Some((start, end)) = chosen {
        let content = &html[start..end];
        let inside = text_chars(content);
        let left_out = text_chars(&html[..start]) + text_chars(&html[end..]);
        if (left_out + inside) * 2 / 5 <= inside && inside != 0 {
            return Arranged { content: without_marks(content), beside: String::new(), left_out };
        }
    }
    let (mut content, mut beside, mut at) = (String::new(), String::new(), 0);
    for (start, end) in regions(html, Region::Side) {
        content.push_str(&html[at..start]);
        beside.push_str(&html[start..end]);
        at = end;
    }
    content.push_str(&html[at..]);
    // Menus that do not say that they are some.
    let (mut rest, mut at) = (String::new(), 0);
    for (start, end) in menus(&content) {
        rest.push_str(&content[at..start]);
        beside.push_str(&content[start..end]);
        at = end;
    }
    rest.push_str(&content[at..]);
    Arranged { content: without_marks(&rest), beside: without_marks(&beside), left_out: 0 }
}

/// A list with so many links is a menu if it is hardly anything else.
const MENU_LINKS: usize = 60;

/// Where lists are that consist of links, the outermost ones. None where they are
/// all there is.
fn menus(html: &str) -> Vec<(usize, usize)> {
    let (mut found, mut depth, mut start, mut at) = (Vec::new(), 0_usize, 0, 0);
    while let Some(hit) = html[at..].find('<') {
        let here = at + hit;
        let rest = &html[here..];
        at = here + 1;
        if rest.starts_with("<ul") {
            if depth == 0 {
                start = here;
            }
            depth += 1;
        } else if rest.starts_with("</ul") && depth != 0 {
            depth -= 1;
            let end = here + rest.find('>').map_or(rest.len(), |it| it + 1);
            if depth == 0 && is_menu(&html[start..end]) {
                found.push((start, end));
            }
        }
    }
    let taken: usize = found.iter().map(|(start, end)| text_chars(&html[*start..*end])).sum();
    if text_chars(html) < taken + MENTIONABLE { Vec::new() } else { found }
}

/// Less text beside menus is no page.
const MENTIONABLE: usize = 60;

fn is_menu(list: &str) -> bool {
    let links = list.matches("<a ").count();
    if links < MENU_LINKS {
        return false;
    }
    let words = |link: &str| {
        let (_, text) = link.split_once('>').unwrap_or_default();
        text_chars(text.split("</a").next().unwrap_or(text))
    };
    let inside: usize = list.split("<a ").skip(1).map(words).sum();
    text_chars(list) * 4 / 5 <= inside
}

fn without_marks(html: &str) -> String {
    let marks = Region::ALL.into_iter().flat_map(|it| [it.opening(), it.closing()]);
    let marks: Vec<&str> = marks.collect();
    let (mut out, mut from) = (String::with_capacity(html.len()), 0);
    for at in memchr::memmem::find_iter(html.as_bytes(), MARK) {
        if let Some(mark) = marks.iter().find(|it| html[at..].starts_with(**it)) {
            out.push_str(&html[from..at]);
            from = at + mark.len();
        }
    }
    out.push_str(&html[from..]);
    out
}
