use super::{
    AssignedValue, Assignment, CommandKind, CommandList, Item, ParsedCommand, PipedCommands, PipelineJoin,
    Redirect, RedirectOperator, SyntaxNote, Word, WordPiece,
    cursor::{Parsed, Parser, is_meta, is_name},
    word::{AssignmentPosition, name_len},
};

/// What ends a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ListEnd {
    /// The end of the text.
    End,
    /// `)`
    Parenthesis,
    /// `;;`, `;&`, `;;&` or `esac`
    Arm,
    /// One of these reserved words.
    Words(&'static [&'static str]),
}

/// Reserved words that are recognised where a command may start.
const RESERVED: &[&str] = &[
    "!", "[[", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
    "if", "in", "select", "then", "time", "until", "while", "]]",
];

impl Parser<'_> {
    /// Parses the whole text.
    pub(super) fn script(&mut self) -> Parsed<CommandList> {
        let list = self.list(ListEnd::End)?;
        if self.pending.is_empty() { Ok(list) } else { self.stop("a heredoc without its body") }
    }

    /// Parses commands up to `until`, which is not consumed.
    pub(super) fn list(&mut self, until: ListEnd) -> Parsed<CommandList> {
        self.nested(|p| {
            let mut list = CommandList::default();
            loop {
                p.skip_lines()?;
                if p.at(until) {
                    return Ok(list);
                }
                list.items.push(p.item()?);
                p.skip_blanks();
                match p.peek() {
                    Some(b';') if !matches!(p.peek_at(1), Some(b';' | b'&')) => {
                        p.pos += 1;
                        p.settle_operator()?;
                    }
                    Some(b'&') if p.peek_at(1) != Some(b'&') => {
                        p.pos += 1;
                        p.settle_operator()?;
                        if let Some(item) = list.items.last_mut() {
                            item.background = true;
                        }
                    }
                    Some(b'\n') => (),
                    _ if p.at(until) && p.ends_bare(until, &list) => return Ok(list),
                    _ => return p.stop("unexpected text behind a command"),
                }
            }
        })
    }

    /// A reserved word directly after a command ends the list only after a compound command without
    /// redirections; after anything else the word would be an argument.
    fn ends_bare(&self, until: ListEnd, list: &CommandList) -> bool {
        if !matches!(until, ListEnd::Words(_)) && self.reserved() != Some("esac") {
            return true;
        }
        let last =
            list.items.last().map(|item| item.rest.last().map_or(&item.first, |(_, pipeline)| pipeline));
        last.and_then(|pipeline| pipeline.commands.last()).is_some_and(|command| command.redirects.is_empty())
    }

    /// Like `list`; fails if it is empty.
    pub(super) fn filled_list(&mut self, until: ListEnd) -> Parsed<CommandList> {
        let list = self.list(until)?;
        if list.items.is_empty() { self.stop("a command is missing") } else { Ok(list) }
    }

    fn at(&self, until: ListEnd) -> bool {
        match until {
            ListEnd::End => self.peek().is_none(),
            ListEnd::Parenthesis => self.peek() == Some(b')'),
            ListEnd::Arm => self.looking_at(";;") || self.looking_at(";&") || self.reserved() == Some("esac"),
            ListEnd::Words(words) => self.reserved().is_some_and(|word| words.contains(&word)),
        }
    }

    /// The next word if it is a reserved word.
    pub(super) fn reserved(&self) -> Option<&'static str> {
        let rest = self.rest();
        let len = rest.bytes().take_while(|b| !is_meta(*b)).count();
        let word = rest.get(..len)?;
        RESERVED.iter().copied().find(|reserved| *reserved == word)
    }

    /// Consumes a reserved word or fails.
    pub(super) fn expect(&mut self, word: &'static str) -> Parsed<()> {
        self.skip_blanks();
        if self.reserved() != Some(word) {
            return self.stop("a reserved word is missing");
        }
        self.pos += word.len();
        Ok(())
    }

    fn item(&mut self) -> Parsed<Item> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.skip_blanks();
            let join = match (self.peek(), self.peek_at(1)) {
                (Some(b'&'), Some(b'&')) => PipelineJoin::And,
                (Some(b'|'), Some(b'|')) => PipelineJoin::Or,
                _ => return Ok(Item { first, rest, background: false }),
            };
            self.pos += 2;
            self.settle_operator()?;
            self.skip_lines()?;
            rest.push((join, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Parsed<PipedCommands> {
        let mut negated = false;
        loop {
            self.skip_blanks();
            match self.reserved() {
                Some("time") if self.time_prefix() => (),
                Some("!") => {
                    self.pos += 1;
                    negated = !negated;
                }
                _ => break,
            }
        }
        let mut commands = vec![self.command()?];
        let mut errors_too = false;
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'|') || self.peek_at(1) == Some(b'|') {
                return Ok(PipedCommands { commands, errors_too, negated });
            }
            let both = self.peek_at(1) == Some(b'&');
            errors_too |= both;
            self.pos += 1 + usize::from(both);
            self.settle_operator()?;
            self.skip_lines()?;
            commands.push(self.command()?);
        }
    }

    /// Consumes `time`, `-p` and `--`. A lone `time` is left and parsed as a command without arguments.
    fn time_prefix(&mut self) -> bool {
        let start = self.pos;
        self.pos += "time".len();
        self.skip_blanks();
        for option in ["-p", "--"] {
            if self.rest().strip_prefix(option).is_some_and(|rest| rest.starts_with([' ', '\t'])) {
                self.pos += option.len();
                self.skip_blanks();
            }
        }
        let alone = self.peek().is_none_or(|b| matches!(b, b';' | b'&' | b'|' | b'\n' | b')'));
        if alone {
            self.pos = start;
        }
        !alone
    }

    pub(super) fn command(&mut self) -> Parsed<ParsedCommand> {
        self.nested(|p| {
            p.skip_blanks();
            let start = p.pos;
            let kind = match (p.peek(), p.reserved()) {
                (None, _) => return p.stop("a command is missing"),
                (Some(b'('), _) => p.parenthesis()?,
                (_, Some("time")) => return p.simple(),
                (_, Some("coproc")) => {
                    p.pos += "coproc".len();
                    p.notes.push(SyntaxNote::Coprocess);
                    CommandKind::Coprocess(Box::new(p.command()?))
                }
                (_, Some(word)) => p.compound(word)?,
                _ => return p.simple(),
            };
            let redirects = p.redirects()?;
            Ok(ParsedCommand { kind, redirects, span: p.span(start) })
        })
    }

    /// Redirections after a compound command.
    fn redirects(&mut self) -> Parsed<Vec<Redirect>> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(redirects),
            }
        }
    }

    fn simple(&mut self) -> Parsed<ParsedCommand> {
        let start = self.pos;
        let (mut assignments, mut words, mut redirects) = (Vec::new(), Vec::new(), Vec::new());
        let mut end = start;
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                end = self.pos;
                continue;
            }
            match self.peek() {
                Some(b'(') => match (&words[..], assignments.is_empty() && redirects.is_empty()) {
                    ([name], true) => return self.function(name, start),
                    _ => return self.stop("an unexpected parenthesis"),
                },
                _ if self.at_word() => (),
                _ => break,
            }
            let position =
                if words.is_empty() { AssignmentPosition::Assignment } else { AssignmentPosition::Argument };
            let word = self.word(position)?;
            match assigned_name(&word).filter(|_| words.is_empty()) {
                Some(target) => assignments.push(self.assignment(word, target)?),
                None => {
                    if words.is_empty() {
                        self.refuse_late_keyword(&word, start)?;
                    }
                    words.push(word);
                }
            }
            end = self.pos;
        }
        if assignments.is_empty() && words.is_empty() && redirects.is_empty() {
            return self.stop("a command is missing");
        }
        let span = self.fixed.clone().unwrap_or(start..end);
        Ok(ParsedCommand { kind: CommandKind::Simple { assignments, words }, redirects, span })
    }

    /// A word spelled like a reserved word is accepted only where it is certainly not one; whether the
    /// shell recognises it elsewhere depends on the context.
    fn refuse_late_keyword(&self, word: &Word, start: usize) -> Parsed<()> {
        match word.bare() {
            Some("time") if word.span.start == start => Ok(()),
            Some(text) if RESERVED.contains(&text) => self.stop("a reserved word where none is expected"),
            _ => Ok(()),
        }
    }

    fn function(&mut self, name: &Word, start: usize) -> Parsed<ParsedCommand> {
        let Some(name) = name.bare().map(str::to_owned) else {
            return self.stop("a function name that is quoted or expanded");
        };
        self.pos += 1;
        self.skip_blanks();
        if !self.eat(")") {
            return self.stop("an unexpected parenthesis");
        }
        let body = self.function_body()?;
        Ok(ParsedCommand {
            kind: CommandKind::Function { name, body },
            redirects: Vec::new(),
            span: self.span(start),
        })
    }

    /// A compound command; anything else is not a function body.
    pub(super) fn function_body(&mut self) -> Parsed<Box<ParsedCommand>> {
        self.skip_lines()?;
        let body = self.command()?;
        match body.kind {
            CommandKind::Simple { .. } | CommandKind::Function { .. } | CommandKind::Coprocess(_) => {
                self.stop("a function without a body")
            }
            _ => Ok(Box::new(body)),
        }
    }

    /// Parses the value after `name=`, or an array.
    fn assignment(&mut self, word: Word, target: Assigned) -> Parsed<Assignment> {
        let Assigned { name, subscript, append, value: first } = target;
        let start = word.span.start;
        let value = if first.is_empty() && word.pieces.len() == 1 && self.peek() == Some(b'(') {
            AssignedValue::Array(self.array()?)
        } else {
            let mut pieces = vec![WordPiece::Text { text: first, quoted: false }];
            pieces.extend(word.pieces.into_iter().skip(1));
            AssignedValue::Scalar(Word { pieces, span: word.span })
        };
        Ok(Assignment { name, subscript, append, value, span: self.span(start) })
    }

    fn array(&mut self) -> Parsed<Vec<Word>> {
        self.pos += 1;
        let mut words = Vec::new();
        loop {
            self.skip_lines()?;
            match self.peek() {
                Some(b')') => {
                    self.pos += 1;
                    return Ok(words);
                }
                Some(b'[') => return self.stop("a subscript in an array"),
                _ if self.at_word() => words.push(self.nested(|p| p.word(AssignmentPosition::Argument))?),
                _ => return self.stop("an array is not closed"),
            }
        }
    }

    /// Whether a word starts here.
    pub(super) fn at_word(&self) -> bool {
        match self.peek() {
            Some(b'<' | b'>') => self.peek_at(1) == Some(b'('),
            Some(byte) => !is_meta(byte),
            None => false,
        }
    }

    /// Parses a redirection if one is next.
    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let variable = variable_descriptor(rest);
        let prefix = variable.map_or(digits, |name| name.len() + 2);
        let Some(operator) = operator(&rest[prefix..], prefix == 0) else { return Ok(None) };
        let (text, operator) = operator;
        let variable = variable.map(str::to_owned);
        self.pos += prefix + text.len();
        self.settle_operator()?;
        self.skip_redirect_blanks();
        if !self.at_word() || self.peek() == Some(b'#') {
            return self.stop("a redirection without a target");
        }
        // After `>&` and `<&`, a dash is a token of its own: `>&-1` closes the output, and `1` is an
        // argument.
        if matches!(operator, RedirectOperator::DuplicateIn | RedirectOperator::DuplicateOut)
            && self.peek() == Some(b'-')
        {
            let start = self.pos;
            self.pos += 1;
            let pieces = vec![WordPiece::Text { text: "-".to_owned(), quoted: false }];
            let target = Word { pieces, span: self.span(start) };
            return Ok(Some(Redirect { operator, variable, target, heredoc: None }));
        }
        let target = self.nested(|p| p.word(AssignmentPosition::Argument))?;
        if operator == RedirectOperator::Heredoc {
            return self.heredoc(target, text == "<<-", variable).map(Some);
        }
        Ok(Some(Redirect { operator, variable, target, heredoc: None }))
    }

    /// `#` after an operator starts a comment, which leaves the target missing.
    fn skip_redirect_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) || self.looking_at("\\\n") {
            self.pos += 1 + usize::from(self.peek() == Some(b'\\'));
        }
    }
}

/// All operators, longer ones first.
fn operator(rest: &str, bare: bool) -> Option<(&'static str, RedirectOperator)> {
    if rest.starts_with("<(") || rest.starts_with(">(") {
        return None;
    }
    [
        ("&>>", RedirectOperator::Append),
        ("&>", RedirectOperator::Write),
        ("<<<", RedirectOperator::HereString),
        ("<<-", RedirectOperator::Heredoc),
        ("<<", RedirectOperator::Heredoc),
        ("<&", RedirectOperator::DuplicateIn),
        ("<>", RedirectOperator::ReadWrite),
        ("<", RedirectOperator::Read),
        (">>", RedirectOperator::Append),
        (">&", RedirectOperator::DuplicateOut),
        (">|", RedirectOperator::Write),
        (">", RedirectOperator::Write),
    ]
    .into_iter()
    .find(|(text, _)| rest.starts_with(text) && (bare || !text.starts_with('&')))
}

/// The name in `{name}>`.
fn variable_descriptor(rest: &str) -> Option<&str> {
    let inside = rest.strip_prefix('{')?;
    let (name, after) = inside.split_at(name_len(inside));
    let after = after.strip_prefix('}')?;
    (is_name(name) && after.starts_with(['<', '>'])).then_some(name)
}

/// The left side of an assignment and the start of its value.
struct Assigned {
    name: String,
    subscript: Option<String>,
    append: bool,
    value: String,
}

/// Splits `name=value`, `name+=value` and `name[i]=value`.
fn assigned_name(word: &Word) -> Option<Assigned> {
    let WordPiece::Text { text, quoted: false } = word.pieces.first()? else { return None };
    let (name, rest) = text.split_at(name_len(text));
    let (subscript, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((subscript, rest)) => (Some(subscript.to_owned()), rest),
        None => (None, rest),
    };
    let (append, rest) = rest.strip_prefix('+').map_or((false, rest), |rest| (true, rest));
    let value = rest.strip_prefix('=').filter(|_| is_name(name))?;
    Some(Assigned { name: name.to_owned(), subscript, append, value: value.to_owned() })
}
