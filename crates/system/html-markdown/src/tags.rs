//! Splits HTML into texts and tags. Written for this project because the existing streaming rewriters
//! have licences that require more than a notice.
//!
//! Follows browsers where it matters for text: raw elements end at their own end tag, comments end at
//! `-->`, attributes may be quoted either way. Never backtracks, so it takes linear time.

use std::borrow::Cow;

/// A token of a page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum HtmlToken<'a> {
    /// Text, with entities not decoded.
    Text(&'a str),
    /// A start tag.
    Open(OpenTag<'a>),
    /// An end tag, with its name in lower case.
    Close(Cow<'a, str>),
}

/// A start tag.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct OpenTag<'a> {
    /// In lower case.
    pub(super) name: Cow<'a, str>,
    /// Everything after the name, up to the closing bracket.
    rest: &'a str,
}

/// Iterates over the tokens of a page.
#[derive(Clone)]
pub(super) struct HtmlTokens<'a> {
    html: &'a str,
    at: usize,
    /// The raw element whose content comes next.
    raw: Option<&'static str>,
    /// Whether a tag had an unterminated quote. From there on quotes are ignored.
    quotes_lost: bool,
    /// Raw elements known to have no further end tag.
    endless: Vec<&'static str>,
    /// Number of bytes read, counting repeated reads.
    looked_at: u64,
}

impl<'a> HtmlTokens<'a> {
    pub(super) fn new(html: &'a str) -> Self {
        Self { html, at: 0, raw: None, quotes_lost: false, endless: Vec::new(), looked_at: 0 }
    }

    /// Returns the number of bytes read so far, counting repeated reads.
    pub(super) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Returns the byte position of the next token.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Continues at this byte position.
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

    /// Returns the length of the tag including its bracket. Scans to the end of the page for at most one
    /// tag.
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

    /// Returns the content of a raw element up to its end tag; `None` if it is empty, or if a `title` or
    /// `textarea` never ends.
    fn raw_text(&mut self, name: &'static str) -> Option<HtmlToken<'a>> {
        if self.endless.contains(&name) {
            return None;
        }
        let rest = &self.html.as_bytes()[self.at..];
        let mut from = 0;
        let end = loop {
            let Some(hit) = memchr::memmem::find(&rest[from..], b"</") else {
                // An unterminated title or text field must not swallow the page.
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
                // Declarations and malformed comments extend to the next `>`.
                Some(b'!' | b'?') => {
                    self.pass(memchr::memchr(b'>', bytes).map_or(rest.len(), |it| it + 1));
                    continue;
                }
                // A `<` that starts no tag is text.
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

/// Returns the length of the tag including its bracket, ignoring brackets in quotes. `None` if no
/// bracket outside quotes follows.
fn tag_end(bytes: &[u8]) -> Option<usize> {
    let (mut quote, mut value) = (None, false);
    // The first `>` inside a quote, if no `<` came before it.
    let mut lost = None;
    for (at, byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (Some(_), b'>') if lost.is_none() => lost = Some(at),
            // A tag follows the bracket, so the quote is unterminated.
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
    // An unterminated quote would swallow the page.
    None
}

/// Returns the name of a raw element, whose content is text up to its own end tag.
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

/// Returns the name in lower case; borrowed if it already is, as usual.
fn in_small_letters(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|it| it.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

impl OpenTag<'static> {
    /// Creates a tag without attributes.
    pub(super) fn plain(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), rest: "" }
    }
}

impl OpenTag<'_> {
    /// Whether the tag has no attributes.
    pub(super) fn is_bare(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether the element has no content and no end tag.
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

    /// Returns an attribute with entities not decoded; an empty string if it has no value. The name is
    /// matched case-insensitively.
    pub(super) fn attribute(&self, wanted: &str) -> Option<&str> {
        if self.is_bare() {
            return None;
        }
        self.attributes().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|it| it.1)
    }

    /// Whether the element has one of these classes.
    pub(super) fn has_class_of(&self, wanted: &[&str]) -> bool {
        self.attribute("class").is_some_and(|it| it.split_ascii_whitespace().any(|it| wanted.contains(&it)))
    }

    /// Returns all attributes in order: name, and value without quotes.
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
    fn tokens_and_attributes_are_split() {
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
        fn tokenizer_terminates_on_arbitrary_text(html in "(<[a-z!/?]{0,8}|[ -~]|=\"|'|>|-->|é|\\n){0,200}") {
            prop_assert!(HtmlTokens::new(&html).count() <= html.len());
        }
    }
}
