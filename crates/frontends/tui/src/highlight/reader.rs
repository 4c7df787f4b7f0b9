//! One reader for all languages of the table.

use super::{
    TokenClass,
    languages::{CodeLanguage, CodeQuote, LanguageTrait},
};

/// What is open at the end of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LineState {
    /// Nothing.
    Code,
    /// A comment, so many deep.
    Comment(u16),
    /// A text that ends with the quote of this number in the table.
    Text(usize),
    /// A raw text that ends with a quote and so many hashes.
    Raw(usize),
    /// A tag.
    Tag,
}

/// Says of every piece of a line what it is, in order and without gaps.
pub(super) fn read_line(
    language: &CodeLanguage,
    state: LineState,
    line: &str,
    mut put: impl FnMut(&str, TokenClass),
) -> LineState {
    if language.has(LanguageTrait::Diff) {
        put(line, diff_sort(line));
        return LineState::Code;
    }
    let mut reader = CodeReader { language, line, at: 0, state };
    while reader.at < line.len() {
        let from = reader.at;
        let sort = reader.step();
        // Whatever happens, it goes on.
        if reader.at <= from {
            reader.at = from + reader.rest().chars().next().map_or(1, char::len_utf8);
        }
        put(&line[from..reader.at], sort);
    }
    match reader.state {
        LineState::Text(number) if !language.quotes[number].lines => LineState::Code,
        state => state,
    }
}

fn diff_sort(line: &str) -> TokenClass {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => TokenClass::Name,
        [b'+', ..] | [b'>', ..] => TokenClass::Added,
        [b'-', ..] | [b'<', ..] => TokenClass::Removed,
        [b'@', b'@', ..] => TokenClass::Hunk,
        _ => TokenClass::Plain,
    }
}

struct CodeReader<'a> {
    language: &'a CodeLanguage,
    line: &'a str,
    at: usize,
    state: LineState,
}

impl<'a> CodeReader<'a> {
    fn rest(&self) -> &'a str {
        self.line.get(self.at..).unwrap_or_default()
    }

    fn before(&self) -> Option<char> {
        self.line.get(..self.at)?.chars().next_back()
    }

    fn take(&mut self, count: usize) {
        self.at = (self.at + count).min(self.line.len());
    }

    fn take_all(&mut self) {
        self.at = self.line.len();
    }

    fn step(&mut self) -> TokenClass {
        match self.state {
            LineState::Comment(depth) => self.comment(depth),
            LineState::Text(number) => self.text(number),
            LineState::Raw(hashes) => self.raw(hashes),
            LineState::Tag => self.tag(),
            LineState::Code => self.code(),
        }
    }

    /// Up to the end of a comment of several lines.
    fn comment(&mut self, depth: u16) -> TokenClass {
        let Some((open, close)) = self.language.block else {
            self.state = LineState::Code;
            return TokenClass::Plain;
        };
        let mut depth = depth;
        while !self.rest().is_empty() && 0 < depth {
            if self.rest().starts_with(close) {
                self.take(close.len());
                depth -= 1;
            } else if self.language.has(LanguageTrait::Nested) && self.rest().starts_with(open) {
                self.take(open.len());
                depth += 1;
            } else {
                self.take(self.rest().chars().next().map_or(1, char::len_utf8));
            }
        }
        self.state = if 0 < depth { LineState::Comment(depth) } else { LineState::Code };
        TokenClass::Comment
    }

    /// Up to the end of a text, from inside of it.
    fn text(&mut self, number: usize) -> TokenClass {
        let quote = &self.language.quotes[number];
        loop {
            let rest = self.rest();
            if rest.is_empty() {
                return TokenClass::Text;
            }
            if rest.starts_with(quote.close) {
                self.take(quote.close.len());
                self.state = LineState::Code;
                return TokenClass::Text;
            }
            let mut chars = rest.chars();
            let first = chars.next().map_or(1, char::len_utf8);
            let escaped = quote.escapes && rest.starts_with('\\');
            self.take(first + if escaped { chars.next().map_or(0, char::len_utf8) } else { 0 });
        }
    }

    fn raw(&mut self, hashes: usize) -> TokenClass {
        let close = format!("\"{}", "#".repeat(hashes));
        match self.rest().find(&close) {
            Some(at) => {
                self.take(at + close.len());
                self.state = LineState::Code;
            }
            None => self.take_all(),
        }
        TokenClass::Text
    }

    /// Inside of a tag: names, texts, and its end.
    fn tag(&mut self) -> TokenClass {
        let rest = self.rest();
        match rest.chars().next() {
            Some('>') => {
                self.take(1);
                self.state = LineState::Code;
                TokenClass::Keyword
            }
            Some(quote @ ('"' | '\'')) => {
                let end = rest[1..].find(quote).map_or(rest.len(), |at| at + 2);
                self.take(end);
                TokenClass::Text
            }
            Some(it) if is_word(it) => {
                self.take(word_length(rest, "-:."));
                TokenClass::Name
            }
            _ => {
                self.take(rest.chars().next().map_or(1, char::len_utf8));
                TokenClass::Plain
            }
        }
    }

    fn code(&mut self) -> TokenClass {
        let (rest, language) = (self.rest(), self.language);
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_whitespace() {
            self.take(rest.len() - rest.trim_start().len());
            return TokenClass::Plain;
        }
        if self.begins_comment(rest) {
            self.take_all();
            return TokenClass::Comment;
        }
        if let Some((open, _)) = language.block.filter(|it| rest.starts_with(it.0)) {
            self.take(open.len());
            return self.comment(1);
        }
        if language.has(LanguageTrait::Tags) {
            return self.markup(rest);
        }
        if let Some(sort) = self.quoted(rest, first) {
            return sort;
        }
        if first.is_ascii_digit() {
            self.take(number_length(rest));
            return TokenClass::Number;
        }
        if matches!(first, '$') && language.has(LanguageTrait::Variables) {
            let braced = rest.starts_with("${").then(|| rest.find('}').map_or(rest.len(), |at| at + 1));
            self.take(braced.unwrap_or_else(|| 1 + word_length(&rest[1..], "").max(1)));
            return TokenClass::Name;
        }
        if matches!(first, '@' | '#') && language.has(LanguageTrait::Attributes) {
            self.take(1 + word_length(&rest[1..], "."));
            return TokenClass::Name;
        }
        if is_word(first) {
            return self.word(rest);
        }
        self.take(first.len_utf8());
        TokenClass::Plain
    }

    fn begins_comment(&self, rest: &str) -> bool {
        self.language.comments.iter().any(|sign| {
            // A hash within a word of the shell is no comment.
            let alone = !self.language.has(LanguageTrait::SpacedComments)
                || self.before().is_none_or(|it| it.is_whitespace() || matches!(it, ';' | '(' | '|'));
            rest.starts_with(sign) && alone
        })
    }

    fn markup(&mut self, rest: &str) -> TokenClass {
        if !rest.starts_with('<') {
            self.take(rest.find('<').unwrap_or(rest.len()));
            return TokenClass::Plain;
        }
        let lead =
            if rest.starts_with("</") || rest.starts_with("<!") || rest.starts_with("<?") { 2 } else { 1 };
        let name = word_length(rest.get(lead..).unwrap_or_default(), "-:.");
        self.take(lead + name);
        if 0 < name {
            self.state = LineState::Tag;
            return TokenClass::Keyword;
        }
        TokenClass::Plain
    }

    /// A text that begins here.
    fn quoted(&mut self, rest: &str, first: char) -> Option<TokenClass> {
        let language = self.language;
        if language.has(LanguageTrait::Rust) {
            let raw = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r');
            let hashes = raw.map_or(0, |it| it.bytes().take_while(|it| *it == b'#').count());
            if raw.is_some_and(|it| it[hashes..].starts_with('"')) {
                self.take(rest.find('"').map_or(rest.len(), |at| at + 1));
                self.state = LineState::Raw(hashes);
                return Some(self.raw(hashes));
            }
            if first == '\'' {
                return Some(self.apostrophe(rest));
            }
        }
        let fits = |quote: &CodeQuote| rest.starts_with(quote.open);
        let number = language.quotes.iter().position(fits)?;
        let from = self.at;
        self.take(language.quotes[number].open.len());
        self.state = LineState::Text(number);
        let sort = self.text(number);
        // A text that something is assigned to is a name.
        let names = language.has(LanguageTrait::QuotedKeys) && self.rest().trim_start().starts_with(':');
        debug_assert!(from < self.at, "a quote has a length");
        Some(if names { TokenClass::Name } else { sort })
    }

    /// A character, or the name of a lifetime.
    fn apostrophe(&mut self, rest: &str) -> TokenClass {
        let mut chars = rest[1..].chars();
        let second = chars.next();
        let length = match second {
            Some('\\') => rest[2..].find('\'').map(|at| at + 3).filter(|it| *it <= 14),
            Some(it) if chars.next() == Some('\'') => Some(2 + it.len_utf8()),
            _ => None,
        };
        match length {
            Some(length) => {
                self.take(length);
                TokenClass::Text
            }
            None => {
                self.take(1 + word_length(&rest[1..], ""));
                TokenClass::Name
            }
        }
    }

    fn word(&mut self, rest: &str) -> TokenClass {
        let language = self.language;
        let joined = if language.has(LanguageTrait::Dashes) { "-" } else { "" };
        let word = &rest[..word_length(rest, joined)];
        let begins = self.line[..self.at].trim_start_matches(['-', ' ', '\t']).is_empty();
        self.take(word.len());
        let behind = self.rest().trim_start();
        if begins && language.assigns.is_some_and(|sign| behind.starts_with(sign)) {
            return TokenClass::Name;
        }
        let is_member = self.line[..self.at - word.len()].ends_with('.');
        let known = if language.has(LanguageTrait::AnyCase) {
            language.words.split(' ').any(|it| it.eq_ignore_ascii_case(word))
        } else {
            language.words.split(' ').any(|it| it == word)
        };
        if known && !is_member {
            return TokenClass::Keyword;
        }
        let mut chars = word.chars();
        let is_type = chars.next().is_some_and(char::is_uppercase) && chars.any(char::is_lowercase);
        if is_type && language.has(LanguageTrait::Types) { TokenClass::Name } else { TokenClass::Plain }
    }
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

fn word_length(text: &str, also: &str) -> usize {
    text.char_indices().find(|(_, it)| !is_word(*it) && !also.contains(*it)).map_or(text.len(), |it| it.0)
}

/// Digits, their prefix, their suffix; not the dots of a range.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(it) = bytes.get(at) {
        let goes_on = it.is_ascii_alphanumeric()
            || *it == b'_'
            || (*it == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit))
            || (matches!(it, b'+' | b'-') && 0 < at && matches!(bytes[at - 1], b'e' | b'E'));
        if !goes_on {
            break;
        }
        at += 1;
    }
    at
}
