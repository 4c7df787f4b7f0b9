use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use super::risk::Risk;

/// The environment a command line would run in.
#[derive(Clone, Copy, Debug)]
pub struct AnalysisContext<'a> {
    /// Initial working directory, absolute.
    pub cwd: &'a Path,
    /// Value of `$HOME`; `None` if unknown.
    pub home: Option<&'a Path>,
    /// Workspace roots (the workspace and added directories), absolute.
    pub roots: &'a [PathBuf],
}

/// Result of the static analysis of a command line.
#[derive(Clone, Debug, Default)]
pub struct LineAnalysis {
    /// All simple commands, at any nesting level, and the redirections of compound commands, in source
    /// order. If the text could not be parsed these are guesses: usable to deny, never to allow.
    pub parts: Vec<AnalyzedCommand>,
    /// Risks of the command line as a whole.
    pub doubts: Vec<Risk>,
    /// Possible working directories after the line has run.
    pub end: WorkingDir,
    /// Whether each part ends before the next one starts. False if the line has pipelines, background
    /// commands, loops, functions or substitutions.
    pub is_sequential: bool,
}

impl LineAnalysis {
    /// Whether there is no risk, neither of the line nor of any part.
    pub fn is_certain(&self) -> bool {
        self.doubts.is_empty() && self.parts.iter().all(|part| part.doubts.is_empty())
    }

    /// Whether the line certainly only reads, so that it may run concurrently with other calls.
    pub fn is_read_only(&self) -> bool {
        self.is_certain() && self.parts.iter().all(AnalyzedCommand::is_read_only)
    }
}

/// The working directory of a command.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum WorkingDir {
    /// One of these; several if an earlier `cd` may have failed.
    OneOf(Vec<PathBuf>),
    /// Not known.
    #[default]
    Unknown,
}

impl WorkingDir {
    /// The directory if there is exactly one candidate.
    pub fn single(&self) -> Option<&Path> {
        match self {
            Self::OneOf(dirs) => match &dirs[..] {
                [dir] => Some(dir),
                _ => None,
            },
            Self::Unknown => None,
        }
    }
}

/// One simple command and its effects.
#[derive(Clone, Debug)]
pub struct AnalyzedCommand {
    /// Byte range in the source. For text that is not a contiguous slice (a `<<-` heredoc), the smallest
    /// range around it.
    pub span: Range<usize>,
    /// Source of the command, redirections included.
    pub text: String,
    /// Words after quote removal. Empty for a part that only assigns or redirects.
    pub words: Vec<Word>,
    /// Names of the variables assigned in front of the command.
    pub assigns: Vec<String>,
    /// Working directory of the command.
    pub directory: WorkingDir,
    /// Word lists to compare with permission rules.
    pub faces: CommandForms,
    /// Class of the command with exactly these options.
    pub class: CommandClass,
    /// Effects of the command.
    pub effects: Vec<CommandEffect>,
    /// Reasons why it must not run without approval.
    pub doubts: Vec<Risk>,
    /// Whether it contacts a server (network or local service) by its nature.
    pub talks: bool,
    /// How reliable `class` is.
    pub belief: Confidence,
}

/// How reliable the class of a command is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Confidence {
    /// Follows from the command's own options alone.
    #[default]
    Firm,
    /// Depends on code in another language that was analysed here, on names piped in from another
    /// command, or on configuration files.
    Weak,
}

impl AnalyzedCommand {
    /// Whether this part certainly only reads.
    pub fn is_read_only(&self) -> bool {
        self.class == CommandClass::ReadOnly
            && self.doubts.is_empty()
            && self.effects.iter().all(|effect| match effect.access {
                EffectAccess::Read | EffectAccess::List | EffectAccess::Enter | EffectAccess::Obey(_) => true,
                EffectAccess::Write | EffectAccess::Delete | EffectAccess::Connect => false,
            })
    }

    /// The effect that deletes a critical path (see `is_critical`), which must always ask, if there is
    /// one.
    pub fn critical_removal(&self) -> Option<&CommandEffect> {
        self.effects.iter().find(|effect| effect.critical)
    }
}

/// A word after quote removal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Word {
    /// Exactly this text.
    Literal(String),
    /// A glob: any matching file names.
    Pattern(String),
    /// Known only at run time; the source of the word.
    Unknown(String),
}

/// Word lists of a command, to compare with permission rules.
#[derive(Clone, Debug, Default)]
pub struct CommandForms {
    /// An allow rule must match one of these. A word known only at run time appears as written.
    pub allow: Vec<CommandForm>,
    /// A deny or ask rule applies if it matches any of these: the command itself and every command it
    /// would run in turn, in all spellings.
    pub refuse: Vec<Vec<String>>,
    /// Commands that an unknown program may run because its arguments name them. A deny rule that
    /// matches one of these makes the call ask.
    pub suspect: Vec<Vec<String>>,
}

/// One form of a command that an allow rule may match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommandForm {
    /// Words after quote removal.
    pub words: Vec<String>,
    /// Which rules may allow it.
    pub cover: FormCoverage,
}

/// Which allow rules may match a form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FormCoverage {
    /// Any matching rule.
    Any,
    /// Only a rule without wildcards, or the rule for every command: the words after the prefix are a
    /// command of their own.
    Exact,
}

/// Class of a simple command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandClass {
    /// Only reads, with exactly these options; the effects say what.
    ReadOnly,
    /// Changes only the files in its effects.
    Edit(EditKind),
    Other,
}

/// How a file-editing command changes files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EditKind {
    /// `mkdir`, `touch`
    Create,
    /// `cp`
    Copy,
    /// `mv`
    Move,
    /// `rm`, `rmdir`
    Remove,
    /// `sed -i`
    Rewrite,
}

/// One effect of a command.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct CommandEffect {
    /// Kind of access.
    pub access: EffectAccess,
    /// What is accessed.
    pub target: EffectTarget,
    /// How the effect is known.
    pub origin: EffectOrigin,
    /// Whether it includes everything below the target.
    pub reach: EffectScope,
    /// Whether it deletes a critical path, which must always ask: `/`, a directory directly below `/`,
    /// the home directory, a workspace root, or an ancestor of one of these.
    pub critical: bool,
}

/// Kind of access to a target.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EffectAccess {
    /// Reads its content.
    Read,
    /// Reads names and metadata.
    List,
    /// Creates or changes it.
    Write,
    /// Deletes it.
    Delete,
    /// Makes it the working directory.
    Enter,
    /// Depends on configuration found there, which may run programs (hooks, helpers) or change what the
    /// command does.
    Obey(ConfigDependence),
    /// Opens a network connection.
    Connect,
}

/// The configuration that a command depends on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ConfigDependence {
    /// The git repository's: diff programs, filters, file system monitors.
    Git,
    /// Cargo's and the toolchain's.
    Cargo,
    /// Like `Cargo`; the command also creates `Cargo.lock` if there is none.
    CargoWithLock,
    /// The Rust toolchain's (`rust-toolchain.toml`).
    Toolchain,
    /// A version manager's, which selects the installed program that runs.
    Versions,
    /// npm's: registry and credentials.
    Npm,
    /// Go's, which selects the Go version that runs.
    Go,
    /// A Compose file.
    Compose,
    /// ShellCheck's, which decides whether scripts may include other files.
    Shellcheck,
    /// The git index: its file names become arguments of another command.
    GitIndex,
}

/// The target of an effect.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum EffectTarget {
    /// An absolute path; `..` and symlinks are not resolved.
    Path(PathBuf),
    /// Every file that matches this absolute glob.
    Pattern(PathBuf),
    /// Known only at run time; the source of the word.
    Unknown(String),
}

/// How an effect is known.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EffectOrigin {
    /// From a redirection.
    Redirection,
    /// From an operand of a command whose options are known.
    Operand,
    /// An argument of an unknown command may name this file. Only usable to deny.
    Mention,
}

/// How far an effect reaches below its target.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EffectScope {
    /// The target alone.
    Itself,
    /// The target and everything below it.
    Tree,
    /// Everything below the target, following symlinks.
    LinkedTree,
    /// Content of any file stored in the surrounding git repository.
    Repository(OutputRestriction),
}

/// Condition under which a command that could show any repository content is limited to the named files.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum OutputRestriction {
    /// Never limited.
    Nothing,
    /// Limited if one of its operands is an existing file or directory, and hence not a revision.
    Named,
    /// Limited if it runs in the repository's top directory, where paths relative to the top are what
    /// they seem.
    AtTop,
}
