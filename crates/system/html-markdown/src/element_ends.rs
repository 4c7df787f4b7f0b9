//! Where elements end, looked up once for a whole page: whoever asked for each
//! element anew would read the page as often as it has elements.

use std::{borrow::Cow, collections::HashMap};

use super::tags::{HtmlToken, HtmlTokens};

/// Where the elements of a page end.
#[derive(Default)]
pub(super) struct ElementEnds {
    /// Where the last end tag of each name stands.
    last: Option<HashMap<String, usize>>,
    /// Where the content of elements begins that end, in order. Known from some place
    /// on, once an element was found that does not.
    ended: Option<Vec<usize>>,
    looked_at: u64,
}

impl ElementEnds {
    /// How many bytes were looked at.
    pub(super) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Whether an end tag of this name comes from this place on.
    pub(super) fn comes_after(&mut self, html: &str, name: &str, at: usize) -> bool {
        let last = self.last.get_or_insert_with(|| {
            self.looked_at += html.len() as u64;
            last_ends(html)
        });
        last.get(name).is_some_and(|it| at <= *it)
    }

    /// Whether the element whose content begins here is known not to end.
    pub(super) fn is_endless(&self, content: usize) -> bool {
        self.ended.as_ref().is_some_and(|it| it.binary_search(&content).is_err())
    }

    /// Finds the end of every element from here on.
    pub(super) fn match_all(&mut self, mut pieces: HtmlTokens<'_>) {
        let before = pieces.looked_at();
        let mut open: HashMap<Cow<'_, str>, Vec<usize>> = HashMap::new();
        let mut ended = Vec::new();
        while let Some(piece) = pieces.next() {
            match piece {
                HtmlToken::Open(tag) if !tag.is_void() => {
                    open.entry(tag.name).or_default().push(pieces.position());
                }
                HtmlToken::Close(name) => ended.extend(open.get_mut(&name).and_then(Vec::pop)),
                _ => {}
            }
        }
        ended.sort_unstable();
        self.ended = Some(ended);
        self.looked_at += pieces.looked_at() - before;
    }
}

fn last_ends(html: &str) -> HashMap<String, usize> {
    let mut last: HashMap<String, usize> = HashMap::new();
    for at in memchr::memmem::find_iter(html.as_bytes(), b"</") {
        let name =
            html[at + 2..].bytes().take_while(|it| !it.is_ascii_whitespace() && !b"/>".contains(it)).count();
        let name = &html[at + 2..at + 2 + name];
        match last.get_mut(name) {
            Some(place) => *place = at,
            None if name.is_empty() => {}
            None => {
                last.insert(name.to_ascii_lowercase(), at);
            }
        }
    }
    last
}
