//! Which part of a page is its content. Where regions begin and end is noted while
//! the page is prepared, and the page is cut there afterwards.

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

/// Where the outermost regions of a page begin and end, in order. A page can have
/// one for every few of its bytes, so that a note is small.
#[derive(Debug, Default)]
pub(crate) struct RegionBounds {
    notes: Vec<(u32, Region, Edge)>,
    /// How many of each kind are open.
    open: [usize; 4],
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Edge {
    Begin,
    End,
}

impl RegionBounds {
    /// Whether one of this kind is open.
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

    /// Where the regions of one kind are in a page of so many bytes. One that does
    /// not end goes to the end.
    pub(crate) fn regions(&self, kind: Region, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut notes = self.notes.iter().filter(move |it| it.1 == kind);
        std::iter::from_fn(move || {
            let begin = notes.find(|it| it.2 == Edge::Begin)?.0 as usize;
            let end = notes.find(|it| it.2 == Edge::End).map_or(bytes, |it| it.0 as usize);
            Some((begin, end))
        })
    }
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
pub(crate) struct RegionPage {
    /// What comes first.
    pub(crate) content: String,
    /// What stands beside it.
    pub(crate) beside: String,
    /// Characters that were left out because the page says where its content is.
    pub(crate) left_out: usize,
}

/// The content of a page: what it calls its main part, if that holds enough of
/// its text, else everything with the parts beside at the end. What stays moves to
/// the front of the page, which is given away: it is not in memory twice.
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
    // Menus that do not say that they are some.
    let menus = menus(&content);
    let (content, more) = split(content, &menus);
    beside.push_str(&more);
    RegionPage { content, beside, left_out: 0 }
}

/// A page without these parts, and the parts.
fn split(html: String, parts: &[(usize, usize)]) -> (String, String) {
    let mut beside = String::with_capacity(parts.iter().map(|(start, end)| end - start).sum());
    let mut bytes = html.into_bytes();
    let (mut kept, mut at) = (0, 0);
    for (start, end) in parts.iter().copied().chain([(bytes.len(), bytes.len())]) {
        // What was kept is before this part, which is as it was.
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
