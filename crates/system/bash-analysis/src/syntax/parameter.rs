//! `${…}`.

use super::{
    Expansion, ExpansionAction, Word, WordPiece,
    cursor::{Parsed, Parser},
    word::{name_len, push},
};

impl Parser<'_> {
    /// Parses from after `${` through `}`.
    pub(super) fn braced_parameter(&mut self, quoted: bool) -> Parsed<WordPiece> {
        let mut action = ExpansionAction::Plain;
        let mut plain = true;
        if self.peek() == Some(b'!') && self.peek_at(1) != Some(b'}') {
            self.pos += 1;
            action = ExpansionAction::Indirect;
        } else if self.peek() == Some(b'#') && self.peek_at(1) != Some(b'}') {
            self.pos += 1;
            plain = false;
        }
        let name = self.braced_name()?;
        let mut operands = Vec::new();
        if self.eat("[") {
            operands.push(self.operand(b']', quoted)?);
            action = stricter(action, subscript_action(&operands));
            plain = false;
        }
        if !self.eat("}") {
            action = stricter(action, self.operator(&name)?);
            operands.push(self.operand(b'}', quoted)?);
            if action == ExpansionAction::Slice && operands.last().is_some_and(is_numbers) {
                action = ExpansionAction::Plain;
            }
            plain = false;
        }
        if plain && action == ExpansionAction::Plain {
            return Ok(WordPiece::Parameter { name, quoted });
        }
        Ok(WordPiece::Expansion(Box::new(Expansion { name, action, operands, quoted })))
    }

    fn braced_name(&mut self) -> Parsed<String> {
        let rest = self.rest();
        let len = match rest.bytes().next() {
            Some(b'_' | b'a'..=b'z' | b'A'..=b'Z') => name_len(rest),
            Some(b'0'..=b'9') => rest.bytes().take_while(u8::is_ascii_digit).count(),
            Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => 1,
            _ => return self.stop("an expansion without a name"),
        };
        self.pos += len;
        Ok(rest[..len].to_owned())
    }

    /// The operator after the name.
    fn operator(&mut self, name: &str) -> Parsed<ExpansionAction> {
        if matches!(name, "#" | "!" | "$") {
            return self.stop("an operator behind a special parameter");
        }
        for (text, action) in [
            (":=", ExpansionAction::Assign),
            ("=", ExpansionAction::Assign),
            (":-", ExpansionAction::Plain),
            (":+", ExpansionAction::Plain),
            (":?", ExpansionAction::Plain),
            ("-", ExpansionAction::Plain),
            ("+", ExpansionAction::Plain),
            ("?", ExpansionAction::Plain),
            (":", ExpansionAction::Slice),
            ("#", ExpansionAction::Plain),
            ("%", ExpansionAction::Plain),
            ("/", ExpansionAction::Plain),
            ("^", ExpansionAction::Plain),
            (",", ExpansionAction::Plain),
            ("@", ExpansionAction::Transform),
            ("*}", ExpansionAction::Indirect),
        ] {
            if self.looking_at(text) {
                self.pos += text.trim_end_matches('}').len();
                return Ok(action);
            }
        }
        self.stop("an unknown operator in ${…}")
    }

    /// Parses up to and including `close`.
    fn operand(&mut self, close: u8, quoted: bool) -> Parsed<Word> {
        let start = self.pos;
        let mut pieces = Vec::new();
        loop {
            match self.peek() {
                None => return self.stop("${ is not closed"),
                Some(byte) if byte == close => {
                    let span = self.span(start);
                    self.pos += 1;
                    return Ok(Word { pieces, span });
                }
                Some(b'<' | b'>') if self.peek_at(1) == Some(b'(') => {
                    return self.stop("a process substitution in ${…}");
                }
                Some(b'\'') if quoted => return self.stop("a single quote in a quoted ${…}"),
                Some(b'[') if close == b']' => return self.stop("a bracket in a subscript"),
                Some(b'"') => {
                    self.pos += 1;
                    self.double_quoted(&mut pieces)?;
                }
                Some(b'\\') if quoted => {
                    if self.peek_at(1) == Some(b'}') {
                        push(&mut pieces, '}', /*quoted*/ true);
                        self.pos += 2;
                    } else {
                        self.quoted_step(b'\\', &mut pieces, b"$`\"\\")?;
                    }
                }
                Some(byte) if quoted => self.quoted_step(byte, &mut pieces, b"$`\"\\")?,
                Some(byte) => self.unquoted(byte, &mut pieces)?,
            }
        }
    }
}

/// The action with more side effects: a name or subscript that is evaluated stays a risk whatever is
/// done with the value.
fn stricter(one: ExpansionAction, other: ExpansionAction) -> ExpansionAction {
    let severity = |action: ExpansionAction| match action {
        ExpansionAction::Plain => 0,
        ExpansionAction::Assign => 1,
        ExpansionAction::Slice => 2,
        ExpansionAction::Subscript => 3,
        ExpansionAction::Transform => 4,
        ExpansionAction::Indirect => 5,
    };
    if severity(one) < severity(other) { other } else { one }
}

/// `@`, `*` and numbers need no evaluation.
fn subscript_action(operands: &[Word]) -> ExpansionAction {
    let simple = operands.last().and_then(Word::bare).is_some_and(|text| {
        matches!(text, "@" | "*") || (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
    });
    if simple { ExpansionAction::Plain } else { ExpansionAction::Subscript }
}

fn is_numbers(word: &Word) -> bool {
    word.bare()
        .is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b' ' | b'-')))
}
