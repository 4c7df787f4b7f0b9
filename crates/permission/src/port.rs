use std::path::{Path, PathBuf};

/// Takes a command line apart, so that rules can be compared with what it
/// does. The analysis knows shells and no rules; the policy knows rules and no
/// shells.
pub trait CommandJudge: Send + Sync {
    /// Everything the line runs, reads and writes. What is not understood with
    /// certainty goes into [`Analysis::doubt`]; nothing may be left out in
    /// silence.
    fn analyse(&self, line: &str, place: &CommandPlace<'_>) -> Analysis;

    /// What a person would put between the brackets of `Bash(...)` to let this
    /// line run next time, one text per part, at most five. Nothing where
    /// nothing can be generalised safely.
    fn propose(&self, _line: &str, _place: &CommandPlace<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// Where a command line would run.
#[derive(Clone, Copy, Debug)]
pub struct CommandPlace<'a> {
    /// Its working directory.
    pub cwd: &'a Path,
    /// What `~` means.
    pub home: Option<&'a Path>,
    /// The directories that make up the workspace.
    pub roots: &'a [&'a Path],
}

/// A command line, taken apart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Analysis {
    /// Every simple command in it, wherever it hides. With a doubt, those that
    /// were found all the same: denies still apply to them.
    pub parts: Vec<CommandPart>,
    /// Why the line as a whole is not understood with certainty.
    pub doubt: Option<String>,
}

/// One simple command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommandPart {
    /// As written, for people and for exact rules.
    pub text: String,
    /// What an allow rule may be compared with; one match is enough. Empty
    /// when no rule can speak for the command.
    pub allow_faces: Vec<Face>,
    /// What a deny or ask rule is compared with: also the command behind
    /// wrappers, assignments and absolute paths.
    pub deny_faces: Vec<Face>,
    /// Which allow rules reach far enough.
    pub coverage: Coverage,
    /// What the command does by its nature.
    pub nature: Nature,
    /// Files it names.
    pub files: Vec<FileUse>,
    /// Why it asks whatever the rules say.
    pub concern: Option<Concern>,
}

/// The words of a command in one of its readings, without quotes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Face {
    /// The words.
    pub words: Vec<String>,
    /// The same with a blank between them.
    pub text: String,
}

impl Face {
    /// Takes the words of a command.
    pub fn new(words: Vec<String>) -> Self {
        Self { text: words.join(" "), words }
    }
}

/// Which allow rules reach far enough for a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Coverage {
    /// Every rule that matches.
    AnyRule,
    /// Only a rule that spells the whole command, because the command runs
    /// another one.
    ExactRule,
}

/// What a command does by its nature, its options considered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Nature {
    /// It reads the files it names and changes nothing.
    ReadOnly,
    /// It changes the files it names and nothing else.
    EditsFiles,
    /// Anything else, or not known.
    Other,
}

/// One file a command names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileUse {
    /// Absolute, but with its dots: a link before `..` matters.
    pub path: PathBuf,
    /// Whether it is read or written.
    pub kind: FileUseKind,
    /// How the command names it.
    pub through: Through,
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileUseKind {
    /// Its content can become visible.
    Read,
    /// It is created, changed or removed.
    Write,
}

/// How a command names a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Through {
    /// As an operand, which a rule about the command covers.
    Operand,
    /// By redirection, which the shell does and no rule about the command
    /// covers.
    Redirection,
}

/// Why a command asks whatever the rules say.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Concern {
    /// It asks unless the mode bypasses questions.
    Ask(String),
    /// It asks in every mode.
    Insist(String),
}
