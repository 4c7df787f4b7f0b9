//! `$'…'`: escapes decoded like bash.

use super::cursor::{Parsed, Parser};

impl Parser<'_> {
    /// Decodes the text after the opening quote.
    pub(super) fn ansi_quoted(&mut self) -> Parsed<String> {
        let mut out = String::new();
        loop {
            match self.take_char() {
                None => return self.stop("a quote is not closed"),
                Some('\'') => return Ok(out),
                Some('\\') => out.push(self.ansi_escape()?),
                Some(c) => out.push(c),
            }
        }
    }

    fn ansi_escape(&mut self) -> Parsed<char> {
        let Some(c) = self.take_char() else { return self.stop("a quote is not closed") };
        let code = match c {
            'a' => 0x07,
            'b' => 0x08,
            'e' | 'E' => 0x1b,
            'f' => 0x0c,
            'n' => 0x0a,
            'r' => 0x0d,
            't' => 0x09,
            'v' => 0x0b,
            '\\' | '\'' | '"' | '?' => return Ok(c),
            '0'..='7' => {
                self.pos -= 1;
                self.digits(8, 3)?
            }
            'x' => self.digits(16, 2)?,
            'u' => self.digits(16, 4)?,
            'U' => self.digits(16, 8)?,
            _ => return self.stop("an unknown escape in $'…'"),
        };
        // NUL ends the string in bash, and a byte above 0x7f may complete a character of another
        // encoding: both are ambiguous.
        let unicode = matches!(c, 'u' | 'U');
        match char::from_u32(code) {
            Some('\0') | None => self.stop("an escape without a character in $'…'"),
            Some(c) if c.is_ascii() || unicode => Ok(c),
            Some(_) => self.stop("a raw byte in $'…'"),
        }
    }

    fn digits(&mut self, radix: u32, most: usize) -> Parsed<u32> {
        let len = self.rest().bytes().take(most).take_while(|b| char::from(*b).is_digit(radix)).count();
        let text = &self.rest()[..len];
        let Ok(code) = u32::from_str_radix(text, radix) else {
            return self.stop("an escape without digits in $'…'");
        };
        self.pos += len;
        Ok(code)
    }
}
