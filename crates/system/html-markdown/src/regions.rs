//! Selects the main content of a page. Region boundaries are recorded while the page is prepared; the
//! page is cut afterwards.

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Region {
    /// A `main` element or `role="main"`.
    Main,
    /// An `article` element.
    Article,
    /// Navigation, headers, footers, asides.
    Side,
    /// The container that JavaScript frameworks render into.
    Root,
}

/// Boundaries of the outermost regions of a page, in order. Kept compact, because a page can have one
/// every few bytes.
#[derive(Debug, Default)]
pub(crate) struct RegionBounds {
    notes: Vec<(u32, Region, Edge)>,
    /// Number of open regions of each kind.
    open: [usize; 4],
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Edge {
    Begin,
    End,
}

impl RegionBounds {
    /// Whether a region of this kind is open.
    pub(crate) fn is_inside(&self, kind: Region) -> bool {
        self.open[kind as usize] != 0
    }

    pub(crate) fn begin(&mut self, kind: Region, at: usize) {
        self.open[kind as usize] += 1;
        self.note(kind, at, Edge::Begin);
    }

    pub(crate) fn end(&mut self, kind: Region, at: usize) {
        self.open[kind as usize] = self.open[kind as usize].saturating_sub(1);
        self.note(kind, at, Edge::End);
    }

    fn note(&mut self, kind: Region, at: usize, edge: Edge) {
        self.notes.push((u32::try_from(at).unwrap_or(u32::MAX), kind, edge));
    }

    /// Returns the byte ranges of the regions of one kind. A region without an end extends to the end of
    /// the page.
    pub(crate) fn regions(&self, kind: Region, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut notes = self.notes.iter().filter(move |it| it.1 == kind);
        std::iter::from_fn(move || {
            let begin = notes.find(|it| it.2 == Edge::Begin)?.0 as usize;
            let end = notes.find(|it| it.2 == Edge::End).map_or(bytes, |it| it.0 as usize);
            Some((begin, end))
        })
    }
}

/// Returns the approximate number of visible characters, without whitespace.
pub(crate) fn text_chars(html: &str) -> usize {
    // Counts UTF-8 lead bytes only, so characters rather than bytes.
    let counts = |byte: &&u8| **byte != b'>' && !byte.is_ascii_whitespace() && **byte & 0xc0 != 0x80;
    let (mut count, mut rest) = (0, html.as_bytes());
    loop {
        let end = memchr::memchr(b'<', rest).unwrap_or(rest.len());
        count += rest[..end].iter().filter(counts).count();
        let Some(tag) = memchr::memchr(b'>', &rest[end..]) else { return count };
        rest = &rest[end + tag..];
    }
}

/// A page split into content and secondary parts.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct RegionPage {
    /// The main content.
    pub(crate) content: String,
    /// Menus, headers, footers and the like, to show after the content.
    pub(crate) beside: String,
    /// Visible characters dropped because the page marks its main content.
    pub(crate) left_out: usize,
}

/// Selects the main content. If the page marks it (`main`, or a single `article`) and it has at least
/// two fifths of the text, the rest is dropped. Otherwise everything is kept, with secondary parts moved
/// to the end. Works in place, without a second copy of the page.
pub(crate) fn arrange(html: String, notes: RegionBounds) -> RegionPage {
    let regions = |kind: Region| notes.regions(kind, html.len());
    let mut articles = regions(Region::Article);
    let article = articles.next().filter(|_| articles.next().is_none());
    if let Some((start, end)) = regions(Region::Main).next().or(article) {
        let inside = text_chars(&html[start..end]);
        let left_out = text_chars(&html[..start]) + text_chars(&html[end..]);
        if (left_out + inside) * 2 / 5 <= inside && inside != 0 {
            let mut content = html;
            content.truncate(end);
            content.drain(..start);
            return RegionPage { content, beside: String::new(), left_out };
        }
    }
    let sides: Vec<(usize, usize)> = regions(Region::Side).collect();
    let (content, mut beside) = split(html, &sides);
    drop(sides);
    // Menus that are not marked as navigation.
    let menus = menus(&content);
    let (content, more) = split(content, &menus);
    beside.push_str(&more);
    RegionPage { content, beside, left_out: 0 }
}

/// Removes the given byte ranges. Returns the remaining page and the removed text.
fn split(html: String, parts: &[(usize, usize)]) -> (String, String) {
    let mut beside = String::with_capacity(parts.iter().map(|(start, end)| end - start).sum());
    let mut bytes = html.into_bytes();
    let (mut kept, mut at) = (0, 0);
    for (start, end) in parts.iter().copied().chain([(bytes.len(), bytes.len())]) {
        // Only bytes before this part have been overwritten.
        beside.push_str(std::str::from_utf8(&bytes[start..end]).unwrap_or_default());
        bytes.copy_within(at..start, kept);
        kept += start - at;
        at = end;
    }
    bytes.truncate(kept);
    let content =
        String::from_utf8(bytes).unwrap_or_else(|err| String::from_utf8_lossy(err.as_bytes()).into_owned());
    (content, beside)
}

/// Minimum number of links in a list for it to count as a menu.
const MENU_LINKS: usize = 60;

/// Returns the byte ranges of outermost lists that consist of links. Empty if the page has hardly
/// anything else.
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

/// Minimum number of characters outside menus for the menus to be removed.
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
