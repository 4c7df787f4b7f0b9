use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use super::risk::Risk;

/// Where a command line would run.
#[derive(Clone, Copy, Debug)]
pub struct AnalysisContext<'a> {
    /// The working directory at the start, absolute.
    pub cwd: &'a Path,
    /// The value of `$HOME`, if it is known.
    pub home: Option<&'a Path>,
    /// The workspace and the directories added to it, absolute.
    pub roots: &'a [PathBuf],
}

/// Everything that could be found out about a command line.
#[derive(Clone, Debug, Default)]
pub struct LineAnalysis {
    /// Every simple command, wherever it is nested, and every redirection of a
    /// group, in the order of the text. If the text was not understood, these
    /// are guesses: good enough to refuse, never to approve.
    pub parts: Vec<AnalyzedCommand>,
    /// Doubts about the command line as a whole.
    pub doubts: Vec<Risk>,
    /// Where the shell may be when it is done.
    pub end: WorkingDir,
    /// Whether each part ends before the next one in the list starts. False if
    /// the line has pipelines, background commands, loops, functions or
    /// substitutions.
    pub is_sequential: bool,
}

impl LineAnalysis {
    /// Whether nothing is in doubt, here and in every part.
    pub fn is_certain(&self) -> bool {
        self.doubts.is_empty() && self.parts.iter().all(|part| part.doubts.is_empty())
    }

    /// Whether nothing but reading can happen, so that it may run beside others.
    pub fn is_read_only(&self) -> bool {
        self.is_certain() && self.parts.iter().all(AnalyzedCommand::is_read_only)
    }
}

/// The directory a command runs in.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum WorkingDir {
    /// One of these: a `cd` in front may have failed.
    OneOf(Vec<PathBuf>),
    /// Somewhere.
    #[default]
    Unknown,
}

impl WorkingDir {
    /// The directory, if there is only one.
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

/// One simple command and what it would do.
#[derive(Clone, Debug)]
pub struct AnalyzedCommand {
    /// Bytes of the source. For text that is no slice of it (a heredoc without
    /// its tabs), the smallest slice around it.
    pub span: Range<usize>,
    /// The command as written, redirections included.
    pub text: String,
    /// The words after quote removal. Empty for a part that only assigns or
    /// redirects.
    pub words: Vec<Word>,
    /// Assignments in front of the command, by name.
    pub assigns: Vec<String>,
    /// Where it would run.
    pub directory: WorkingDir,
    /// The words that rules are compared with.
    pub faces: CommandForms,
    /// What kind of command it is, judged by its options.
    pub class: CommandClass,
    /// What it would touch.
    pub effects: Vec<CommandEffect>,
    /// Why it must not be approved without a person.
    pub doubts: Vec<Risk>,
    /// Whether it asks a server, by its nature.
    pub talks: bool,
    /// How firmly the class is believed.
    pub belief: Confidence,
}

/// How firmly the class of a command is believed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Confidence {
    /// Its own options say all there is to say.
    #[default]
    Firm,
    /// It runs a program in another language that was read here, is handed names
    /// by another command, or obeys files.
    Weak,
}

impl AnalyzedCommand {
    /// Whether this part can do nothing but read.
    pub fn is_read_only(&self) -> bool {
        self.class == CommandClass::ReadOnly
            && self.doubts.is_empty()
            && self.effects.iter().all(|effect| match effect.access {
                EffectAccess::Read | EffectAccess::List | EffectAccess::Enter | EffectAccess::Obey(_) => true,
                EffectAccess::Write | EffectAccess::Delete | EffectAccess::Connect => false,
            })
    }

    /// The removal that must never happen unasked, if this part attempts one.
    pub fn critical_removal(&self) -> Option<&CommandEffect> {
        self.effects.iter().find(|effect| effect.critical)
    }
}

/// A word after quote removal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Word {
    /// Exactly this.
    Literal(String),
    /// Whatever file names this pattern finds.
    Pattern(String),
    /// Known only when it runs; the source of the word.
    Unknown(String),
}

/// The words that rules are compared with.
#[derive(Clone, Debug, Default)]
pub struct CommandForms {
    /// A rule that allows must match one of these. A word that is computed
    /// stands as it was written.
    pub allow: Vec<CommandForm>,
    /// A rule that denies or asks applies if it matches any of these: the
    /// command itself and everything it would run in turn, however spelled.
    pub refuse: Vec<Vec<String>>,
    /// What a command that is not understood may run, because its words name
    /// it. A rule that denies one of these asks.
    pub suspect: Vec<Vec<String>>,
}

/// One reading of a command that an allow rule may match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommandForm {
    /// The words after quote removal.
    pub words: Vec<String>,
    /// Which rules may cover it.
    pub cover: FormCoverage,
}

/// Which allow rules may cover a reading.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FormCoverage {
    /// Any rule that matches.
    Any,
    /// Only a rule without wildcards, or the rule for every command: what
    /// follows the matching words is a command of its own.
    Exact,
}

/// What kind of command a part is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandClass {
    /// Only reads, with exactly these options; see the effects for what.
    ReadOnly,
    /// Changes nothing but the files among its effects.
    Edit(EditKind),
    /// Anything else.
    Other,
}

/// How a command that edits files does it.
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

/// Something a part would touch.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct CommandEffect {
    /// How.
    pub access: EffectAccess,
    /// What.
    pub target: EffectTarget,
    /// How that is known.
    pub origin: EffectOrigin,
    /// Whether everything below is meant, too.
    pub reach: EffectScope,
    /// The removal of a place that must never go unasked: the root of the file
    /// system and what is directly in it, the home, a workspace, and all that
    /// is above these.
    pub critical: bool,
}

/// What happens to a target.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EffectAccess {
    /// Its content is read.
    Read,
    /// Its name, its size and the like are read.
    List,
    /// It is created or changed.
    Write,
    /// It is removed.
    Delete,
    /// It becomes the working directory.
    Enter,
    /// What is configured in it (hooks, helpers) may run.
    Obey(ConfigDependence),
    /// A network connection.
    Connect,
}

/// Whose configuration is obeyed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ConfigDependence {
    /// The repository's: programs for differences, filters, watchers.
    Git,
    /// Cargo's, and that of the toolchain.
    Cargo,
    /// The same, by a command that also writes the list of versions if there is
    /// none.
    CargoWithLock,
    /// That of the Rust toolchain.
    Toolchain,
    /// That of a manager of versions, which says which of several installed
    /// programs of one name runs.
    Versions,
    /// Npm's, which says whom to ask and with which words.
    Npm,
    /// Go's, which says which version runs.
    Go,
    /// A description of containers.
    Compose,
    /// Shellcheck's, which says whether scripts may name files to be read.
    Shellcheck,
    /// The index of a repository: the file names in it become arguments of
    /// another command.
    GitIndex,
}

/// What an effect is about.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum EffectTarget {
    /// An absolute path as the words say it: `..` and links are not resolved.
    Path(PathBuf),
    /// Every file that this absolute pattern finds.
    Pattern(PathBuf),
    /// Known only when it runs; the source of the word.
    Unknown(String),
}

/// How an effect is known.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EffectOrigin {
    /// From a redirection.
    Redirection,
    /// From an operand of a command whose options are understood.
    Operand,
    /// A word of a command that is not understood happens to name it. Good for
    /// refusing only.
    Mention,
}

/// How far an effect reaches.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EffectScope {
    /// The target alone.
    Itself,
    /// Everything below it, too.
    Tree,
    /// Everything below it, and wherever links in there lead.
    LinkedTree,
    /// Whatever the repository around it keeps, of whichever file.
    Repository(OutputRestriction),
}

/// When a command that could show anything a repository keeps shows less.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum OutputRestriction {
    /// Never.
    Nothing,
    /// When one of its operands is a file or a directory that is there: then
    /// it is no revision, and nothing else is shown.
    Named,
    /// When it runs where the repository begins: then names that count from
    /// there are what they seem.
    AtTop,
}
