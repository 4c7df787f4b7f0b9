//! Splits source code into words and marks.
//!
//! Not a parser: it only separates code from comments and strings, and must recover after anything
//! unknown. An open string ends with its line unless the language allows multi-line strings. It never
//! fails.

use super::syntax::{CharQuote, Heredoc, LanguageSyntax, RawString};

/// A token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceToken {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Line number, from 1.
    pub(crate) line: u32,
    /// Byte column, at most 65535.
    pub(crate) column: u16,
    pub(crate) kind: TokenKind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or keyword.
    Word,
    Number,
    Text,
    Comment,
    Mark(u8),
}

/// How to treat comments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CommentPolicy {
    Skip,
    Keep,
}

/// Splits up to 4 GiB of `source` into `tokens`.
pub(crate) fn tokens(
    syntax: &LanguageSyntax,
    source: &[u8],
    comments: CommentPolicy,
    tokens: &mut Vec<SourceToken>,
) {
    tokens.clear();
    let mut lexer =
        SourceLexer { syntax, source, at: 0, line: 1, line_start: 0, comments, tokens, heredocs: Vec::new() };
    lexer.run();
}

struct SourceLexer<'a> {
    syntax: &'a LanguageSyntax,
    source: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
    comments: CommentPolicy,
    tokens: &'a mut Vec<SourceToken>,
    /// Terminators of heredocs that start after this line.
    heredocs: Vec<Vec<u8>>,
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || 0x80 <= byte
}

impl SourceLexer<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.source.get(self.at) {
            match byte {
                b'\n' => self.line_break(),
                b' ' | b'\t' | b'\r' | 0x0c => self.at += 1,
                b'0'..=b'9' => self.number(),
                byte if is_word(byte) || self.syntax.word_marks.contains(&byte) && byte != b'-' => {
                    self.word()
                }
                _ => self.other(byte),
            }
        }
    }

    fn line_break(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
        for end in std::mem::take(&mut self.heredocs) {
            self.heredoc_body(&end);
        }
    }

    fn push(&mut self, start: usize, line: u32, line_start: usize, kind: TokenKind) {
        let column = u16::try_from(start - line_start).unwrap_or(u16::MAX);
        let (start, end) =
            (u32::try_from(start).unwrap_or(u32::MAX), u32::try_from(self.at).unwrap_or(u32::MAX));
        self.tokens.push(SourceToken { start, end, line, column, kind });
    }

    fn push_here(&mut self, start: usize, kind: TokenKind) {
        self.push(start, self.line, self.line_start, kind);
    }

    fn word(&mut self) {
        let start = self.at;
        let is_part = |byte: &u8| is_word(*byte) || self.syntax.word_marks.contains(byte);
        let len = self.source[start..].iter().position(|byte| !is_part(byte));
        self.at = len.map_or(self.source.len(), |len| start + len);
        if self.raw_string(start) {
            return;
        }
        self.push_here(start, TokenKind::Word);
    }

    fn number(&mut self) {
        let start = self.at;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let len = self.source[start..].iter().position(|byte| !is_part(byte));
        self.at = len.map_or(self.source.len(), |len| start + len);
        self.push_here(start, TokenKind::Number);
    }

    fn other(&mut self, byte: u8) {
        let rest = &self.source[self.at..];
        if let Some((open, close)) =
            self.syntax.block_comments.iter().find(|(open, _)| rest.starts_with(open.as_bytes()))
        {
            // Ruby's `=begin` counts only at the start of a line.
            if *open != "=begin" || self.at == self.line_start {
                return self.block_comment(open.as_bytes(), close.as_bytes());
            }
        }
        if self.syntax.line_comments.iter().any(|open| rest.starts_with(open.as_bytes()))
            && !self.is_inside_word()
        {
            return self.line_comment();
        }
        if byte == b'#' && self.syntax.preprocessor && self.is_first_on_line() {
            return self.directive();
        }
        if byte == b'\'' && self.syntax.char_quote != CharQuote::None {
            return self.char_quote();
        }
        if byte == b'@' && self.syntax.raw == RawString::Verbatim && rest.get(1) == Some(&b'"') {
            return self.verbatim();
        }
        if let Some(quote) = self.syntax.quotes.iter().find(|quote| rest.starts_with(quote.open.as_bytes())) {
            let (start, line, line_start) = (self.at, self.line, self.line_start);
            self.at += quote.open.len();
            self.text_until(quote.close.as_bytes(), quote.escapes, quote.multiline);
            return self.push(start, line, line_start, TokenKind::Text);
        }
        if byte == b'`' && self.syntax.templates {
            let (start, line, line_start) = (self.at, self.line, self.line_start);
            self.at += 1;
            self.template(0);
            return self.push(start, line, line_start, TokenKind::Text);
        }
        if byte == b'/' && self.syntax.regexes && self.may_begin_regex() && self.regex() {
            return;
        }
        if byte == b'<' && self.heredoc_start() {
            return;
        }
        self.at += 1;
        self.push_here(self.at - 1, TokenKind::Mark(byte));
    }

    /// In a shell, `#` starts a comment only at the start of a word, not in `$#` or `a#b`.
    fn is_inside_word(&self) -> bool {
        if self.syntax.heredoc != Heredoc::Shell || self.at == 0 {
            return false;
        }
        !matches!(self.source[self.at - 1], b' ' | b'\t' | b'\n' | b';' | b'(' | b'&' | b'|')
    }

    fn is_first_on_line(&self) -> bool {
        self.source[self.line_start..self.at].iter().all(u8::is_ascii_whitespace)
    }

    fn line_comment(&mut self) {
        let start = self.at;
        self.at = memchr::memchr(b'\n', &self.source[start..]).map_or(self.source.len(), |len| start + len);
        if self.comments == CommentPolicy::Keep {
            self.push_here(start, TokenKind::Comment);
        }
    }

    fn block_comment(&mut self, open: &[u8], close: &[u8]) {
        let (start, line, line_start) = (self.at, self.line, self.line_start);
        self.at += open.len();
        let mut depth = 1_usize;
        while self.at < self.source.len() {
            let rest = &self.source[self.at..];
            if rest.starts_with(close) {
                self.at += close.len();
                depth -= 1;
                if depth == 0 {
                    break;
                }
            } else if self.syntax.nested_comments && rest.starts_with(open) {
                self.at += open.len();
                depth += 1;
            } else {
                self.step();
            }
        }
        if self.comments == CommentPolicy::Keep {
            self.push(start, line, line_start, TokenKind::Comment);
        }
    }

    /// Advances one byte.
    fn step(&mut self) {
        if self.source.get(self.at) == Some(&b'\n') {
            self.line += 1;
            self.line_start = self.at + 1;
        }
        self.at += 1;
    }

    fn text_until(&mut self, close: &[u8], escapes: bool, multiline: bool) {
        while let Some(&byte) = self.source.get(self.at) {
            match byte {
                b'\\' if escapes => {
                    self.step();
                    if self.at < self.source.len() {
                        self.step();
                    }
                }
                b'\n' if !multiline => return,
                _ if byte == close[0] && self.source[self.at..].starts_with(close) => {
                    self.at += close.len();
                    return;
                }
                _ => self.step(),
            }
        }
    }

    fn template(&mut self, depth: usize) {
        const MAX_DEPTH: usize = 8;
        while let Some(&byte) = self.source.get(self.at) {
            match byte {
                b'\\' => {
                    self.step();
                    if self.at < self.source.len() {
                        self.step();
                    }
                }
                b'`' => {
                    self.at += 1;
                    return;
                }
                b'$' if self.source.get(self.at + 1) == Some(&b'{') && depth < MAX_DEPTH => {
                    self.at += 2;
                    self.template_code(depth);
                }
                _ => self.step(),
            }
        }
    }

    /// `${…}` up to its closing brace, with nested templates.
    fn template_code(&mut self, depth: usize) {
        let mut braces = 1_usize;
        while let Some(&byte) = self.source.get(self.at) {
            match byte {
                b'{' => braces += 1,
                b'}' => braces -= 1,
                b'`' => {
                    self.at += 1;
                    self.template(depth + 1);
                    continue;
                }
                b'"' | b'\'' => {
                    self.at += 1;
                    self.text_until(&[byte], /*escapes*/ true, /*multiline*/ false);
                    continue;
                }
                _ => (),
            }
            self.step();
            if braces == 0 {
                return;
            }
        }
    }

    fn char_quote(&mut self) {
        let rest = &self.source[self.at + 1..];
        let len = match rest {
            // `'\''`, `'\u{1F600}'`.
            [b'\\', _, more @ ..] => more.iter().take(12).position(|byte| *byte == b'\'').map(|at| at + 3),
            [first, ..] if *first != b'\'' => {
                let width = match *first {
                    0xf0.. => 4,
                    0xe0.. => 3,
                    0xc0.. => 2,
                    _ => 1,
                };
                (rest.get(width) == Some(&b'\'')).then_some(width + 1)
            }
            _ => None,
        };
        let start = self.at;
        let len = len.filter(|len| !rest[..*len].contains(&b'\n'));
        match len {
            Some(len) => {
                self.at += 1 + len;
                self.push_here(start, TokenKind::Text);
            }
            // A lifetime or label; a digit separator in C++; otherwise a stray quote.
            None => self.at += 1,
        }
    }

    /// `r"…"`, `br##"…"##`, `R"x(…)x"`, whose prefix was read as a word.
    fn raw_string(&mut self, start: usize) -> bool {
        let word = &self.source[start..self.at];
        let (line, line_start) = (self.line, self.line_start);
        match (self.syntax.raw, word) {
            (RawString::Rust, b"r" | b"br" | b"cr") => {
                let hashes = self.source[self.at..].iter().take_while(|byte| **byte == b'#').count();
                if self.source.get(self.at + hashes) != Some(&b'"') {
                    return false;
                }
                self.at += hashes + 1;
                let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
                self.text_until(&close, /*escapes*/ false, /*multiline*/ true);
            }
            (RawString::Cpp, b"R" | b"LR" | b"u8R" | b"uR" | b"UR") => {
                let rest = &self.source[self.at..];
                let Some(open) = rest.iter().take(18).position(|byte| *byte == b'(') else { return false };
                if rest.first() != Some(&b'"') {
                    return false;
                }
                let close = [b")", &rest[1..open], b"\""].concat();
                self.at += open + 1;
                self.text_until(&close, /*escapes*/ false, /*multiline*/ true);
            }
            _ => return false,
        }
        self.push(start, line, line_start, TokenKind::Text);
        true
    }

    fn verbatim(&mut self) {
        let (start, line, line_start) = (self.at, self.line, self.line_start);
        self.at += 2;
        loop {
            self.text_until(b"\"", /*escapes*/ false, /*multiline*/ true);
            if self.source.get(self.at) != Some(&b'"') {
                break;
            }
            self.at += 1;
        }
        self.push(start, line, line_start, TokenKind::Text);
    }

    /// A preprocessor line: `#define NAME` is emitted, the rest skipped, because its braces need not
    /// balance.
    fn directive(&mut self) {
        let start = self.at;
        self.at += 1;
        self.push_here(start, TokenKind::Mark(b'#'));
        for _ in 0..2 {
            while matches!(self.source.get(self.at), Some(b' ' | b'\t')) {
                self.at += 1;
            }
            if self.source.get(self.at).is_some_and(|byte| is_word(*byte)) {
                self.word();
            }
        }
        while let Some(&byte) = self.source.get(self.at) {
            match byte {
                b'\\' => {
                    self.step();
                    if self.at < self.source.len() {
                        self.step();
                    }
                }
                b'/' if self.source[self.at..].starts_with(b"/*") => self.block_comment(b"/*", b"*/"),
                b'\n' => return,
                _ => self.at += 1,
            }
        }
    }

    /// Whether a regex literal may start here: after an operator, an opening bracket or a keyword, not
    /// after a name or a closing bracket.
    fn may_begin_regex(&self) -> bool {
        let Some(last) = self.tokens.last() else { return true };
        match last.kind {
            TokenKind::Mark(mark) => !matches!(mark, b')' | b']' | b'}'),
            TokenKind::Word => {
                let word = &self.source[last.start as usize..last.end as usize];
                matches!(
                    word,
                    b"return" | b"typeof" | b"case" | b"in" | b"of" | b"if" | b"and" | b"or" | b"when"
                )
            }
            TokenKind::Number | TokenKind::Text | TokenKind::Comment => false,
        }
    }

    fn regex(&mut self) -> bool {
        let mut in_class = false;
        let mut at = self.at + 1;
        while let Some(&byte) = self.source.get(at) {
            match byte {
                b'\\' if self.source.get(at + 1) != Some(&b'\n') => at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'\n' => return false,
                b'/' if !in_class => {
                    let start = self.at;
                    self.at = at + 1;
                    self.push_here(start, TokenKind::Text);
                    return true;
                }
                _ => (),
            }
            at += 1;
        }
        false
    }

    fn heredoc_start(&mut self) -> bool {
        let rest = &self.source[self.at..];
        let opens: &[&[u8]] = match self.syntax.heredoc {
            Heredoc::None => return false,
            Heredoc::Shell => &[b"<<-", b"<<"],
            Heredoc::Ruby => &[b"<<~", b"<<-"],
            Heredoc::Php => &[b"<<<"],
        };
        // The rest of `<<<`, which is not a heredoc.
        if self.syntax.heredoc == Heredoc::Shell
            && self.at.checked_sub(1).is_some_and(|at| self.source[at] == b'<')
        {
            return false;
        }
        let Some(open) = opens.iter().find(|open| rest.starts_with(open)) else { return false };
        let after = &rest[open.len()..];
        let blanks = after.iter().take_while(|byte| **byte == b' ').count();
        let after = &after[blanks..];
        let quote = after.first().filter(|byte| matches!(byte, b'"' | b'\''));
        let name = &after[usize::from(quote.is_some())..];
        let len = name.iter().take_while(|byte| is_word(**byte)).count();
        if len == 0
            || name[0].is_ascii_digit()
            || (self.syntax.heredoc == Heredoc::Shell && after.first() == Some(&b'<'))
        {
            return false;
        }
        self.heredocs.push(name[..len].to_vec());
        let start = self.at;
        self.at += open.len() + blanks + len + 2 * usize::from(quote.is_some());
        self.at = self.at.min(self.source.len());
        self.push_here(start, TokenKind::Text);
        true
    }

    /// Skips the lines of a heredoc and its terminator.
    fn heredoc_body(&mut self, end: &[u8]) {
        let (start, line, line_start) = (self.at, self.line, self.line_start);
        loop {
            let rest = &self.source[self.at..];
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let text = rest[..len].trim_ascii_start();
            let is_end = text.starts_with(end) && !text.get(end.len()).is_some_and(|byte| is_word(*byte));
            self.at += if is_end { 0 } else { len };
            if is_end || self.at == self.source.len() {
                break;
            }
            self.step();
        }
        self.push(start, line, line_start, TokenKind::Text);
        if self.at < self.source.len() {
            let rest = &self.source[self.at..];
            self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::symbols::SourceLanguage;

    fn words(file: &str, source: &str) -> String {
        let lang = SourceLanguage::detect(file.as_bytes(), b"").unwrap();
        let mut found = Vec::new();
        tokens(lang.syntax, source.as_bytes(), CommentPolicy::Skip, &mut found);
        let words = found.iter().filter(|token| token.kind == TokenKind::Word);
        words.map(|token| &source[token.start as usize..token.end as usize]).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lexer_skips_strings_and_comments() {
        for (file, source, want) in [
            ("a.rs", "a /* b /* c */ d */ e // f\ng", "a e g"),
            ("a.rs", r##"a "b \" c" r#"d " e"# f 'x' '\'' 'life g b"h" '\u{1F600}' i"##, "a f life g b i"),
            ("a.c", "a /* b /* c */ d */ e", "a d e"),
            ("a.cpp", "a R\"x(b )\" c)x\" d \"e\nf", "a d f"),
            ("a.c", "#define A { \\\n b {\nc", "define A c"),
            ("a.cs", "a @\"b\\\" c \"d\"", "a c"),
            ("a.js", "a `b ${c + `d`} e` f = /g\"/; h", "a f h"),
            ("a.js", "x = /[\"/]/.test(a); b / c / d", "x test a b c d"),
            ("a.py", "a '''b\n'c' ''' d # e\n\"f\ng", "a d g"),
            ("a.go", "a `b\n\\` c '\"' d", "a c d"),
            ("a.sh", "a <<EOF b\nc {\nEOF\nd $# e # f\ng <<<h i", "a b d e g h i"),
            ("a.rb", "a <<~X, b\n c\n X\nd\n=begin\ne\n=end\nf", "a b d f"),
            ("a.php", "a <<<'E' \nb\nE;\nc # d", "a c"),
            ("a.sql", "-- a\nb 'c''d' e", "b e"),
            ("a.lua", "a --[[ b\nc ]] d -- e\nf", "a d f"),
        ] {
            assert_eq!(words(file, source), want, "{source}");
        }
    }

    proptest! {
        #[test]
        fn lexer_terminates_on_arbitrary_text(source in "([a-z]|[\"'`/*#\\\\<>{}()$@\n -]|EOF|é|r#|R\"|=begin|--\\[\\[){0,60}") {
            for file in ["a.rs", "a.js", "a.cpp", "a.cs", "a.sh", "a.rb", "a.php", "a.py", "a.lua", "a.sql"] {
                let lang = SourceLanguage::detect(file.as_bytes(), b"").unwrap();
                let mut found = Vec::new();
                tokens(lang.syntax, source.as_bytes(), CommentPolicy::Keep, &mut found);
                let mut last = 0;
                for token in found {
                    prop_assert!(last <= token.start && token.start <= token.end);
                    prop_assert!(token.end as usize <= source.len());
                    let lines = source.as_bytes()[..token.start as usize].iter().filter(|it| **it == b'\n').count();
                    prop_assert_eq!(lines as u32 + 1, token.line);
                    last = token.start;
                }
            }
        }
    }
}
