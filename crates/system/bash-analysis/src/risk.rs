use std::fmt;

/// Why something must not be approved without a person.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Risk {
    /// More than [`MAX_CHARS`](super::MAX_CHARS) characters.
    TooLong {
        /// How many there are.
        chars: usize,
    },
    /// The grammar was not understood.
    Unparsed {
        /// Byte of the source.
        at: usize,
        /// What was met there.
        why: &'static str,
    },
    /// Two parsers read the text differently.
    Disagreement,
    /// NUL, a control character, an invisible character, or a blank that the
    /// shell does not take for one.
    Character(char),
    /// The text starts like an option of the shell itself.
    LeadingDash,
    /// What runs is only known when it runs.
    ComputedCommand,
    /// The name of the command has letters outside ASCII.
    Lookalike,
    /// Arithmetic on a value that may hold more than a number: the shell would
    /// evaluate it, and run what is in it.
    Arithmetic,
    /// An expansion that evaluates the value of a variable: `${!x}`, `${x@P}`.
    EvaluatedValue,
    /// A brace expansion too large to look at.
    HugeExpansion,
    /// It runs text in which not every command could be looked for.
    Intricate,
    /// Backquotes with backslashes inside are unquoted twice.
    EscapedBackquote,
    /// A command that runs beside the shell and talks to it.
    Coprocess,
    /// A function may take the place of any command that follows.
    Function(String),
    /// A variable that changes how the shell or a program behaves.
    Variable(String),
    /// A descriptor of the shell itself is redirected.
    Descriptor,
}

/// How much a doubt weighs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RiskLevel {
    /// The text may mean something else than it seems: no rule can cover it.
    Uncertain,
    /// The meaning is clear, but it reaches further than one command: only a
    /// rule for every command covers it.
    FarReaching,
}

impl Risk {
    /// How much this doubt weighs.
    pub fn weight(&self) -> RiskLevel {
        match self {
            Self::Function(_) | Self::Variable(_) | Self::Descriptor | Self::Coprocess => {
                RiskLevel::FarReaching
            }
            Self::TooLong { .. }
            | Self::Unparsed { .. }
            | Self::Disagreement
            | Self::Character(_)
            | Self::LeadingDash
            | Self::ComputedCommand
            | Self::Lookalike
            | Self::Arithmetic
            | Self::EvaluatedValue
            | Self::HugeExpansion
            | Self::Intricate
            | Self::EscapedBackquote => RiskLevel::Uncertain,
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { chars } => write!(f, "{chars} characters are too many to judge"),
            Self::Unparsed { at, why } => write!(f, "not understood at byte {at}: {why}"),
            Self::Disagreement => f.write_str("two parsers read this text differently"),
            Self::Character(c) => write!(f, "contains the character U+{:04X}", u32::from(*c)),
            Self::LeadingDash => f.write_str("starts like an option of the shell"),
            Self::ComputedCommand => f.write_str("the name of the command is computed"),
            Self::Lookalike => f.write_str("the name of the command has letters outside ASCII"),
            Self::Arithmetic => f.write_str("arithmetic would evaluate a value that is not known"),
            Self::EvaluatedValue => f.write_str("an expansion evaluates the value of a variable"),
            Self::HugeExpansion => f.write_str("a brace expansion makes too many words"),
            Self::Intricate => f.write_str("runs too much text to look through"),
            Self::EscapedBackquote => f.write_str("backquotes with backslashes are unquoted twice"),
            Self::Coprocess => f.write_str("starts a coprocess"),
            Self::Function(name) => write!(f, "defines the function {name}, which may replace a command"),
            Self::Variable(name) => write!(f, "sets {name}, which may change what other commands do"),
            Self::Descriptor => f.write_str("redirects a descriptor of the shell itself"),
        }
    }
}
