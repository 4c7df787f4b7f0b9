//! Tool calls in Python syntax: `[f(a=1), g(b="x")]`.

use serde_json::{Map, Number, Value};

use super::{DialectRead, RecoveredCall, bare_name};
use crate::ToolSet;

/// Maximum nesting depth of values; deeper ones are not parsed.
const MAX_DEPTH: usize = 32;

/// Reads calls up to a closing marker, or to the end of the text.
pub(super) fn until(rest: &str, close: &str, _: &ToolSet) -> Option<DialectRead> {
    let (inner, length) = match rest.find(close) {
        Some(end) => (&rest[..end], end + close.len()),
        None => (rest, rest.len()),
    };
    Some(DialectRead { calls: calls(inner)?, length })
}

/// Reads a text that consists of calls only.
pub(super) fn bare(text: &str) -> Option<Vec<RecoveredCall>> {
    calls(text)
}

/// Reads a list of calls, or calls on separate lines, optionally inside `print()`.
pub(super) fn calls(text: &str) -> Option<Vec<RecoveredCall>> {
    let mut parser = PythonParser { rest: text.trim() };
    let mut out = Vec::new();
    if parser.take("[") {
        while !parser.take("]") {
            out.push(parser.call()?);
            if !parser.take(",") && !parser.rest.starts_with(']') {
                return None;
            }
        }
    } else {
        while !parser.rest.is_empty() {
            out.push(parser.statement()?);
        }
    }
    parser.skip();
    (parser.rest.is_empty() && !out.is_empty()).then_some(out)
}

struct PythonParser<'a> {
    rest: &'a str,
}

impl<'a> PythonParser<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, mark: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                self.skip();
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        self.skip();
        let end = self
            .rest
            .find(|it: char| !(it.is_alphanumeric() || "_.-".contains(it)))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty() && !word.starts_with(|it: char| it.is_ascii_digit())).then_some(word)
    }

    fn statement(&mut self) -> Option<RecoveredCall> {
        if self.take("print(") {
            let call = self.call()?;
            return self.take(")").then_some(call);
        }
        self.call()
    }

    fn call(&mut self) -> Option<RecoveredCall> {
        let name = bare_name(self.word()?).to_owned();
        if !self.take("(") {
            return None;
        }
        let mut input = Map::new();
        while !self.take(")") {
            let key = self.word()?.to_owned();
            if !self.take("=") {
                return None;
            }
            input.insert(key, self.value(0)?);
            if !self.take(",") && !self.rest.starts_with(')') {
                return None;
            }
        }
        Some(RecoveredCall { name, input: Value::Object(input).to_string() })
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip();
        match self.rest.chars().next()? {
            '"' | '\'' => self.string().map(Value::String),
            '[' | '(' => self.list(depth),
            '{' => self.dict(depth),
            '-' | '0'..='9' => self.number(),
            _ => match self.word()? {
                "True" | "true" => Some(Value::Bool(true)),
                "False" | "false" => Some(Value::Bool(false)),
                "None" | "null" => Some(Value::Null),
                _ => None,
            },
        }
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        let close = if self.take("[") { "]" } else { self.take("(").then_some(")")? };
        let mut out = Vec::new();
        while !self.take(close) {
            out.push(self.value(depth + 1)?);
            if !self.take(",") && !self.rest.starts_with(close) {
                return None;
            }
        }
        Some(Value::Array(out))
    }

    fn dict(&mut self, depth: usize) -> Option<Value> {
        self.take("{");
        let mut out = Map::new();
        while !self.take("}") {
            self.skip();
            let key = self.string()?;
            if !self.take(":") {
                return None;
            }
            out.insert(key, self.value(depth + 1)?);
            if !self.take(",") && !self.rest.starts_with('}') {
                return None;
            }
        }
        Some(Value::Object(out))
    }

    fn number(&mut self) -> Option<Value> {
        let end = self
            .rest
            .find(|it: char| !(it.is_ascii_alphanumeric() || "+-.".contains(it)))
            .unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        if let Ok(number) = text.parse::<i64>() {
            return Some(Value::from(number));
        }
        let is_float = text.contains(['.', 'e', 'E']);
        text.parse::<f64>().ok().filter(|_| is_float).and_then(Number::from_f64).map(Value::Number)
    }

    fn string(&mut self) -> Option<String> {
        let quotes = ["\"\"\"", "\'\'\'", "\"", "\'"];
        let quote = quotes.into_iter().find(|quote| self.rest.starts_with(quote))?;
        let mut chars = self.rest[quote.len()..].char_indices();
        let body = &self.rest[quote.len()..];
        let mut out = String::new();
        while let Some((at, it)) = chars.next() {
            if body[at..].starts_with(quote) {
                self.rest = &body[at + quote.len()..];
                return Some(out);
            }
            match it {
                '\\' => {
                    let (_, escaped) = chars.next()?;
                    out.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '0' => '\0',
                        '\\' | '"' | '\'' => escaped,
                        // Other expressions would have to be evaluated.
                        _ => return None,
                    });
                }
                it => out.push(it),
            }
        }
        None
    }
}
