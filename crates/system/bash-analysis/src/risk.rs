use std::fmt;

/// Why a command must not run without the user's approval.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Risk {
    /// More than [`MAX_CHARS`](super::MAX_CHARS) characters.
    TooLong {
        /// Length in characters.
        chars: usize,
    },
    /// The text could not be parsed.
    Unparsed {
        /// Byte offset of the problem.
        at: usize,
        /// What was found there.
        why: &'static str,
    },
    /// The two parsers disagree.
    Disagreement,
    /// NUL, a control character, an invisible character, or a space that the shell does not treat as a
    /// blank.
    Character(char),
    /// The text starts with `-`, like an option of the shell itself.
    LeadingDash,
    /// The command name is known only at run time.
    ComputedCommand,
    /// The command name contains non-ASCII characters.
    Lookalike,
    /// Arithmetic on a value that may not be a number: the shell would evaluate it and run command
    /// substitutions in it.
    Arithmetic,
    /// An expansion that evaluates the value of a variable: `${!x}`, `${x@P}`.
    EvaluatedValue,
    /// A brace expansion that is too large to analyse.
    HugeExpansion,
    /// It runs text in which not all commands could be searched for.
    Intricate,
    /// Backquotes that contain backslashes, which are unquoted twice.
    EscapedBackquote,
    /// A `coproc`, which runs beside the shell and exchanges data with it.
    Coprocess,
    /// A function, which may replace any later command; its name.
    Function(String),
    /// A variable that changes how the shell or a program behaves; its name.
    Variable(String),
    /// A redirection of the shell's own descriptors.
    Descriptor,
}

/// Severity of a risk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RiskLevel {
    /// The text may mean something else than it seems; no rule can allow it.
    Uncertain,
    /// The meaning is clear but affects more than one command; only a rule for every command allows it.
    FarReaching,
}

impl Risk {
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
