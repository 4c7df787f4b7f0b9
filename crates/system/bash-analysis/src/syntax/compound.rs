use super::{
    CaseArm, CommandKind, CommandList, Word,
    command::ListEnd,
    cursor::{Parsed, Parser, is_meta, is_name},
    word::{AssignmentPosition, name_len},
};

impl Parser<'_> {
    /// `( … )` or `(( … ))`.
    pub(super) fn parenthesis(&mut self) -> Parsed<CommandKind> {
        self.pos += 1;
        self.settle_operator()?;
        if self.eat("(") {
            return self.nested(Self::arithmetic).map(CommandKind::Arithmetic);
        }
        let list = self.filled_list(ListEnd::Parenthesis)?;
        self.pos += 1;
        Ok(CommandKind::Subshell(list))
    }

    /// Parses the compound command that starts with the reserved word `word`.
    pub(super) fn compound(&mut self, word: &'static str) -> Parsed<CommandKind> {
        if !matches!(word, "{" | "[[" | "if" | "while" | "until" | "for" | "select" | "case" | "function") {
            return self.stop("a reserved word where a command is expected");
        }
        self.pos += word.len();
        match word {
            "{" => self.closed_list(&["}"]).map(CommandKind::Group),
            "[[" => self.test().map(CommandKind::Test),
            "if" => self.conditional(),
            "while" | "until" => {
                let condition = self.closed_list(&["do"])?;
                Ok(CommandKind::Loop { condition, body: self.closed_list(&["done"])? })
            }
            "for" => self.for_loop(),
            "select" => self.named_loop(),
            "case" => self.case(),
            _ => self.function_keyword(),
        }
    }

    /// A list and the reserved word that ends it.
    fn closed_list(&mut self, words: &'static [&'static str]) -> Parsed<CommandList> {
        let list = self.filled_list(ListEnd::Words(words))?;
        self.pos += self.reserved().map_or(0, str::len);
        Ok(list)
    }

    fn conditional(&mut self) -> Parsed<CommandKind> {
        let mut arms = Vec::new();
        loop {
            let condition = self.closed_list(&["then"])?;
            let body = self.filled_list(ListEnd::Words(&["elif", "else", "fi"]))?;
            arms.push((condition, body));
            let word = self.reserved();
            self.pos += word.map_or(0, str::len);
            match word {
                Some("elif") => (),
                Some("else") => {
                    let otherwise = Some(self.closed_list(&["fi"])?);
                    return Ok(CommandKind::If { arms, otherwise });
                }
                _ => return Ok(CommandKind::If { arms, otherwise: None }),
            }
        }
    }

    fn for_loop(&mut self) -> Parsed<CommandKind> {
        self.skip_blanks();
        if !self.eat("((") {
            return self.named_loop();
        }
        let header = self.nested(Self::arithmetic)?;
        self.skip_blanks();
        self.eat(";");
        self.skip_lines()?;
        Ok(CommandKind::ForArithmetic { header, body: self.do_done()? })
    }

    /// `for name [in word …]; do … done`, also for `select`.
    fn named_loop(&mut self) -> Parsed<CommandKind> {
        self.skip_blanks();
        let rest = self.rest();
        let name = &rest[..name_len(rest)];
        let ended = rest[name.len()..].bytes().next().is_none_or(is_meta);
        if !is_name(name) || !ended {
            return self.stop("a loop without a variable");
        }
        let name = name.to_owned();
        self.pos += name.len();
        self.skip_blanks();
        if self.peek() == Some(b';') {
            self.pos += 1;
            self.skip_lines()?;
            return Ok(CommandKind::For { name, words: None, body: self.do_done()? });
        }
        self.skip_lines()?;
        let words = if self.reserved() == Some("in") {
            self.pos += 2;
            Some(self.loop_words()?)
        } else {
            None
        };
        Ok(CommandKind::For { name, words, body: self.do_done()? })
    }

    fn loop_words(&mut self) -> Parsed<Vec<Word>> {
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b';') if !matches!(self.peek_at(1), Some(b';' | b'&')) => {
                    self.pos += 1;
                    self.skip_lines()?;
                    return Ok(words);
                }
                Some(b'\n') => {
                    self.skip_lines()?;
                    return Ok(words);
                }
                Some(_) => words.push(self.filled_word()?),
                None => return self.stop("a loop without a body"),
            }
        }
    }

    fn do_done(&mut self) -> Parsed<CommandList> {
        self.expect("do")?;
        self.closed_list(&["done"])
    }

    /// A word with at least one character.
    fn filled_word(&mut self) -> Parsed<Word> {
        if self.at_word() {
            self.nested(|p| p.word(AssignmentPosition::Argument))
        } else {
            self.stop("a word is missing")
        }
    }

    fn case(&mut self) -> Parsed<CommandKind> {
        self.skip_blanks();
        let subject = self.filled_word()?;
        self.skip_lines()?;
        self.expect("in")?;
        let mut arms = Vec::new();
        loop {
            self.skip_lines()?;
            if self.reserved() == Some("esac") {
                self.pos += "esac".len();
                return Ok(CommandKind::Case { subject, arms });
            }
            let patterns = self.patterns()?;
            let body = self.list(ListEnd::Arm)?;
            arms.push(CaseArm { patterns, body });
            for end in [";;&", ";;", ";&"] {
                if self.eat(end) {
                    self.settle_operator()?;
                    break;
                }
            }
        }
    }

    /// `[(] word [| word …] )`
    fn patterns(&mut self) -> Parsed<Vec<Word>> {
        self.eat("(");
        let mut patterns = Vec::new();
        loop {
            self.skip_blanks();
            patterns.push(self.filled_word()?);
            self.skip_blanks();
            match self.take_char() {
                Some(')') => return Ok(patterns),
                Some('|') => (),
                _ => return self.stop("a pattern of case is not closed"),
            }
        }
    }

    fn function_keyword(&mut self) -> Parsed<CommandKind> {
        self.skip_blanks();
        let name = self.filled_word()?;
        let Some(name) = name.bare().map(str::to_owned) else {
            return self.stop("a function name that is quoted or expanded");
        };
        self.skip_blanks();
        if self.peek() == Some(b'(') && self.rest()[1..].trim_start_matches([' ', '\t']).starts_with(')') {
            self.pos += 1;
            self.skip_blanks();
            self.pos += 1;
        }
        Ok(CommandKind::Function { name, body: self.function_body()? })
    }
}
