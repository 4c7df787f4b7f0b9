//! A page as a row of texts and tags. Our own, because the streaming rewriters
//! there are stand under licences that ask for more than a notice.
//!
//! Reads what browsers read where it matters for text: raw elements end at
//! their own end tag, comments where they end, attributes in any quotes. It
//! never goes back, so it takes time in proportion to the page.

use std::borrow::Cow;

/// A piece of a page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum HtmlToken<'a> {
    /// Text as it stands, entities included.
    Text(&'a str),
    /// The beginning of an element.
    Open(OpenTag<'a>),
    /// The end of an element, by its name in small letters.
    Close(Cow<'a, str>),
}

/// The beginning of an element.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct OpenTag<'a> {
    /// In small letters.
    pub(super) name: Cow<'a, str>,
    /// Everything after the name.
    rest: &'a str,
}

/// Walks over a page.
#[derive(Clone)]
pub(super) struct HtmlTokens<'a> {
    html: &'a str,
    at: usize,
    /// The raw element whose content comes next.
    raw: Option<&'static str>,
    /// Whether a tag had a quote that does not end: from there on quotes count no more.
    quotes_lost: bool,
    /// Raw elements that have no end any more.
    endless: Vec<&'static str>,
    /// How many bytes were looked at, those looked at twice counted twice.
    looked_at: u64,
}

impl<'a> HtmlTokens<'a> {
    pub(super) fn new(html: &'a str) -> Self {
        Self { html, at: 0, raw: None, quotes_lost: false, endless: Vec::new(), looked_at: 0 }
    }

    /// How many bytes were looked at so far.
    pub(super) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Where the next piece starts.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Goes on from here.
    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at;
        self.raw = None;
    }

    fn text(&mut self, end: usize) -> HtmlToken<'a> {
        let text = &self.html[self.at..end];
        self.looked_at += text.len() as u64;
        self.at = end;
        HtmlToken::Text(text)
    }

    fn pass(&mut self, bytes: usize) {
        self.at += bytes;
        self.looked_at += bytes as u64;
    }

    /// Where a tag ends, the bracket included. Only one tag of a page is looked at up
    /// to the end of the page.
    fn tag_end(&mut self, bytes: &[u8]) -> usize {
        if bytes.first() == Some(&b'>') {
            return 1;
        }
        if !self.quotes_lost {
            if let Some(end) = tag_end(bytes) {
                return end;
            }
            self.quotes_lost = true;
            self.looked_at += bytes.len() as u64;
        }
        memchr::memchr(b'>', bytes).map_or(bytes.len(), |it| it + 1)
    }

    /// The content of a raw element, which ends at its own end tag.
    fn raw_text(&mut self, name: &'static str) -> Option<HtmlToken<'a>> {
        if self.endless.contains(&name) {
            return None;
        }
        let rest = &self.html.as_bytes()[self.at..];
        let mut from = 0;
        let end = loop {
            let Some(hit) = memchr::memmem::find(&rest[from..], b"</") else {
                // A title or a field that never ends must not swallow the page.
                if matches!(name, "title" | "textarea") {
                    self.looked_at += rest.len() as u64;
                    self.endless.push(name);
                    return None;
                }
                break rest.len();
            };
            let start = from + hit;
            let after = &rest[start + 2..];
            let same = after.len() >= name.len() && after[..name.len()].eq_ignore_ascii_case(name.as_bytes());
            if same && !after.get(name.len()).is_some_and(u8::is_ascii_alphanumeric) {
                break start;
            }
            from = start + 2;
        };
        (end != 0).then(|| self.text(self.at + end))
    }
}

impl<'a> Iterator for HtmlTokens<'a> {
    type Item = HtmlToken<'a>;

    fn next(&mut self) -> Option<HtmlToken<'a>> {
        if let Some(name) = self.raw.take()
            && let Some(text) = self.raw_text(name)
        {
            return Some(text);
        }
        loop {
            let rest = &self.html[self.at..];
            let bytes = rest.as_bytes();
            let first = *bytes.first()?;
            if first != b'<' {
                let end = memchr::memchr(b'<', bytes).unwrap_or(rest.len());
                return Some(self.text(self.at + end));
            }
            if let Some(comment) = rest.strip_prefix("<!--") {
                self.pass(comment.find("-->").map_or(rest.len(), |it| it + 7));
                continue;
            }
            let closes = bytes.get(1) == Some(&b'/');
            let name_at = if closes { 2 } else { 1 };
            match bytes.get(name_at) {
                Some(it) if it.is_ascii_alphabetic() => {}
                // Declarations and odd comments go up to the next bracket.
                Some(b'!' | b'?') => {
                    self.pass(memchr::memchr(b'>', bytes).map_or(rest.len(), |it| it + 1));
                    continue;
                }
                // A bracket that begins nothing is text.
                _ => return Some(self.text(self.at + 1)),
            }
            let name_len = bytes[name_at..]
                .iter()
                .take_while(|it| !it.is_ascii_whitespace() && !b"/>".contains(it))
                .count();
            let name = in_small_letters(&rest[name_at..name_at + name_len]);
            let after = name_at + name_len;
            let end = after + self.tag_end(&bytes[after..]);
            let inside = rest[after..end].trim_end_matches('>');
            self.pass(end);
            if closes {
                return Some(HtmlToken::Close(name));
            }
            self.raw = raw_name(&name);
            return Some(HtmlToken::Open(OpenTag { name, rest: inside }));
        }
    }
}

/// Where a tag ends, the bracket included; brackets in quotes do not count. Nothing
/// if no bracket outside of quotes comes any more.
fn tag_end(bytes: &[u8]) -> Option<usize> {
    let (mut quote, mut value) = (None, false);
    // The first bracket in a quote, as long as no other one came before it.
    let mut lost = None;
    for (at, byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (Some(_), b'>') if lost.is_none() => lost = Some(at),
            // Markup that goes on after it: the quote was forgotten.
            (Some(_), b'<') => match lost {
                Some(end) if end != 0 => return Some(end + 1),
                _ => lost = Some(0),
            },
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') if value => (quote, lost) = (Some(*byte), None),
            (Some(open), byte) if open == *byte => (quote, value) = (None, false),
            (None, b'=') => value = true,
            (None, byte) if !byte.is_ascii_whitespace() => value = false,
            _ => {}
        }
    }
    // A quote that never ends would swallow the page.
    None
}

/// The name of an element whose content is text up to its own end tag.
fn raw_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "script" => "script",
        "style" => "style",
        "textarea" => "textarea",
        "title" => "title",
        "noscript" => "noscript",
        "iframe" => "iframe",
        "noembed" => "noembed",
        "xmp" => "xmp",
        _ => return None,
    })
}

/// A name as it stands where it has no capital letters, as nearly all of them.
fn in_small_letters(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|it| it.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

impl OpenTag<'static> {
    /// A tag without attributes.
    pub(super) fn plain(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), rest: "" }
    }
}

impl OpenTag<'_> {
    /// Whether it has no attributes.
    pub(super) fn is_bare(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether nothing can be inside.
    pub(super) fn is_void(&self) -> bool {
        matches!(
            &*self.name,
            "area"
                | "base"
                | "br"
                | "col"
                | "embed"
                | "hr"
                | "img"
                | "input"
                | "link"
                | "meta"
                | "param"
                | "source"
                | "track"
                | "wbr"
        ) || self.rest.ends_with('/') && matches!(&*self.name, "path" | "svg" | "use")
    }

    /// The value of an attribute as it stands; empty where it has none.
    pub(super) fn attribute(&self, wanted: &str) -> Option<&str> {
        if self.is_bare() {
            return None;
        }
        self.attributes().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|it| it.1)
    }

    /// Whether one of its classes is one of these.
    pub(super) fn has_class_of(&self, wanted: &[&str]) -> bool {
        self.attribute("class").is_some_and(|it| it.split_ascii_whitespace().any(|it| wanted.contains(&it)))
    }

    /// All attributes in order: name, and value without quotes.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = self.rest;
        std::iter::from_fn(move || {
            rest = rest.trim_start_matches(|it: char| it.is_ascii_whitespace() || it == '/');
            if rest.is_empty() {
                return None;
            }
            let end = rest
                .char_indices()
                .skip(1)
                .find(|(_, it)| it.is_ascii_whitespace() || matches!(it, '=' | '/'))
                .map_or(rest.len(), |it| it.0);
            let (name, after) = rest.split_at(end);
            let value_at = after.trim_start();
            let Some(value) = value_at.strip_prefix('=') else {
                rest = after;
                return Some((name, ""));
            };
            let value = value.trim_start();
            let (value, after) = match value.chars().next() {
                Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
                _ => value.split_at(value.find(|it: char| it.is_ascii_whitespace()).unwrap_or(value.len())),
            };
            rest = after;
            Some((name, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(html: &str) -> String {
        let piece = |it: HtmlToken<'_>| match it {
            HtmlToken::Text(text) => format!("[{text}]"),
            HtmlToken::Close(name) => format!("</{name}>"),
            HtmlToken::Open(tag) => {
                let attributes: String =
                    tag.attributes().map(|(name, value)| format!(" {name}={value:?}")).collect();
                format!("<{}{attributes}>", tag.name)
            }
        };
        HtmlTokens::new(html).map(piece).collect()
    }

    #[test]
    fn tags_texts_and_attributes() {
        for (html, want) in [
            ("a<B c=d e='f>g' H=\"i\" j>k</B >l", "[a]<b c=\"d\" e=\"f>g\" H=\"i\" j=\"\">[k]</b>[l]"),
            ("<script>if (a</b>) {}</script>x", "<script>[if (a</b>) {}]</script>[x]"),
            ("<title>a<b></TITLE>", "<title>[a<b>]</title>"),
            ("1 < 2 <!-- <b> --> <!DOCTYPE html>x", "[1 ][<][ 2 ][ ][x]"),
            ("<br/><img src=a/b.png/>", "<br><img src=\"a/b.png/\">"),
            ("<a href=\"x>y</a><p>z", "<a href=\"x\">[y]</a><p>[z]"),
            ("<a href=\"x>y</a><p class=\"c\">z", "<a href=\"x\">[y]</a><p class=\"c\">[z]"),
            ("<a title=\"<b>y</b>\">z", "<a title=\"<b>y</b>\">[z]"),
            ("<a title=\"1 > 0\">z", "<a title=\"1 > 0\">[z]"),
            ("<!-- open", ""),
            ("<p", "<p>"),
            ("<a = b>", "<a ==\"\" b=\"\">"),
        ] {
            assert_eq!(shown(html), want, "{html}");
        }
    }

    proptest! {
        #[test]
        fn any_text_ends(html in "(<[a-z!/?]{0,8}|[ -~]|=\"|'|>|-->|é|\\n){0,200}") {
            shown(&html);
        }
    }
}
