//! Determines which elements have end tags, once for a whole page. Searching per element would take
//! quadratic time.

use std::{borrow::Cow, collections::HashMap};

use super::tags::{HtmlToken, HtmlTokens};

/// Which elements of a page have an end tag.
#[derive(Default)]
pub(super) struct ElementEnds {
    /// Position of the last end tag of each name.
    last: Option<HashMap<String, usize>>,
    /// Sorted content positions of elements that have an end tag. Computed from some position on, once
    /// an element without an end tag was found.
    ended: Option<Vec<usize>>,
    looked_at: u64,
}

impl ElementEnds {
    /// Number of bytes read so far.
    pub(super) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Whether an end tag of this name occurs at or after `at`.
    pub(super) fn comes_after(&mut self, html: &str, name: &str, at: usize) -> bool {
        let last = self.last.get_or_insert_with(|| {
            self.looked_at += html.len() as u64;
            last_ends(html)
        });
        last.get(name).is_some_and(|it| at <= *it)
    }

    /// Whether the element whose content begins here is known to have no end tag.
    pub(super) fn is_endless(&self, content: usize) -> bool {
        self.ended.as_ref().is_some_and(|it| it.binary_search(&content).is_err())
    }

    /// Matches start and end tags from the current position on.
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
