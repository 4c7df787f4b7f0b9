use std::path::{Path, PathBuf};

use haft_tool::CommandLine;

/// Analyses command lines for comparison with rules. The analyser knows shells but no rules; the policy
/// knows rules but no shells.
pub trait CommandJudge: Send + Sync {
    /// Returns everything the line runs, reads and writes. Anything uncertain must be reported in
    /// [`CommandAnalysis::doubt`]; nothing may be omitted silently.
    fn analyse(&self, line: &CommandLine, place: &CommandContext<'_>) -> CommandAnalysis;

    /// Suggests rule texts (inside `Bash(...)`) that would allow this line, one per part, at most five.
    /// Empty if no safe rule exists.
    fn propose(&self, _line: &CommandLine, _place: &CommandContext<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// Environment of a command line.
#[derive(Clone, Copy, Debug)]
pub struct CommandContext<'a> {
    /// Working directory.
    pub cwd: &'a Path,
    /// Home directory, for `~`.
    pub home: Option<&'a Path>,
    /// Workspace directories.
    pub roots: &'a [&'a Path],
}

/// Analysis of a command line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CommandAnalysis {
    /// All simple commands at any nesting. If there is a doubt, those that were found; deny rules still
    /// apply to them.
    pub parts: Vec<CommandPart>,
    /// Why the line as a whole is uncertain.
    pub doubt: Option<String>,
}

/// One simple command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommandPart {
    /// Source text, for display and exact rules.
    pub text: String,
    /// Forms that an allow rule may match; one match suffices. Empty if no rule can allow the command.
    pub allow_faces: Vec<RuleForm>,
    /// Forms that a deny or ask rule may match, including the command behind wrappers, assignments and
    /// absolute paths.
    pub deny_faces: Vec<RuleForm>,
    /// Commands it may run because its arguments name them: a matching deny rule makes it ask.
    pub suspect_faces: Vec<RuleForm>,
    /// Class of the command.
    pub nature: CommandNature,
    /// Files it names.
    pub files: Vec<FileUse>,
    /// Why it asks regardless of rules.
    pub concern: Option<AlwaysAskReason>,
    /// Whether it contacts a server by its nature.
    pub talks: bool,
    /// Whether the read-only classification depends on analysed code in its arguments or on
    /// configuration files, so that it needs enforcement by a sandbox.
    pub weak: bool,
}

/// One form of a command, as unquoted words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleForm {
    pub words: Vec<String>,
    /// The words joined by spaces.
    pub text: String,
    /// Which allow rules may match; a deny rule always may.
    pub coverage: RuleCoverage,
}

impl RuleForm {
    pub fn new(words: Vec<String>) -> Self {
        Self { text: words.join(" "), words, coverage: RuleCoverage::AnyRule }
    }

    /// Sets which allow rules may match.
    pub fn covered_by(mut self, coverage: RuleCoverage) -> Self {
        self.coverage = coverage;
        self
    }
}

/// Which allow rules may match a form of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleCoverage {
    /// Any.
    AnyRule,
    /// Only a rule that spells out the whole command (because it runs another command), and the rule for
    /// every command.
    ExactRule,
    /// Only the rule for every command, because this command changes the meaning of others.
    WholeRule,
}

/// Class of a command with its options.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandNature {
    /// Only reads the files it names.
    ReadOnly,
    /// Only changes the files it names.
    EditsFiles,
    /// Anything else or unknown.
    Other,
}

/// One file a command names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileUse {
    /// The file.
    pub target: FileTarget,
    /// Read or write.
    pub kind: FileUseKind,
    /// How the command names it.
    pub through: FileMention,
    /// Whether it includes everything below.
    pub reach: FileUseScope,
}

impl FileUse {
    /// A file that is a plain operand.
    pub fn operand(path: impl Into<PathBuf>, kind: FileUseKind) -> Self {
        let target = FileTarget::Path(path.into());
        Self { target, kind, through: FileMention::Operand, reach: FileUseScope::Itself }
    }
}

/// The file or files that a command names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FileTarget {
    /// An absolute path; `..` is kept, because a symlink may precede it.
    Path(PathBuf),
    /// All matches of this absolute glob.
    Pattern(PathBuf),
    /// Known only at run time; the source of the word.
    Unknown(String),
}

/// How far a use of a file reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileUseScope {
    /// The file alone.
    Itself,
    /// Everything below it.
    Tree,
    /// Everything below it, in its current and all earlier versions (git history), which a file sandbox
    /// cannot restrict.
    History,
}

/// Kind of use of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileUseKind {
    /// Its content may be shown.
    Read,
    /// It is created, changed or deleted.
    Write,
}

/// How a command names a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileMention {
    /// As an operand, which rules about the command cover.
    Operand,
    /// By redirection, which the shell performs and rules about the command do not cover.
    Redirection,
    /// A word of an unknown command that may be this file: used only to deny.
    Mention,
}

/// Why a command asks regardless of rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AlwaysAskReason {
    /// It asks unless the mode bypasses prompts.
    Ask(String),
    /// It asks in every mode.
    Insist(String),
}
