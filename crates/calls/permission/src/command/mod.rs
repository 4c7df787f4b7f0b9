//! Combines the analysis of `haft-bash-analysis` with the state of the disk: which configuration a
//! command depends on, where symlinks lead, what is protected.
//!
//! Does not evaluate rules. A fact without an exact counterpart here becomes a stricter one.

mod changes;
mod follow;
mod movers;
mod running;
mod stale;
mod survey;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_bash_analysis::{
    self as shell, AnalyzedCommand, CommandClass, CommandEffect, Confidence, ConfigDependence, EditKind,
    EffectAccess, EffectScope, EffectTarget, FormCoverage, OutputRestriction, Risk, RiskLevel,
};
use haft_tool::CommandLine;

pub use running::{RunningCommands, SessionCommands};

use crate::{
    AlwaysAskReason, CommandAnalysis, CommandContext, CommandJudge, CommandNature, CommandPart, FileMention,
    FileTarget, FileUse, FileUseKind, FileUseScope, RuleCoverage, RuleForm, config_files,
    glob_expansion::expand, names_in_text::falls_apart, protected_paths::is_protected,
};

/// [`CommandJudge`] based on `haft-bash-analysis`.
#[derive(Clone, Copy, Debug, Default)]
pub struct BashJudge;

impl CommandJudge for BashJudge {
    fn analyse(&self, line: &CommandLine, place: &CommandContext<'_>) -> CommandAnalysis {
        analyse(line, place, &[])
    }

    fn propose(&self, line: &CommandLine, place: &CommandContext<'_>) -> Vec<String> {
        let reading = reading(line, place);
        let found = &reading.analysis;
        if !found.is_certain() {
            return Vec::new();
        }
        let parts: Vec<&AnalyzedCommand> = found.parts.iter().filter(|part| !part.is_read_only()).collect();
        let proposed: Vec<String> =
            parts.iter().filter_map(|part| shell::propose(part).or_else(|| spelled_out(part))).collect();
        // Rules for only some parts would lead to the next prompt.
        if proposed.len() == parts.len() { proposed } else { Vec::new() }
    }
}

/// Analyses a line against the current disk, while `running` lines are still running.
fn analyse(
    line: &CommandLine,
    place: &CommandContext<'_>,
    running: &[Arc<shell::SharedAnalysis>],
) -> CommandAnalysis {
    let reading = reading(line, place);
    let found = &reading.analysis;
    let uncertain = found.doubts.iter().find(|doubt| doubt.weight() == RiskLevel::Uncertain);
    let far_reaching = !found.doubts.is_empty();
    let guarded = line.is_guarded() && found.parts.len() == 1;
    let judged = |part: &AnalyzedCommand| command_part(part, place, guarded);
    let mut parts: Vec<CommandPart> = found.parts.iter().map(judged).collect();
    stale::mark(&mut parts, found, place, &running::beside(running, place));
    if far_reaching {
        parts.iter_mut().for_each(narrow);
    }
    let lonely = parts.is_empty().then(|| found.doubts.first()).flatten();
    CommandAnalysis { parts, doubt: uncertain.or(lonely).map(Risk::to_string) }
}

/// A rule for exactly this command, if its words can be written in one.
fn spelled_out(part: &AnalyzedCommand) -> Option<String> {
    let face = part.faces.allow.first()?;
    let plain = |word: &String| {
        !word.is_empty() && !word.chars().any(|c| c.is_whitespace() || c.is_control() || "*()\\:".contains(c))
    };
    let known = part.words.iter().all(|word| matches!(word, shell::Word::Literal(_)));
    let all = face.words.iter().all(plain) && part.assigns.is_empty() && known;
    (all && 1 < face.words.len()).then(|| face.words.join(" "))
}

/// The analysis attached when the call was parsed, if it is for this line and place; else a new one.
fn reading(line: &CommandLine, place: &CommandContext<'_>) -> Arc<shell::SharedAnalysis> {
    let roots: Vec<PathBuf> = place.roots.iter().map(|root| root.to_path_buf()).collect();
    let here = shell::AnalysisContext { cwd: place.cwd, home: place.home, roots: &roots };
    let found = line.finding::<shell::SharedAnalysis>().filter(|it| it.is_for(line.text(), here));
    found.unwrap_or_else(|| Arc::new(shell::SharedAnalysis::new(line.text(), here)))
}

fn command_part(part: &AnalyzedCommand, place: &CommandContext<'_>, guarded: bool) -> CommandPart {
    let mut made = CommandPart {
        text: part.text.clone(),
        allow_faces: part.faces.allow.iter().map(allow_face).collect(),
        deny_faces: part.faces.refuse.iter().map(|words| RuleForm::new(words.clone())).collect(),
        suspect_faces: part.faces.suspect.iter().map(|words| RuleForm::new(words.clone())).collect(),
        nature: nature(part, place, guarded),
        files: part
            .effects
            .iter()
            .flat_map(|effect| file_uses(effect, part, place))
            .chain(follow::followed(part))
            .collect(),
        concern: concern(part),
        talks: part.talks,
        weak: part.belief == Confidence::Weak,
    };
    if part.doubts.iter().any(|doubt| doubt.weight() == RiskLevel::FarReaching) {
        narrow(&mut made);
    }
    made
}

fn allow_face(face: &shell::CommandForm) -> RuleForm {
    RuleForm::new(face.words.clone()).covered_by(match face.cover {
        FormCoverage::Any => RuleCoverage::AnyRule,
        FormCoverage::Exact => RuleCoverage::ExactRule,
    })
}

/// Only a rule for every command applies to something with wider effects.
fn narrow(part: &mut CommandPart) {
    part.nature = CommandNature::Other;
    part.allow_faces.iter_mut().for_each(|face| face.coverage = RuleCoverage::WholeRule);
}

fn nature(part: &AnalyzedCommand, place: &CommandContext<'_>, guarded: bool) -> CommandNature {
    let names = if is_fed(part) { Names::Handed } else { Names::Walked };
    let leaves = part
        .effects
        .iter()
        .any(|it| it.reach == EffectScope::LinkedTree && links_lead_out(&it.target, names, place));
    let plain = part.doubts.is_empty()
        && !leaves
        && !finds_option(part)
        && part.effects.iter().all(|effect| stays_plain(effect, place, guarded));
    match part.class {
        CommandClass::ReadOnly if plain => CommandNature::ReadOnly,
        CommandClass::Edit(EditKind::Copy | EditKind::Move) if plain && carries_protected(part) => {
            CommandNature::Other
        }
        CommandClass::Edit(EditKind::Create | EditKind::Copy | EditKind::Move) if plain => {
            CommandNature::EditsFiles
        }
        _ => CommandNature::Other,
    }
}

/// Whether a glob matches a name that its command would take for an option.
fn finds_option(part: &AnalyzedCommand) -> bool {
    let Some(dir) = part.directory.single() else { return false };
    part.effects.iter().any(|effect| {
        let EffectTarget::Pattern(pattern) = &effect.target else { return false };
        let pattern = haft_paths::lexical(pattern);
        let first = pattern.strip_prefix(dir).ok().and_then(|rest| rest.components().next());
        let may = first.is_some_and(|it| {
            it.as_os_str().as_encoded_bytes().first().is_some_and(|it| b"*?[-\\".contains(it))
        });
        may && expand(&pattern).found.iter().any(|path| {
            path.strip_prefix(dir).is_ok_and(|rest| rest.as_os_str().as_encoded_bytes().starts_with(b"-"))
        })
    })
}

/// Whether an effect touches only files: no network, and no program named by files in the directory. If
/// the caller guards against the latter, the repository must still be the workspace's own.
fn stays_plain(effect: &CommandEffect, place: &CommandContext<'_>, guarded: bool) -> bool {
    match effect.access {
        EffectAccess::Connect => false,
        EffectAccess::Obey(obeyed) => match &effect.target {
            EffectTarget::Path(path) => {
                let dir = haft_paths::lexical(path);
                // `link/..` is not where it seems to be.
                let leads_there = haft_paths::real(path).ok() == haft_paths::real(&dir).ok();
                leads_there
                    && match obeyed {
                        ConfigDependence::Git if guarded => {
                            (dir == place.cwd || is_at_home(&effect.target, place))
                                && config_files::git_is_own(&dir)
                        }
                        _ => is_near(&dir, place) && config_files::is_plain(obeyed, &dir, place.home),
                    }
            }
            EffectTarget::Pattern(_) | EffectTarget::Unknown(_) => false,
        },
        EffectAccess::Read
        | EffectAccess::List
        | EffectAccess::Write
        | EffectAccess::Delete
        | EffectAccess::Enter => true,
    }
}

/// Whether a directory is the working directory, or an explicitly named subdirectory that is not a
/// symlink (`git -C src`).
fn is_near(dir: &Path, place: &CommandContext<'_>) -> bool {
    if dir == place.cwd {
        return true;
    }
    let is_repository = |dir: &Path| {
        let has = |name: &str| dir.join(name).symlink_metadata().is_ok();
        has(".git") || has("HEAD") || has("objects") || has("refs")
    };
    haft_paths::is_inside(dir, place.cwd)
        && dir.is_dir()
        && dir.ancestors().take_while(|it| *it != place.cwd).all(|it| !is_repository(it))
        && haft_paths::real(dir).is_ok_and(|real| {
            haft_paths::real(place.cwd)
                .is_ok_and(|cwd| dir.strip_prefix(place.cwd).is_ok_and(|rest| cwd.join(rest) == real))
        })
}

/// Whether a copied or moved tree contains a protected file, which would be protected at its
/// destination.
fn carries_protected(part: &AnalyzedCommand) -> bool {
    let sources =
        part.effects.iter().filter(|it| it.access == EffectAccess::Read && it.reach != EffectScope::Itself);
    sources.into_iter().any(|it| match &it.target {
        EffectTarget::Path(path) => holds_protected(&haft_paths::lexical(path)),
        EffectTarget::Pattern(_) | EffectTarget::Unknown(_) => true,
    })
}

/// The same for unknown commands that copy trees: the last word that is a directory counts as the
/// destination.
fn may_carry_protected(part: &AnalyzedCommand) -> bool {
    let copies = |words: &[String]| words.first().is_some_and(|it| matches!(&**it, "cp" | "mv" | "rsync"));
    if part.class != CommandClass::Other || !part.faces.allow.iter().any(|face| copies(&face.words)) {
        return false;
    }
    let trees = part.effects.iter().filter(|it| it.origin == shell::EffectOrigin::Mention);
    let mut trees: Vec<&Path> = trees
        .filter_map(|it| match &it.target {
            EffectTarget::Path(path) if path.is_dir() => Some(path.as_path()),
            _ => None,
        })
        .collect();
    trees.pop();
    trees.into_iter().any(|it| holds_protected(&haft_paths::lexical(it)))
}

fn holds_protected(tree: &Path) -> bool {
    let mut open = vec![tree.to_owned()];
    let mut seen = 0;
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            seen += 1;
            let path = entry.path();
            let inside = path.strip_prefix(tree).map(|rest| Path::new("/").join(rest));
            if MAX_NAMES < seen || inside.is_ok_and(|it| is_protected(&it, &[])) {
                return true;
            }
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                open.push(path);
            }
        }
    }
    false
}

/// Maximum entries examined before a tree counts as unknown.
const MAX_NAMES: usize = 20_000;

/// Whether file names come from another command.
fn is_fed(part: &AnalyzedCommand) -> bool {
    part.words.iter().any(|word| matches!(word, shell::Word::Literal(text) if text == "xargs"))
}

/// Whether a command that follows symlinks may leave the workspace through one. True for a tree that is
/// too large to examine.
fn links_lead_out(target: &EffectTarget, names: Names, place: &CommandContext<'_>) -> bool {
    let mut open = match target {
        EffectTarget::Path(path) => vec![path.clone()],
        EffectTarget::Pattern(path) => vec![literal_parent(path)],
        EffectTarget::Unknown(_) => return true,
    };
    // The objects of a repository are many and also count.
    let most = if names == Names::Handed { 5 * MAX_NAMES } else { MAX_NAMES };
    let mut seen = 0;
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            let Ok(kind) = entry.file_type() else { return true };
            if most < seen
                || (kind.is_symlink() && !is_at_home(&EffectTarget::Path(entry.path()), place))
                || (names == Names::Handed && falls_apart(entry.file_name().as_encoded_bytes()))
            {
                return true;
            }
            if kind.is_dir() {
                open.push(entry.path());
            }
        }
    }
    false
}

/// How a command gets the names of the files it opens.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Names {
    /// It walks the tree.
    Walked,
    /// Another command prints them, and they are parsed again.
    Handed,
}

/// The directory in which a glob starts.
fn literal_parent(pattern: &Path) -> PathBuf {
    let is_plain =
        |part: &std::path::Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    pattern.components().take_while(is_plain).collect()
}

fn concern(part: &AnalyzedCommand) -> Option<AlwaysAskReason> {
    if let Some(removal) = part.critical_removal() {
        let what = match &removal.target {
            EffectTarget::Path(path) | EffectTarget::Pattern(path) => path.display().to_string(),
            EffectTarget::Unknown(word) => word.clone(),
        };
        return Some(AlwaysAskReason::Insist(format!("it would remove {what}")));
    }
    let uncertain = part.doubts.iter().find(|doubt| doubt.weight() == RiskLevel::Uncertain);
    if let Some(doubt) = uncertain {
        return Some(AlwaysAskReason::Ask(doubt.to_string()));
    }
    if may_carry_protected(part) {
        return Some(AlwaysAskReason::Ask(String::from("it copies protected files to another place")));
    }
    let connects = part.effects.iter().any(|effect| {
        effect.access == EffectAccess::Connect && effect.origin == shell::EffectOrigin::Redirection
    });
    connects.then(|| AlwaysAskReason::Ask(String::from("it opens a network connection")))
}

fn file_uses(effect: &CommandEffect, part: &AnalyzedCommand, place: &CommandContext<'_>) -> Vec<FileUse> {
    let whole = match (&effect.target, effect.reach) {
        (EffectTarget::Path(path), EffectScope::Repository(unless)) => {
            let Some(top) = shown_of_repository(path, unless, part, place) else { return Vec::new() };
            Some(EffectTarget::Path(top))
        }
        _ => None,
    };
    let target = match whole.as_ref().unwrap_or(&effect.target) {
        EffectTarget::Path(path) => FileTarget::Path(path.clone()),
        EffectTarget::Pattern(path) => FileTarget::Pattern(path.clone()),
        EffectTarget::Unknown(word) => FileTarget::Unknown(word.clone()),
    };
    let through = match effect.origin {
        shell::EffectOrigin::Redirection => FileMention::Redirection,
        shell::EffectOrigin::Operand => FileMention::Operand,
        shell::EffectOrigin::Mention => FileMention::Mention,
    };
    // An operand of git that does not exist is a revision.
    let in_repository = || part.effects.iter().any(|it| matches!(it.reach, EffectScope::Repository(_)));
    let is_file = || match &effect.target {
        EffectTarget::Path(path) => {
            path.symlink_metadata().map_or_else(|_| in_repository(), |it| it.is_file())
        }
        EffectTarget::Pattern(_) | EffectTarget::Unknown(_) => false,
    };
    let reach = match effect.reach {
        EffectScope::Itself => FileUseScope::Itself,
        // A file has nothing below it.
        EffectScope::Tree if is_file() => FileUseScope::Itself,
        EffectScope::Tree | EffectScope::LinkedTree => FileUseScope::Tree,
        EffectScope::Repository(_) => FileUseScope::History,
    };
    let kinds: &[FileUseKind] = match (effect.access, effect.origin) {
        // A word of an unknown command may be read or written.
        (_, shell::EffectOrigin::Mention) => &[FileUseKind::Read, FileUseKind::Write],
        (EffectAccess::Write | EffectAccess::Delete, _) => &[FileUseKind::Write],
        (EffectAccess::Read, _) => &[FileUseKind::Read],
        // Names and sizes inside the workspace are not secret; content is.
        (EffectAccess::List | EffectAccess::Enter, _) if finds_at_home(&effect.target, place) => &[],
        (EffectAccess::List | EffectAccess::Enter, _) => &[FileUseKind::Read],
        (EffectAccess::Obey(_) | EffectAccess::Connect, _) => &[],
    };
    kinds.iter().map(|kind| FileUse { target: target.clone(), kind: *kind, through, reach }).collect()
}

/// Files shown by a command that could show a whole repository: everything below the returned directory,
/// in the current or any version.
fn shown_of_repository(
    dir: &Path,
    unless: OutputRestriction,
    part: &AnalyzedCommand,
    place: &CommandContext<'_>,
) -> Option<PathBuf> {
    let dir = haft_paths::lexical(dir);
    let named = || {
        part.effects.iter().any(|it| match &it.target {
            EffectTarget::Path(path) => it.reach == EffectScope::Tree && path.symlink_metadata().is_ok(),
            EffectTarget::Pattern(_) | EffectTarget::Unknown(_) => false,
        })
    };
    let less = match unless {
        OutputRestriction::Nothing => false,
        OutputRestriction::Named => named(),
        OutputRestriction::AtTop => dir.join(".git").symlink_metadata().is_ok(),
    };
    let top = dir.ancestors().find(|it| it.join(".git").symlink_metadata().is_ok()).unwrap_or(&dir);
    // If the workspace is inside a larger repository, rules concern only the workspace.
    let root = place.roots.iter().find(|root| haft_paths::is_inside(&dir, root) && root.starts_with(top));
    (!less).then(|| root.map_or_else(|| top.to_owned(), |root| root.to_path_buf()))
}

/// Whether a target, or every match of a glob, is in the workspace.
fn finds_at_home(target: &EffectTarget, place: &CommandContext<'_>) -> bool {
    let found = match target {
        EffectTarget::Pattern(pattern) => expand(pattern),
        EffectTarget::Path(_) | EffectTarget::Unknown(_) => return is_at_home(target, place),
    };
    // Only symlinks in the middle of a glob are followed by every command.
    let on_the_way =
        |path: &Path| path.parent().is_none_or(|it| is_at_home(&EffectTarget::Path(it.into()), place));
    let inside = |path: &Path| {
        let lexical = haft_paths::lexical(path);
        place.roots.iter().any(|root| inside_root(&lexical, root))
    };
    !found.cut && found.found.iter().all(|it| inside(it) && on_the_way(it))
}

fn is_at_home(target: &EffectTarget, place: &CommandContext<'_>) -> bool {
    let (EffectTarget::Path(path) | EffectTarget::Pattern(path)) = target else { return false };
    let forms = [haft_paths::lexical(path), haft_paths::real(path).unwrap_or_else(|_| path.clone())];
    forms.iter().all(|form| place.roots.iter().any(|root| inside_root(form, root)))
}

fn inside_root(form: &Path, root: &Path) -> bool {
    haft_paths::is_inside(form, root)
        || haft_paths::real(root).is_ok_and(|root| haft_paths::is_inside(form, &root))
}
