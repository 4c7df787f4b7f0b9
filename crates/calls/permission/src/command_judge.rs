use std::path::{Path, PathBuf};

use haft_tool::CommandLine;

/// Takes a command line apart, so that rules can be compared with what it
/// does. The analysis knows shells and no rules; the policy knows rules and no
/// shells.
pub trait CommandJudge: Send + Sync {
    /// Everything the line runs, reads and writes. What is not understood with
    /// certainty goes into [`CommandAnalysis::doubt`]; nothing may be left out in
    /// silence.
    fn analyse(&self, line: &CommandLine, place: &CommandContext<'_>) -> CommandAnalysis;

    /// What a person would put between the brackets of `Bash(...)` to let this
    /// line run next time, one text per part, at most five. Nothing where
    /// nothing can be generalised safely.
    fn propose(&self, _line: &CommandLine, _place: &CommandContext<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// Where a command line would run.
#[derive(Clone, Copy, Debug)]
pub struct CommandContext<'a> {
    /// Its working directory.
    pub cwd: &'a Path,
    /// What `~` means.
    pub home: Option<&'a Path>,
    /// The directories that make up the workspace.
    pub roots: &'a [&'a Path],
}

/// A command line, taken apart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CommandAnalysis {
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
    pub allow_faces: Vec<RuleForm>,
    /// What a deny or ask rule is compared with: also the command behind
    /// wrappers, assignments and absolute paths.
    pub deny_faces: Vec<RuleForm>,
    /// What it may run, because its words name it, though it is not known to: a
    /// deny rule about one of these asks.
    pub suspect_faces: Vec<RuleForm>,
    /// What the command does by its nature.
    pub nature: CommandNature,
    /// Files it names.
    pub files: Vec<FileUse>,
    /// Why it asks whatever the rules say.
    pub concern: Option<AlwaysAskReason>,
    /// Whether it asks a server, by its nature.
    pub talks: bool,
    /// Whether it only reads as far as a program inside it, or files it obeys,
    /// were understood: a belief that wants walls.
    pub weak: bool,
}

/// The words of a command in one of its readings, without quotes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleForm {
    /// The words.
    pub words: Vec<String>,
    /// The same with a blank between them.
    pub text: String,
    /// Which allow rules reach far enough; a deny always does.
    pub coverage: RuleCoverage,
}

impl RuleForm {
    /// Takes the words of a command.
    pub fn new(words: Vec<String>) -> Self {
        Self { text: words.join(" "), words, coverage: RuleCoverage::AnyRule }
    }

    /// Limits which allow rules reach far enough.
    pub fn covered_by(mut self, coverage: RuleCoverage) -> Self {
        self.coverage = coverage;
        self
    }
}

/// Which allow rules reach far enough for a reading of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleCoverage {
    /// Every rule that matches.
    AnyRule,
    /// Only a rule that spells the whole command, because the command runs
    /// another one, and the rule for every command.
    ExactRule,
    /// Only the rule for every command, because this one changes what others
    /// mean.
    WholeRule,
}

/// What a command does by its nature, its options considered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandNature {
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
    /// Which.
    pub target: FileTarget,
    /// Whether it is read or written.
    pub kind: FileUseKind,
    /// How the command names it.
    pub through: FileMention,
    /// Whether everything below is meant, too.
    pub reach: FileUseScope,
}

impl FileUse {
    /// A file that is an operand and nothing more.
    pub fn operand(path: impl Into<PathBuf>, kind: FileUseKind) -> Self {
        let target = FileTarget::Path(path.into());
        Self { target, kind, through: FileMention::Operand, reach: FileUseScope::Itself }
    }
}

/// Which file a command names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FileTarget {
    /// This one: absolute, but with its dots, because a link before `..`
    /// matters.
    Path(PathBuf),
    /// Every one that this absolute pattern of the shell finds.
    Pattern(PathBuf),
    /// Known only when it runs; the source of the word.
    Unknown(String),
}

/// How far the use of a file reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileUseScope {
    /// The file alone.
    Itself,
    /// Everything below it.
    Tree,
    /// Everything below it, as it is or as it once was: no wall around the
    /// files keeps that.
    History,
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
pub enum FileMention {
    /// As an operand, which a rule about the command covers.
    Operand,
    /// By redirection, which the shell does and no rule about the command
    /// covers.
    Redirection,
    /// A word of a command that is not understood happens to name it: good for
    /// refusing only.
    Mention,
}

/// Why a command asks whatever the rules say.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AlwaysAskReason {
    /// It asks unless the mode bypasses questions.
    Ask(String),
    /// It asks in every mode.
    Insist(String),
}
