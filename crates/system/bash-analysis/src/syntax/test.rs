//! `[[ … ]]`.

use super::{
    Word, WordPiece,
    cursor::{Parsed, Parser, is_meta},
    word::{AssignmentPosition, push, push_str},
};

/// Maximum nesting of parentheses.
const MAX_GROUPS: usize = 20;

impl Parser<'_> {
    /// The words up to `]]`; operators become unquoted text.
    pub(super) fn test(&mut self) -> Parsed<Vec<Word>> {
        let mut words: Vec<Word> = Vec::new();
        let mut open = 0_usize;
        loop {
            self.skip_blanks();
            let may_break = matches!(words.last().map(Word::bare), None | Some(Some("&&" | "||" | "(")));
            if self.peek() == Some(b'\n') && !may_break {
                return self.stop("a newline inside a condition");
            }
            self.skip_lines()?;
            let start = self.pos;
            let regex = words.last().and_then(Word::bare) == Some("=~");
            match self.peek() {
                None => return self.stop("[[ is not closed"),
                Some(_) if regex => words.push(self.regex()?),
                Some(b'&' | b'|' | b'<' | b'>' | b'(' | b')') => {
                    let operator = self.test_operator(&mut open)?;
                    let mut pieces = Vec::new();
                    push_str(&mut pieces, operator, /*quoted*/ false);
                    words.push(Word { pieces, span: self.span(start) });
                }
                Some(b';') => return self.stop("an unexpected ; in [["),
                Some(_) => {
                    // Everything that ends a word was handled as an operator above.
                    let word = self.nested(|p| p.word(AssignmentPosition::Argument))?;
                    if word.bare() == Some("]]") {
                        return if open == 0 && is_condition(&words) {
                            Ok(words)
                        } else {
                            self.stop("an incomplete condition in [[")
                        };
                    }
                    self.refuse_pattern_group(&word)?;
                    words.push(word);
                }
            }
        }
    }

    fn test_operator(&mut self, open: &mut usize) -> Parsed<&'static str> {
        for operator in ["&&", "||", "<", ">", "(", ")"] {
            if self.eat(operator) {
                match operator {
                    "(" if *open == MAX_GROUPS => return self.stop("nested too deeply"),
                    "(" => *open += 1,
                    ")" if *open == 0 => return self.stop("an unexpected ) in [["),
                    ")" => *open -= 1,
                    "<" | ">" if self.peek() == Some(b'(') => return self.stop("an unexpected ( in [["),
                    _ => (),
                }
                return Ok(operator);
            }
        }
        self.stop("an unknown operator in [[")
    }

    /// `@(a|b)` is a pattern in `[[ … ]]`, though not elsewhere.
    fn refuse_pattern_group(&self, word: &Word) -> Parsed<()> {
        let group = self.peek() == Some(b'(')
            && matches!(word.pieces.last(), Some(WordPiece::Text { text, quoted: false }) if text.ends_with(['?', '*', '+', '@', '!']));
        if group { self.stop("a pattern group in [[") } else { Ok(()) }
    }

    /// The right side of `=~`: parentheses and bars are part of the word.
    fn regex(&mut self) -> Parsed<Word> {
        let start = self.pos;
        let mut pieces = Vec::new();
        let mut open = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'(' => open += 1,
                b')' if open == 0 => break,
                b')' => open -= 1,
                b'|' => (),
                b' ' | b'\t' | b'\n' if 0 < open => {
                    return self.stop("a blank in a group of a regular expression");
                }
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => return self.stop("an unexpected ( in [["),
                byte if is_meta(byte) => break,
                byte => {
                    self.unquoted(byte, &mut pieces)?;
                    continue;
                }
            }
            self.pos += 1;
            push(&mut pieces, char::from(byte), /*quoted*/ false);
        }
        if self.pos == start || 0 < open {
            return self.stop("an incomplete regular expression in [[");
        }
        Ok(Word { pieces, span: self.span(start) })
    }
}

/// Whether the words form a complete condition.
fn is_condition(words: &[Word]) -> bool {
    let mut rest = words;
    alternatives(&mut rest) && rest.is_empty()
}

fn operator(rest: &[Word]) -> Option<&str> {
    rest.first().and_then(Word::bare)
}

/// Terms joined by `&&` and `||`. Nesting is bounded by the parentheses, which the word parser bounds.
fn alternatives(rest: &mut &[Word]) -> bool {
    loop {
        if !term(rest) {
            return false;
        }
        match operator(rest) {
            Some("&&" | "||") => *rest = &rest[1..],
            _ => return true,
        }
    }
}

fn term(rest: &mut &[Word]) -> bool {
    while operator(rest) == Some("!") {
        *rest = &rest[1..];
    }
    match operator(rest) {
        Some("(") => {
            *rest = &rest[1..];
            let inside = alternatives(rest) && operator(rest) == Some(")");
            *rest = rest.get(1..).unwrap_or_default();
            return inside;
        }
        Some("&&" | "||" | "<" | ">" | ")") => return false,
        None if rest.is_empty() => return false,
        Some(unary) if unary.len() == 2 && unary.starts_with('-') => {
            let known = b"abcdefghknoprstuvwxzGLNORS".contains(&unary.as_bytes()[1]);
            let operand = rest.get(1).is_some_and(is_operand);
            *rest = rest.get(2..).unwrap_or_default();
            return known && operand;
        }
        _ => *rest = &rest[1..],
    }
    const BINARY: &[&str] =
        &["=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];
    if operator(rest).is_some_and(|word| BINARY.contains(&word)) {
        let operand = rest.get(1).is_some_and(is_operand);
        *rest = rest.get(2..).unwrap_or_default();
        return operand;
    }
    true
}

fn is_operand(word: &Word) -> bool {
    !matches!(word.bare(), Some("&&" | "||" | "<" | ">" | "(" | ")"))
}
