//! Checks that an `awk` program can only compute and print.
//!
//! Own grammar: POSIX awk without redirections, pipes, `getline`, user-defined functions and other side
//! effects. Constructs that gawk, mawk, busybox and the one true awk parse differently (a slash that may
//! divide or start a regular expression, brackets inside regular expressions, continued lines) are not
//! part of the grammar.

/// Functions without side effects.
const FUNCTIONS: &[&str] = &[
    "atan2", "cos", "exp", "gensub", "gsub", "index", "int", "length", "log", "match", "mktime", "rand",
    "sin", "split", "sprintf", "sqrt", "srand", "strftime", "sub", "substr", "systime", "tolower", "toupper",
];

/// Reserved words.
const RESERVED: &[&str] = &[
    "BEGIN",
    "BEGINFILE",
    "END",
    "ENDFILE",
    "break",
    "case",
    "close",
    "continue",
    "default",
    "delete",
    "do",
    "else",
    "eval",
    "exit",
    "extension",
    "fflush",
    "for",
    "func",
    "function",
    "getline",
    "if",
    "in",
    "namespace",
    "next",
    "nextfile",
    "print",
    "printf",
    "return",
    "switch",
    "system",
    "while",
];

/// Variables that give access to the outside or change the input.
const FAR_REACHING: &[&str] = &["ARGC", "ARGV", "ENVIRON", "FUNCTAB", "PROCINFO", "SYMTAB"];

/// Functions of some versions only; they must not be used as variables.
const OTHER_FUNCTIONS: &[&str] = &[
    "and",
    "asort",
    "asorti",
    "bindtextdomain",
    "compl",
    "dcgettext",
    "dcngettext",
    "isarray",
    "lshift",
    "mkbool",
    "or",
    "patsplit",
    "rshift",
    "strtonum",
    "typeof",
    "xor",
];

/// Maximum nesting depth.
const DEEPEST: usize = 60;

/// Whether a program can only compute and print.
pub(super) fn is_harmless(program: &str) -> bool {
    let sane = program.bytes().all(|byte| byte == b'\n' || byte == b'\t' || !byte.is_ascii_control());
    sane && Parser { text: program, at: 0, before: SlashContext::Start, depth: 0 }.program().is_some()
}

/// Whether a variable may be assigned on the command line without changing the input.
pub(super) fn is_plain_variable(name: &str) -> bool {
    let first = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    let plain = name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
    first && plain && is_variable(name)
}

fn is_variable(name: &str) -> bool {
    ![FUNCTIONS, RESERVED, FAR_REACHING, OTHER_FUNCTIONS].iter().any(|list| list.contains(&name))
}

/// Whether the token before a slash decides its meaning alike in all versions.
#[derive(Clone, Copy, Eq, PartialEq)]
enum SlashContext {
    Start,
    /// After a closing parenthesis, a builtin function, `++` or `--`: versions differ.
    Ambiguous,
    /// After anything else.
    Clear,
}

/// Whether `>` compares or redirects.
#[derive(Clone, Copy, Eq, PartialEq)]
enum GreaterThanMeaning {
    Compares,
    Writes,
}

struct Parser<'p> {
    text: &'p str,
    at: usize,
    before: SlashContext,
    depth: usize,
}

impl<'p> Parser<'p> {
    fn rest(&self) -> &'p str {
        &self.text[self.at..]
    }

    /// Skips spaces and a comment, but no newline.
    fn skip(&mut self) -> Option<()> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            self.at += blanks;
            if !self.rest().starts_with('#') {
                return Some(());
            }
            let line = self.rest().lines().next().unwrap_or_default();
            if line.ends_with('\\') {
                return None;
            }
            self.at += line.len();
        }
    }

    /// Skips newlines too.
    fn skip_lines(&mut self) -> Option<()> {
        loop {
            self.skip()?;
            if !self.rest().starts_with('\n') {
                return Some(());
            }
            self.at += 1;
        }
    }

    /// Skips statement separators.
    fn skip_ends(&mut self) -> Option<()> {
        loop {
            self.skip()?;
            if !self.rest().starts_with(['\n', ';']) {
                return Some(());
            }
            self.at += 1;
            self.before = SlashContext::Clear;
        }
    }

    /// Consumes `symbol` if it is next.
    fn take(&mut self, symbol: &str) -> Option<bool> {
        self.skip()?;
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
            self.before = SlashContext::Clear;
        }
        Some(found)
    }

    fn expect(&mut self, symbol: &str) -> Option<()> {
        self.take(symbol)?.then_some(())
    }

    fn peek_name(&self) -> &'p str {
        let rest = self.rest();
        if !rest.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()) {
            return "";
        }
        let len = rest.bytes().take_while(|b| *b == b'_' || b.is_ascii_alphanumeric()).count();
        &rest[..len]
    }

    /// Consumes the word if it is next.
    fn take_word(&mut self, word: &str) -> Option<bool> {
        self.skip()?;
        let found = self.peek_name() == word;
        if found {
            self.at += word.len();
            self.before = SlashContext::Clear;
        }
        Some(found)
    }

    fn program(mut self) -> Option<()> {
        loop {
            self.skip_ends()?;
            if self.rest().is_empty() {
                return Some(());
            }
            if self.take_word("BEGIN")? || self.take_word("END")? {
                self.expect("{")?;
                self.block()?;
                continue;
            }
            if !self.rest().starts_with('{') {
                self.expression(GreaterThanMeaning::Compares)?;
                if self.take(",")? {
                    self.skip_lines()?;
                    self.expression(GreaterThanMeaning::Compares)?;
                }
            }
            if self.take("{")? {
                self.block()?;
            } else {
                self.end_of_item()?;
            }
        }
    }

    fn end_of_item(&mut self) -> Option<()> {
        self.skip()?;
        (self.rest().is_empty() || self.rest().starts_with(['\n', ';'])).then_some(())
    }

    /// Statements up to the closing brace.
    fn block(&mut self) -> Option<()> {
        self.deeper()?;
        loop {
            self.skip_ends()?;
            if self.take("}")? {
                self.depth -= 1;
                return Some(());
            }
            self.statement()?;
        }
    }

    fn deeper(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth < DEEPEST).then_some(())
    }

    fn statement(&mut self) -> Option<()> {
        self.deeper()?;
        self.skip()?;
        if self.take("{")? {
            self.block()?;
        } else {
            match self.peek_name() {
                "if" => self.conditional()?,
                "while" => {
                    self.at += "while".len();
                    self.condition()?;
                    self.body()?;
                }
                "do" => {
                    self.at += "do".len();
                    self.body()?;
                    self.skip_ends()?;
                    self.take_word("while")?.then_some(())?;
                    self.condition()?;
                    self.end_of_statement()?;
                }
                "for" => self.repeated()?,
                _ => {
                    self.simple()?;
                    self.end_of_statement()?;
                }
            }
        }
        self.depth -= 1;
        Some(())
    }

    fn end_of_statement(&mut self) -> Option<()> {
        self.skip()?;
        self.rest().starts_with(['\n', ';', '}']).then_some(())
    }

    fn condition(&mut self) -> Option<()> {
        self.expect("(")?;
        self.expression(GreaterThanMeaning::Compares)?;
        self.expect(")")?;
        self.before = SlashContext::Ambiguous;
        Some(())
    }

    /// The body of a condition or loop; may be empty.
    fn body(&mut self) -> Option<()> {
        let before = self.before;
        self.skip_lines()?;
        self.before = before;
        if self.rest().starts_with(';') { Some(()) } else { self.statement() }
    }

    fn conditional(&mut self) -> Option<()> {
        self.at += "if".len();
        self.condition()?;
        self.body()?;
        let behind = (self.at, self.before);
        self.skip_ends()?;
        if self.take_word("else")? {
            return self.body();
        }
        (self.at, self.before) = behind;
        Some(())
    }

    fn repeated(&mut self) -> Option<()> {
        self.at += "for".len();
        self.expect("(")?;
        self.skip()?;
        let start = self.at;
        let name = self.peek_name();
        self.at += name.len();
        if is_variable(name) && self.take_word("in")? {
            self.skip()?;
            let array = self.peek_name();
            self.at += array.len();
            if is_variable(array) && !array.is_empty() && self.take(")")? {
                self.before = SlashContext::Ambiguous;
                return self.body();
            }
        }
        self.at = start;
        for (part, end) in [(0, ";"), (1, ";"), (2, ")")] {
            self.skip()?;
            if !self.rest().starts_with(end) {
                if part == 1 { self.expression(GreaterThanMeaning::Compares)? } else { self.simple()? }
            }
            self.expect(end)?;
        }
        self.before = SlashContext::Ambiguous;
        self.body()
    }

    fn simple(&mut self) -> Option<()> {
        self.skip()?;
        match self.peek_name() {
            word @ ("print" | "printf") => {
                self.at += word.len();
                self.before = SlashContext::Clear;
                self.skip()?;
                if self.rest().starts_with(['\n', ';', '}']) {
                    return Some(());
                }
                self.list(GreaterThanMeaning::Writes)
            }
            word @ ("next" | "nextfile" | "break" | "continue") => {
                self.at += word.len();
                Some(())
            }
            "exit" => {
                self.at += "exit".len();
                self.before = SlashContext::Clear;
                self.skip()?;
                if self.rest().starts_with(['\n', ';', '}']) {
                    Some(())
                } else {
                    self.expression(GreaterThanMeaning::Compares)
                }
            }
            "delete" => {
                self.at += "delete".len();
                self.skip()?;
                let name = self.peek_name();
                (!name.is_empty() && is_variable(name)).then_some(())?;
                self.at += name.len();
                if self.take("[")? {
                    self.list(GreaterThanMeaning::Compares)?;
                    self.expect("]")?;
                }
                Some(())
            }
            _ => self.expression(GreaterThanMeaning::Compares),
        }
    }

    /// Comma-separated expressions.
    fn list(&mut self, greater: GreaterThanMeaning) -> Option<()> {
        loop {
            self.expression(greater)?;
            if !self.take(",")? {
                return Some(());
            }
            self.skip_lines()?;
        }
    }

    /// Alternating operands and operators. Precedence does not matter here.
    fn expression(&mut self, greater: GreaterThanMeaning) -> Option<()> {
        self.deeper()?;
        loop {
            self.operand(greater)?;
            if !self.operators(greater)? {
                self.depth -= 1;
                return Some(());
            }
        }
    }

    fn operand(&mut self, greater: GreaterThanMeaning) -> Option<()> {
        self.skip()?;
        while self.rest().starts_with(['!', '-', '+', '$']) {
            let signs = ["++", "--"].iter().any(|it| self.rest().starts_with(it));
            self.at += if signs { 2 } else { 1 };
            self.before = if signs { SlashContext::Ambiguous } else { SlashContext::Clear };
            self.skip()?;
        }
        match self.rest().bytes().next()? {
            b'"' => self.delimited(b'"')?,
            b'/' => {
                (self.before != SlashContext::Ambiguous).then_some(())?;
                self.delimited(b'/')?;
            }
            b'0'..=b'9' | b'.' => self.number(),
            b'(' => {
                self.at += 1;
                self.before = SlashContext::Clear;
                self.list(GreaterThanMeaning::Compares)?;
                self.expect(")")?;
                self.before = SlashContext::Ambiguous;
                return Some(());
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => return self.named(greater),
            _ => return None,
        }
        self.before = SlashContext::Clear;
        Some(())
    }

    /// A variable, an array element, or a builtin function call.
    fn named(&mut self, greater: GreaterThanMeaning) -> Option<()> {
        let name = self.peek_name();
        self.at += name.len();
        if FUNCTIONS.contains(&name) {
            if self.take("(")? {
                if !self.take(")")? {
                    self.list(GreaterThanMeaning::Compares)?;
                    self.expect(")")?;
                }
            } else {
                (name == "length").then_some(())?;
            }
            self.before = SlashContext::Ambiguous;
            return Some(());
        }
        is_variable(name).then_some(())?;
        self.before = SlashContext::Clear;
        if self.rest().starts_with('[') {
            self.at += 1;
            self.list(greater)?;
            self.expect("]")?;
            self.before = SlashContext::Clear;
        }
        // A call of an undefined function, or a space before the parenthesis: versions differ.
        self.skip()?;
        (!self.rest().starts_with(['(', '['])).then_some(())
    }

    fn number(&mut self) {
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut len = digits(0);
        if bytes.get(len) == Some(&b'.') {
            len += 1 + digits(len + 1);
        }
        if matches!(bytes.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
            let power = bytes.get(len + 1 + sign).map_or(0, |_| digits(len + 1 + sign));
            if 0 < power {
                len += 1 + sign + power;
            }
        }
        self.at += len.max(1);
    }

    /// Reads from the opening to the closing delimiter.
    fn delimited(&mut self, delimiter: u8) -> Option<()> {
        let bytes = self.text.as_bytes();
        let mut at = self.at + 1;
        loop {
            match *bytes.get(at)? {
                b'\n' => return None,
                b'\\' => {
                    (!matches!(bytes.get(at + 1)?, b'\n')).then_some(())?;
                    at += 2;
                }
                b'[' if delimiter == b'/' => at += super::bracket_expr::plain(&bytes[at..], b'/')?,
                byte if byte == delimiter => {
                    self.at = at + 1;
                    return self.text.is_char_boundary(self.at).then_some(());
                }
                _ => at += 1,
            }
        }
    }

    /// Consumes a binary operator. Returns false at the end of the expression.
    fn operators(&mut self, greater: GreaterThanMeaning) -> Option<bool> {
        self.skip()?;
        while ["++", "--"].iter().any(|it| self.rest().starts_with(it)) {
            self.at += 2;
            self.before = SlashContext::Ambiguous;
            self.skip()?;
        }
        let rest = self.rest();
        for symbol in ["&&", "||"] {
            if rest.starts_with(symbol) {
                self.at += 2;
                self.before = SlashContext::Clear;
                self.skip_lines()?;
                return Some(true);
            }
        }
        if rest.starts_with('/')
            && self.before == SlashContext::Ambiguous
            && !self.text[..self.at].trim_end().ends_with(')')
        {
            return None;
        }
        if rest.starts_with('>') && greater == GreaterThanMeaning::Writes {
            return None;
        }
        const SYMBOLS: &[&str] = &[
            "**=", "+=", "-=", "*=", "/=", "%=", "^=", "==", "!=", "<=", ">=", "!~", "**", "+", "-", "*",
            "/", "%", "^", "<", ">", "~", "?", ":", "=",
        ];
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            // `>>` is never a comparison.
            if *symbol == ">" && rest.starts_with(">>") {
                return None;
            }
            self.at += symbol.len();
            self.before = SlashContext::Clear;
            return Some(true);
        }
        if self.take_word("in")? {
            return Some(true);
        }
        // Another operand directly after this one is concatenated.
        let joined = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "_\"$(.".contains(c));
        Some(joined && !RESERVED.contains(&self.peek_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::is_harmless;

    #[test]
    fn awk_program_that_only_prints_is_harmless() {
        for program in include_str!("../../tests/all/tables/awk_harmless.txt").lines() {
            let program = program.replace('⏎', "\n");
            assert!(is_harmless(&program), "{program}");
        }
    }

    #[test]
    fn awk_program_with_side_effects_is_not_harmless() {
        for program in include_str!("../../tests/all/tables/awk_dangerous.txt").lines() {
            let program = program.replace('⏎', "\n");
            assert!(!is_harmless(&program), "{program}");
        }
    }
}
