use std::{cell::OnceCell, ops::Range, rc::Rc};

/// Byte range in the source.
pub(crate) type SourceSpan = Range<usize>;

#[derive(Debug)]
pub(crate) struct ShellScript {
    pub(crate) list: CommandList,
    /// Constructs that parse but always count as a risk.
    pub(crate) notes: Vec<SyntaxNote>,
}

/// A construct that parses but whose meaning is too subtle to rely on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SyntaxNote {
    /// Backquotes containing a backslash, which are unquoted twice.
    EscapedBackquote,
    /// A `coproc`, which runs beside the shell and exchanges data with it.
    Coprocess,
}

/// Commands separated by `;`, `&` or newlines.
#[derive(Debug, Default)]
pub(crate) struct CommandList {
    pub(crate) items: Vec<Item>,
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) first: PipedCommands,
    pub(crate) rest: Vec<(PipelineJoin, PipedCommands)>,
    pub(crate) background: bool,
}

/// How a pipeline depends on the previous one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PipelineJoin {
    And,
    Or,
}

/// Commands joined by `|`.
#[derive(Debug)]
pub(crate) struct PipedCommands {
    pub(crate) commands: Vec<ParsedCommand>,
    /// Whether one of the pipes is `|&`.
    pub(crate) errors_too: bool,
    /// Whether it is prefixed by `!`.
    pub(crate) negated: bool,
}

/// A command with its redirections.
#[derive(Debug)]
pub(crate) struct ParsedCommand {
    pub(crate) kind: CommandKind,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) span: SourceSpan,
}

#[derive(Debug)]
pub(crate) enum CommandKind {
    Simple {
        assignments: Vec<Assignment>,
        words: Vec<Word>,
    },
    Subshell(CommandList),
    Group(CommandList),
    If {
        arms: Vec<(CommandList, CommandList)>,
        otherwise: Option<CommandList>,
    },
    /// `while` and `until`.
    Loop {
        condition: CommandList,
        body: CommandList,
    },
    /// `for` and `select`. Without words it iterates over the positional parameters.
    For {
        name: String,
        words: Option<Vec<Word>>,
        body: CommandList,
    },
    ForArithmetic {
        header: Word,
        body: CommandList,
    },
    Case {
        subject: Word,
        arms: Vec<CaseArm>,
    },
    Function {
        name: String,
        body: Box<ParsedCommand>,
    },
    Coprocess(Box<ParsedCommand>),
    Arithmetic(Word),
    Test(Vec<Word>),
}

impl CommandKind {
    /// Whether the body may run repeatedly, later, or concurrently with what follows.
    pub(crate) fn runs_out_of_order(&self) -> bool {
        matches!(
            self,
            Self::Loop { .. }
                | Self::For { .. }
                | Self::ForArithmetic { .. }
                | Self::Function { .. }
                | Self::Coprocess(_)
        )
    }
}

/// One branch of a `case`.
#[derive(Debug)]
pub(crate) struct CaseArm {
    pub(crate) patterns: Vec<Word>,
    pub(crate) body: CommandList,
}

#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) subscript: Option<String>,
    pub(crate) append: bool,
    pub(crate) value: AssignedValue,
    pub(crate) span: SourceSpan,
}

#[derive(Debug)]
pub(crate) enum AssignedValue {
    Scalar(Word),
    Array(Vec<Word>),
}

#[derive(Debug)]
pub(crate) struct Redirect {
    pub(crate) operator: RedirectOperator,
    /// `{name}>`: the shell allocates a descriptor and stores its number in this variable.
    pub(crate) variable: Option<String>,
    /// Target, or the delimiter of a heredoc.
    pub(crate) target: Word,
    /// Set when the line after the operator has been read.
    pub(crate) heredoc: Option<Rc<OnceCell<Word>>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RedirectOperator {
    /// `<`
    Read,
    /// `>`, `>|`, `&>` and `>&` with a file name
    Write,
    /// `>>`, `&>>`
    Append,
    /// `<>`
    ReadWrite,
    /// `>&` and `<&`; the word decides whether it is a descriptor.
    DuplicateOut,
    DuplicateIn,
    /// `<<`, `<<-`
    Heredoc,
    /// `<<<`
    HereString,
}

/// A word as written, as a sequence of pieces.
#[derive(Debug, Default)]
pub(crate) struct Word {
    pub(crate) pieces: Vec<WordPiece>,
    pub(crate) span: SourceSpan,
}

#[derive(Debug)]
pub(crate) enum WordPiece {
    /// Literal characters after quote removal.
    Text { text: String, quoted: bool },
    /// `$name`, `${name}` and special parameters.
    Parameter { name: String, quoted: bool },
    /// `${name` with an operator.
    Expansion(Box<Expansion>),
    /// `$(…)` or backquotes.
    Command { list: CommandList, quoted: bool },
    /// `<(…)` and `>(…)`.
    Process { list: CommandList },
    /// `$((…))`.
    Arithmetic { body: Word },
    /// `$"…"`: translated through a message catalogue.
    Translated { body: Word },
}

/// `${…}` with an operator.
#[derive(Debug)]
pub(crate) struct Expansion {
    pub(crate) name: String,
    pub(crate) action: ExpansionAction,
    /// The words after the operator that are expanded in turn.
    pub(crate) operands: Vec<Word>,
    pub(crate) quoted: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ExpansionAction {
    /// `${#x}`, `${x#…}`, `${x%…}`, `${x/…}`, `${x^…}`, `${x:-…}`, `${x:+…}`, `${x:?…}`
    Plain,
    /// `${x:=…}`
    Assign,
    /// `${x:1:2}`: evaluates arithmetic.
    Slice,
    /// `${x[…]}`: evaluates arithmetic.
    Subscript,
    /// `${!x}`: the value is the name of the expanded variable.
    Indirect,
    /// `${x@P}` and similar.
    Transform,
}

impl Word {
    /// The text if nothing in the word is expanded, quoted or not.
    pub(crate) fn literal(&self) -> Option<String> {
        let mut out = String::new();
        for piece in &self.pieces {
            let WordPiece::Text { text, .. } = piece else { return None };
            out.push_str(text);
        }
        Some(out)
    }

    /// The text if the word is a single run of unquoted characters.
    pub(crate) fn bare(&self) -> Option<&str> {
        match &*self.pieces {
            [WordPiece::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }
}
