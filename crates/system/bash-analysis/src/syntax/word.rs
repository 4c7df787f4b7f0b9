use super::{
    CommandKind, CommandList, Item, ParsedCommand, SyntaxNote, Word, WordPiece,
    command::ListEnd,
    cursor::{Parsed, Parser, is_meta, is_name},
};

/// Whether the shell would recognise `name[…]=` here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AssignmentPosition {
    Assignment,
    Argument,
}

impl Parser<'_> {
    /// Parses one word; the caller has checked that one starts here.
    pub(super) fn word(&mut self, position: AssignmentPosition) -> Parsed<Word> {
        let start = self.pos;
        let mut pieces = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => self.process(&mut pieces)?,
                b'<' | b'>' => {
                    self.refuse_split_descriptor(&pieces)?;
                    break;
                }
                byte if is_meta(byte) => break,
                b'[' if position == AssignmentPosition::Assignment => self.subscript(&mut pieces)?,
                _ => self.unquoted(byte, &mut pieces)?,
            }
        }
        Ok(Word { pieces, span: self.span(start) })
    }

    /// One step of unquoted text: a character, a quoted string or an expansion.
    pub(super) fn unquoted(&mut self, byte: u8, pieces: &mut Vec<WordPiece>) -> Parsed<()> {
        match byte {
            b'\\' => {
                self.pos += 1;
                match self.take_char() {
                    None => return self.stop("a backslash at the end"),
                    Some('\n') => (),
                    Some(c) => push(pieces, c, /*quoted*/ true),
                }
            }
            b'\'' => {
                self.pos += 1;
                let Some(len) = self.rest().find('\'') else { return self.stop("a quote is not closed") };
                let text = &self.rest()[..len];
                push_str(pieces, text, /*quoted*/ true);
                self.pos += len + 1;
            }
            b'"' => {
                self.pos += 1;
                self.double_quoted(pieces)?;
            }
            b'$' => self.dollar(pieces, /*quoted*/ false)?,
            b'`' => self.backquotes(pieces, /*quoted*/ false)?,
            _ => {
                if let Some(c) = self.take_char() {
                    push(pieces, c, /*quoted*/ false);
                }
            }
        }
        Ok(())
    }

    /// Up to the closing double quote; the opening one was consumed.
    pub(super) fn double_quoted(&mut self, pieces: &mut Vec<WordPiece>) -> Parsed<()> {
        push_str(pieces, "", /*quoted*/ true);
        loop {
            match self.peek() {
                None => return self.stop("a quote is not closed"),
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(byte) => self.quoted_step(byte, pieces, b"$`\"\\")?,
            }
        }
    }

    /// One step inside double quotes or a heredoc. `escapes` are the characters that a backslash
    /// escapes.
    pub(super) fn quoted_step(
        &mut self,
        byte: u8,
        pieces: &mut Vec<WordPiece>,
        escapes: &[u8],
    ) -> Parsed<()> {
        match byte {
            b'\\' => match self.peek_at(1) {
                Some(b'\n') => self.pos += 2,
                Some(next) if escapes.contains(&next) => {
                    push(pieces, char::from(next), /*quoted*/ true);
                    self.pos += 2;
                }
                _ => {
                    push(pieces, '\\', /*quoted*/ true);
                    self.pos += 1;
                }
            },
            b'$' => self.dollar(pieces, /*quoted*/ true)?,
            b'`' => self.backquotes(pieces, /*quoted*/ true)?,
            _ => {
                if let Some(c) = self.take_char() {
                    push(pieces, c, /*quoted*/ true);
                }
            }
        }
        Ok(())
    }

    /// Everything that starts with `$`.
    pub(super) fn dollar(&mut self, pieces: &mut Vec<WordPiece>, quoted: bool) -> Parsed<()> {
        self.pos += 1;
        match self.peek() {
            Some(b'\'') if !quoted => {
                self.pos += 1;
                let text = self.ansi_quoted()?;
                push_str(pieces, &text, /*quoted*/ true);
            }
            Some(b'"') if !quoted => {
                let start = self.pos;
                self.pos += 1;
                let mut inner = Vec::new();
                self.double_quoted(&mut inner)?;
                let body = Word { pieces: inner, span: self.span(start) };
                pieces.push(WordPiece::Translated { body });
            }
            Some(b'(') if self.peek_at(1) == Some(b'(') => {
                self.pos += 2;
                let body = self.nested(Self::arithmetic)?;
                pieces.push(WordPiece::Arithmetic { body });
            }
            Some(b'(') => {
                self.pos += 1;
                let list = self.substitution()?;
                pieces.push(WordPiece::Command { list, quoted });
            }
            Some(b'{') => {
                self.pos += 1;
                let piece = self.nested(|p| p.braced_parameter(quoted))?;
                pieces.push(piece);
            }
            Some(b'[') => return self.stop("arithmetic in the old form $[…]"),
            Some(b'\\') if self.peek_at(1) == Some(b'\n') => {
                return self.stop("an expansion is split over two lines");
            }
            Some(byte) if byte == b'_' || byte.is_ascii_alphanumeric() || b"@*#?-$!".contains(&byte) => {
                let name = self.parameter_name();
                pieces.push(WordPiece::Parameter { name, quoted });
            }
            _ => push(pieces, '$', quoted),
        }
        Ok(())
    }

    /// A name, one digit, or a special parameter.
    fn parameter_name(&mut self) -> String {
        let rest = self.rest();
        let len = match rest.bytes().next() {
            Some(b) if b == b'_' || b.is_ascii_alphabetic() => name_len(rest),
            _ => 1,
        };
        self.pos += len;
        rest[..len].to_owned()
    }

    /// `$(…)` and `<(…)`, after the opening parenthesis.
    pub(super) fn substitution(&mut self) -> Parsed<CommandList> {
        self.nested(|p| {
            let waiting = std::mem::take(&mut p.pending);
            let outer = p.outer_pending;
            p.outer_pending |= !waiting.is_empty();
            let heredocs = p.heredocs;
            let list = p.list(ListEnd::Parenthesis)?;
            // Bash 5.2 regenerates the text of a substitution before it runs it, and loses separators
            // after a heredoc.
            if heredocs < p.heredocs && !is_one_simple_command(&list) {
                return p.stop("a heredoc beside other commands in a substitution");
            }
            if !p.pending.is_empty() {
                return p.stop("a heredoc is still open at )");
            }
            if !p.eat(")") {
                return p.stop("a substitution is not closed");
            }
            p.pending = waiting;
            p.outer_pending = outer;
            Ok(list)
        })
    }

    fn process(&mut self, pieces: &mut Vec<WordPiece>) -> Parsed<()> {
        self.pos += 2;
        let list = self.substitution()?;
        pieces.push(WordPiece::Process { list });
        Ok(())
    }

    fn backquotes(&mut self, pieces: &mut Vec<WordPiece>, quoted: bool) -> Parsed<()> {
        let start = self.pos;
        let body = start + 1;
        let Some(close) = closing_backquote(&self.src.as_bytes()[body..self.end]).map(|at| body + at) else {
            return self.stop("a backquote is not closed");
        };
        let raw = &self.src[body..close];
        let list = if raw.contains('\\') {
            self.notes.push(SyntaxNote::EscapedBackquote);
            self.pos = close + 1;
            self.reread(&unescape(raw, quoted), start)?
        } else {
            let end = std::mem::replace(&mut self.end, close);
            self.pos = body;
            let list = self.substituted_to_end()?;
            self.end = end;
            self.pos = close + 1;
            list
        };
        pieces.push(WordPiece::Command { list, quoted });
        Ok(())
    }

    fn substituted_to_end(&mut self) -> Parsed<CommandList> {
        self.nested(|p| {
            let waiting = std::mem::take(&mut p.pending);
            let outer = p.outer_pending;
            p.outer_pending |= !waiting.is_empty();
            let list = p.list(ListEnd::End)?;
            if !p.pending.is_empty() {
                return p.stop("a heredoc is still open at `");
            }
            p.pending = waiting;
            p.outer_pending = outer;
            Ok(list)
        })
    }

    /// Parses text that is not a slice of the source as a list.
    fn reread(&mut self, text: &str, start: usize) -> Parsed<CommandList> {
        let mut inner = Parser::new(text);
        inner.depth = self.depth;
        inner.fixed = Some(self.span(start));
        let list = inner.substituted_to_end()?;
        self.notes.append(&mut inner.notes);
        Ok(list)
    }

    /// Up to `))`. Quotes are rejected, because the shell parses them twice here.
    pub(super) fn arithmetic(&mut self) -> Parsed<Word> {
        let start = self.pos;
        let mut pieces = Vec::new();
        let mut open = 0_usize;
        loop {
            match self.peek() {
                None => return self.stop("arithmetic is not closed"),
                Some(b')') if open == 0 => {
                    if self.peek_at(1) != Some(b')') {
                        return self.stop("(( that may be a command or arithmetic");
                    }
                    let span = self.span(start);
                    self.pos += 2;
                    return Ok(Word { pieces, span });
                }
                Some(b'\\' | b'\'' | b'"') => return self.stop("quotes in arithmetic"),
                Some(b'$') => self.dollar(&mut pieces, /*quoted*/ true)?,
                Some(b'`') => self.backquotes(&mut pieces, /*quoted*/ true)?,
                Some(byte) => {
                    match byte {
                        b'(' => open += 1,
                        b')' => open -= 1,
                        _ => (),
                    }
                    if let Some(c) = self.take_char() {
                        push(&mut pieces, c, /*quoted*/ true);
                    }
                }
            }
        }
    }

    /// `[` after a name where an assignment may start: the shell reads up to `]` regardless of the
    /// content.
    fn subscript(&mut self, pieces: &mut Vec<WordPiece>) -> Parsed<()> {
        let after_name = matches!(&pieces[..], [WordPiece::Text { text, quoted: false }] if is_name(text));
        if after_name {
            let len =
                self.rest()[1..].bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
            if self.peek_at(len + 1) != Some(b']') {
                return self.stop("a subscript that is more than a name or number");
            }
        }
        self.pos += 1;
        push(pieces, '[', /*quoted*/ false);
        Ok(())
    }

    /// `2\⏎>`: digits before an operator name a descriptor even with a line continuation between them.
    fn refuse_split_descriptor(&self, pieces: &[WordPiece]) -> Parsed<()> {
        let [WordPiece::Text { text, quoted: false }] = pieces else { return Ok(()) };
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let variable = text.starts_with('{') && text.ends_with('}');
        if digits || variable {
            return self.stop("a descriptor number split over two lines");
        }
        Ok(())
    }
}

fn is_one_simple_command(list: &CommandList) -> bool {
    match &list.items[..] {
        [Item { first, rest, background: false }] if rest.is_empty() => {
            matches!(&first.commands[..], [ParsedCommand { kind: CommandKind::Simple { .. }, .. }])
        }
        _ => false,
    }
}

pub(super) fn push(pieces: &mut Vec<WordPiece>, c: char, quoted: bool) {
    push_str(pieces, c.encode_utf8(&mut [0; 4]), quoted);
}

/// Appends to the last text piece if it is quoted alike.
pub(super) fn push_str(pieces: &mut Vec<WordPiece>, more: &str, quoted: bool) {
    match pieces.last_mut() {
        Some(WordPiece::Text { text, quoted: last }) if *last == quoted => text.push_str(more),
        _ => pieces.push(WordPiece::Text { text: more.to_owned(), quoted }),
    }
}

pub(super) fn name_len(text: &str) -> usize {
    text.bytes().take_while(|b| *b == b'_' || b.is_ascii_alphanumeric()).count()
}

fn closing_backquote(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'`' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

fn unescape(raw: &str, quoted: bool) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = match chars.peek() {
            Some('$' | '`' | '\\') => c == '\\',
            Some('"') => c == '\\' && quoted,
            _ => false,
        };
        match (escaped, chars.peek().copied()) {
            (true, Some(next)) => {
                out.push(next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}
