//! Word expansion, as far as it is statically known.

use super::{
    brace,
    shell_state::{MAX_ALTERNATIVES, ShellState, VariableBinding},
    syntax::{CommandKind, CommandList, ExpansionAction, Item, Word, WordPiece},
};

/// One word of the command after expansion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Field {
    /// Exactly this text.
    Literal(String),
    /// An unquoted glob: any number of file names.
    Glob(String),
    /// One file name that matches this glob.
    Match(String),
    /// A number.
    Number,
    /// A pipe below `/dev/fd` (process substitution).
    Stream,
    /// One word of unknown text.
    One(UnknownText),
    /// Any number of words of unknown text.
    Many(UnknownText),
}

/// What is known about an unknown word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UnknownText {
    /// Nothing.
    Any,
    /// It starts with an expansion followed by a slash: if the expansion is empty, the path is absolute.
    Rooted,
}

impl Field {
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            _ => None,
        }
    }

    /// Whether this is exactly one word.
    pub(crate) fn is_single(&self) -> bool {
        !matches!(self, Self::Glob(_) | Self::Many(_))
    }

    /// Whether it may start with `-`.
    pub(crate) fn may_be_option(&self) -> bool {
        match self {
            Self::Literal(text) => text.starts_with('-') && text != "-",
            Self::Glob(pattern) | Self::Match(pattern) => pattern.starts_with(['-', '*', '?', '[']),
            Self::Number | Self::Stream => false,
            Self::One(_) | Self::Many(_) => true,
        }
    }
}

/// Possible expansions of a word, each a sequence of fields.
pub(crate) type Alternatives = Vec<Vec<Field>>;

/// Where a word occurs, which decides how it is expanded.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum WordContext {
    /// Subject to word splitting and globbing.
    Argument,
    /// No splitting or globbing: the value of an assignment, the target of a here-string.
    Value,
}

/// Expands a word. `None` if it has more alternatives than are followed.
pub(crate) fn expand(word: &Word, state: &ShellState, place: WordContext) -> Option<Alternatives> {
    if place == WordContext::Value {
        return Some(expand_one(&word.pieces, state, place));
    }
    match brace::expand(&word.pieces) {
        brace::Braces::None => Some(expand_one(&word.pieces, state, place)),
        brace::Braces::Words(words) => {
            let filled = words.iter().filter(|text| !text.is_empty());
            Some(vec![filled.map(|text| unquoted_text(text, state)).collect()])
        }
        brace::Braces::Unclear => Some(vec![vec![Field::Many(UnknownText::Any)]]),
        brace::Braces::Huge => None,
    }
}

/// Unquoted text in which only a tilde is expanded.
fn unquoted_text(text: &str, state: &ShellState) -> Field {
    let piece = WordPiece::Text { text: text.to_owned(), quoted: false };
    match expand_one(std::slice::from_ref(&piece), state, WordContext::Argument).pop().as_deref() {
        Some([field]) => field.clone(),
        _ => Field::Many(UnknownText::Any),
    }
}

/// Possible texts of a word, built piece by piece.
struct TextAlternatives {
    /// Each literal text with the same text as a glob, in which quoted characters are escaped.
    texts: Vec<(String, String)>,
    glob: bool,
    /// Set if the whole word is a single expansion of this kind.
    whole: Option<Field>,
    pieces: usize,
    /// Set if a piece is unknown: the word is one word or any number of words.
    unknown: Option<Unknown>,
    rooted: bool,
    quoted: bool,
}

#[derive(Clone, Copy, Eq, PartialEq, PartialOrd)]
enum Unknown {
    One,
    Many,
}

fn expand_one(pieces: &[WordPiece], state: &ShellState, place: WordContext) -> Alternatives {
    let mut growth = TextAlternatives {
        texts: vec![(String::new(), String::new())],
        glob: false,
        whole: None,
        pieces: 0,
        unknown: None,
        rooted: false,
        quoted: false,
    };
    for (idx, piece) in pieces.iter().enumerate() {
        let leaves_out = matches!(piece, WordPiece::Text { text, quoted: true } if text.is_empty());
        growth.quoted |= matches!(piece, WordPiece::Text { quoted: true, .. });
        if leaves_out {
            continue;
        }
        growth.pieces += 1;
        growth.piece(idx, piece, pieces, state, place);
    }
    growth.finish(place)
}

impl TextAlternatives {
    fn piece(
        &mut self,
        idx: usize,
        piece: &WordPiece,
        pieces: &[WordPiece],
        state: &ShellState,
        place: WordContext,
    ) {
        match piece {
            WordPiece::Text { text, quoted: true } => self.push_quoted(text),
            WordPiece::Text { text, quoted: false } => {
                if idx == 0 && text.starts_with('~') {
                    self.tilde(text, pieces.len() == 1, state);
                } else if has_assigned_tilde(text) {
                    self.unknown(Unknown::One);
                } else {
                    self.push_unquoted(text);
                }
            }
            WordPiece::Parameter { name, quoted } => {
                self.parameter(name, *quoted || place == WordContext::Value, state)
            }
            WordPiece::Expansion(expansion) => {
                let single = (expansion.quoted || place == WordContext::Value)
                    && !makes_many(&expansion.name)
                    && expansion.action != ExpansionAction::Subscript
                    && expansion.operands.len() < 2;
                self.unknown(if single { Unknown::One } else { Unknown::Many });
            }
            WordPiece::Command { list, quoted } => {
                let single = *quoted || place == WordContext::Value;
                match output(list, state) {
                    Some(text) if single || is_plain(&text) => self.push_quoted(&text),
                    _ => {
                        self.unknown(if single { Unknown::One } else { Unknown::Many });
                    }
                }
            }
            WordPiece::Process { .. } => self.whole_or_unknown(Field::Stream),
            WordPiece::Arithmetic { .. } => self.whole_or_unknown(Field::Number),
            WordPiece::Translated { .. } => self.unknown(Unknown::One),
        }
    }

    fn push_quoted(&mut self, text: &str) {
        self.push(text, &escape_pattern(text));
    }

    fn push_unquoted(&mut self, text: &str) {
        self.glob |= text.contains(['*', '?', '[']);
        self.push(text, text);
    }

    fn push(&mut self, text: &str, as_pattern: &str) {
        self.rooted |= self.unknown.is_some() && self.pieces == 2 && text.starts_with('/');
        for (literal, pattern) in &mut self.texts {
            literal.push_str(text);
            pattern.push_str(as_pattern);
        }
    }

    fn unknown(&mut self, unknown: Unknown) {
        let worse = self.unknown.is_none_or(|known| known < unknown);
        if worse {
            self.unknown = Some(unknown);
        }
    }

    /// A number or a pipe if it is the whole word, else unknown.
    fn whole_or_unknown(&mut self, field: Field) {
        if self.pieces == 1 {
            self.whole = Some(field);
        }
        self.unknown(Unknown::One);
    }

    /// `~` and `~/…`; other users' home directories are unknown.
    fn tilde(&mut self, text: &str, alone: bool, state: &ShellState) {
        let home = match state.get("HOME") {
            Some(VariableBinding::OneOf(texts)) if texts.len() == 1 => texts.into_iter().next(),
            _ => None,
        };
        let rest = &text[1..];
        // `~+`: the working directory.
        if let Some(below) =
            rest.strip_prefix('+').filter(|it| it.starts_with('/') || (it.is_empty() && alone))
            && let Some(VariableBinding::OneOf(dirs)) = state.get("PWD")
        {
            self.multiply(&dirs, true);
            return self.push_unquoted(below);
        }
        match home {
            Some(home) if rest.starts_with('/') || (rest.is_empty() && alone) => {
                self.push_quoted(&home);
                self.push_unquoted(rest);
            }
            _ => self.unknown(Unknown::One),
        }
    }

    fn parameter(&mut self, name: &str, single: bool, state: &ShellState) {
        if matches!(name, "?" | "#" | "$" | "!") {
            return self.whole_or_unknown(Field::Number);
        }
        match state.get(name) {
            Some(VariableBinding::OneOf(texts)) if single || texts.iter().all(|text| is_plain(text)) => {
                self.multiply(&texts, single);
            }
            Some(VariableBinding::Match(pattern)) if single && self.pieces == 1 => {
                self.whole = Some(Field::Match(pattern));
                self.unknown(Unknown::One);
            }
            _ => {
                let many = makes_many(name) || !single;
                self.unknown(if many { Unknown::Many } else { Unknown::One });
            }
        }
    }

    fn multiply(&mut self, texts: &[String], single: bool) {
        if MAX_ALTERNATIVES < self.texts.len() * texts.len() {
            return self.unknown(if single { Unknown::One } else { Unknown::Many });
        }
        self.texts = self
            .texts
            .iter()
            .flat_map(|(literal, pattern)| {
                texts.iter().map(move |text| {
                    (format!("{literal}{text}"), format!("{pattern}{}", escape_pattern(text)))
                })
            })
            .collect();
    }

    fn finish(self, place: WordContext) -> Alternatives {
        let glob = self.glob && place == WordContext::Argument;
        if let Some(unknown) = self.unknown {
            let opaque = if self.rooted { UnknownText::Rooted } else { UnknownText::Any };
            let field = match (self.whole.filter(|_| self.pieces == 1), unknown) {
                (Some(whole), _) => whole,
                (None, Unknown::One) if !glob => Field::One(opaque),
                (None, _) => Field::Many(opaque),
            };
            return vec![vec![field]];
        }
        if self.pieces == 0 && !self.quoted {
            return vec![Vec::new()];
        }
        self.texts
            .into_iter()
            .map(|(literal, pattern)| {
                vec![if glob { glob_field(literal, pattern) } else { Field::Literal(literal) }]
            })
            .collect()
    }
}

/// A lone bracket is not a glob.
fn glob_field(literal: String, pattern: String) -> Field {
    let bracket = pattern.find('[').is_some_and(|at| pattern[at..].contains(']'));
    if bracket || pattern.contains(['*', '?']) { Field::Glob(pattern) } else { Field::Literal(literal) }
}

fn escape_pattern(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Text that is not split when unquoted.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains([' ', '\t', '\n', '*', '?', '[', '\\'])
}

/// `name=~`: tilde expansion applies here too.
fn has_assigned_tilde(text: &str) -> bool {
    text.contains("=~") || text.contains(":~")
}

fn makes_many(name: &str) -> bool {
    matches!(name, "@" | "*")
}

/// Output of a substitution that only prints literal text.
fn output(list: &CommandList, state: &ShellState) -> Option<String> {
    let [Item { first, rest, background: false }] = &list.items[..] else { return None };
    let [command] = &first.commands[..] else { return None };
    let CommandKind::Simple { assignments, words } = &command.kind else { return None };
    if !rest.is_empty() || !command.redirects.is_empty() || !assignments.is_empty() {
        return None;
    }
    let words: Vec<String> = words.iter().map(plain_word).collect::<Option<_>>()?;
    match words.split_first() {
        Some((name, [])) if name == "pwd" => state.directory().single()?.to_str().map(str::to_owned),
        Some((name, args)) if name == "echo" && args.iter().all(|arg| !arg.starts_with('-')) => {
            Some(args.join(" "))
        }
        _ => None,
    }
}

fn plain_word(word: &Word) -> Option<String> {
    word.literal().filter(|text| !text.contains(['*', '?', '[', '{', '~', '\\', '\n']))
}
