//! Changes by parts of a line that affect other parts.
//!
//! Each part is evaluated against the disk before the line runs. A part that moves, copies, links,
//! unpacks or creates files may invalidate this for other parts: a name may refer to another file
//! ([`ChangedNames`]), or a program may find other configuration ([`ChangedConfig`]).

use std::{
    collections::VecDeque,
    ffi::OsString,
    path::{Path, PathBuf},
};

use haft_bash_analysis::{
    AnalyzedCommand, CommandClass, CommandEffect, ConfigDependence, EditKind, EffectAccess, EffectOrigin,
    EffectScope, EffectTarget, FileNamePattern,
};

use super::{
    literal_parent,
    movers::{self, Mover},
    survey::{Survey, survey},
};
use crate::{CommandContext, config_files, glob_expansion::expand};

/// Changes by one part.
pub(super) struct PartChange {
    /// Index of the part in its line.
    pub(super) part: usize,
    pub(super) text: String,
    names: ChangedNames,
    config: ChangedConfig,
}

/// Names that may refer to another file afterwards.
enum ChangedNames {
    Nowhere,
    /// At and below these paths.
    Below(Vec<PathBuf>),
    Anywhere,
}

/// Configuration that may be created, replaced or removed.
#[derive(Default)]
struct ChangedConfig {
    /// These files and directories.
    paths: Vec<PathBuf>,
    /// All matches of these globs.
    patterns: Vec<PathBuf>,
    /// Files of these names anywhere.
    names: Vec<String>,
    /// The git index: a repository inside may become part of it.
    index: bool,
    anywhere: bool,
}

/// Computes the changes of all parts of a line.
pub(super) fn changes(
    parts: &[AnalyzedCommand],
    is_sequential: bool,
    place: &CommandContext<'_>,
) -> Vec<PartChange> {
    let mut found: Vec<ChangeDraft> =
        parts.iter().enumerate().filter_map(|(at, part)| ChangeDraft::new(at, part, parts)).collect();
    // Content copied from a changed place is unknown too.
    loop {
        let mut grew = false;
        for at in 0..found.len() {
            if found[at].is_linked || found[at].sources.is_empty() {
                continue;
            }
            let (part, sources) = (found[at].change.part, found[at].sources.clone());
            let before = |other: &&ChangeDraft| {
                other.change.part < part || !is_sequential && other.change.part != part
            };
            let any = |test: &dyn Fn(&PartChange, &Path) -> bool| {
                let mut others = found.iter().filter(before);
                others.any(|other| sources.iter().any(|source| test(&other.change, source)))
            };
            let outdated = any(&|change, source| change.overlaps(source, place));
            let reconfigured = any(&|change, source| change.brings_config(source));
            if outdated {
                found[at].link();
                grew = true;
            } else if reconfigured && !found[at].change.config.anywhere {
                found[at].change.config.anywhere = true;
                grew = true;
            }
        }
        if !grew {
            return found.into_iter().map(|draft| draft.change).collect();
        }
    }
}

/// A change whose sources may themselves be changed.
struct ChangeDraft {
    change: PartChange,
    /// Directory trees that are copied or moved.
    sources: Vec<PathBuf>,
    /// Their destinations.
    targets: Vec<PathBuf>,
    is_linked: bool,
}

impl ChangeDraft {
    fn new(at: usize, part: &AnalyzedCommand, parts: &[AnalyzedCommand]) -> Option<Self> {
        let mut config = written(part);
        let (mut names, mut sources, mut targets) = (ChangedNames::Nowhere, Vec::new(), Vec::new());
        let mut is_linked = false;
        match (part.class, movers::mover(part)) {
            (CommandClass::Edit(EditKind::Copy | EditKind::Move), _) if !is_known(part) => {
                names = ChangedNames::Anywhere;
                config.anywhere = true;
            }
            (CommandClass::Edit(EditKind::Copy | EditKind::Move), _) => {
                sources = copied(part);
                targets = arrivals(at, part, parts);
                let surveys: Vec<Survey> = sources.iter().map(|it| survey(it)).collect();
                is_linked = sources.iter().zip(&surveys).any(|(source, survey)| {
                    survey.has_links || !survey.exists && !is_created(source, at, parts)
                });
                let inside = surveys.iter().flat_map(|it| &it.names);
                let arrived: Vec<PathBuf> = written_paths(part).flat_map(forms).collect();
                config.paths.extend(inside.flat_map(|name| arrived.iter().map(move |it| it.join(name))));
                config.anywhere |= surveys.iter().any(|it| !it.exists);
            }
            (_, None | Some(Mover::Nothing)) => (),
            (_, Some(Mover::Index)) => config.index = true,
            (_, Some(Mover::Files)) => match movers::literal_names(part) {
                Some(named) => config.names = named,
                None => config.anywhere = true,
            },
            (_, Some(Mover::Removal)) => match movers::removed(part) {
                Some(targets) => targets.into_iter().for_each(|it| config.add(it)),
                None => config.anywhere = true,
            },
            (_, Some(Mover::Links)) => match movers::plain_operands(part) {
                Some(operands) => {
                    // Content copied to a directory keeps its names.
                    let named = operands.named;
                    let names = || named.iter().filter_map(|it| it.file_name());
                    config.paths.extend(named.iter().flat_map(|dir| names().map(|it| dir.join(it))));
                    config.paths.extend(named.iter().cloned());
                    targets.clone_from(&named);
                    sources = named;
                    sources.extend(operands.starts);
                }
                None => {
                    names = ChangedNames::Anywhere;
                    config.anywhere = true;
                }
            },
        }
        let changes = config.is_changed() || matches!(names, ChangedNames::Anywhere) || !sources.is_empty();
        let change = PartChange { part: at, text: part.text.clone(), names, config };
        let mut made = Self { change, sources, targets, is_linked: false };
        if is_linked {
            made.link();
        }
        changes.then_some(made)
    }

    /// The copied content may include symlinks, so names at the target may lead anywhere.
    fn link(&mut self) {
        self.is_linked = true;
        self.change.config.anywhere = true;
        self.change.names = ChangedNames::Below(self.targets.iter().flat_map(|it| forms(it)).collect());
    }
}

impl PartChange {
    /// Whether the target of an effect may be another file afterwards.
    pub(super) fn redirects(&self, effect: &CommandEffect, place: &CommandContext<'_>) -> bool {
        let linked = effect.reach == EffectScope::LinkedTree;
        match &effect.target {
            EffectTarget::Path(path) => self.leads_elsewhere(path, linked, place),
            EffectTarget::Pattern(pattern) => {
                let start = literal_parent(pattern);
                match &self.names {
                    ChangedNames::Nowhere => false,
                    ChangedNames::Anywhere => true,
                    ChangedNames::Below(areas) => forms(&start)
                        .iter()
                        .any(|it| areas.iter().any(|area| it.starts_with(area) || area.starts_with(it))),
                }
            }
            // A part with an unknown target asks anyway.
            EffectTarget::Unknown(_) => false,
        }
    }

    fn leads_elsewhere(&self, path: &Path, linked: bool, place: &CommandContext<'_>) -> bool {
        match &self.names {
            ChangedNames::Nowhere => false,
            // The line's initial directory stays the same, whatever is put into it.
            ChangedNames::Anywhere => {
                let start: Vec<PathBuf> =
                    place.roots.iter().copied().chain([place.cwd]).flat_map(passed).collect();
                linked || passed(path).iter().any(|it| !start.contains(it))
            }
            ChangedNames::Below(areas) => {
                let below = passed(path).iter().any(|it| areas.iter().any(|area| it.starts_with(area)));
                let around = || forms(path).iter().any(|it| areas.iter().any(|area| area.starts_with(it)));
                below || linked && around()
            }
        }
    }

    /// Whether a tree contains changed paths or is inside one.
    fn overlaps(&self, tree: &Path, place: &CommandContext<'_>) -> bool {
        match &self.names {
            ChangedNames::Anywhere => true,
            _ => self.leads_elsewhere(tree, true, place),
        }
    }

    /// Whether a tree may contain new configuration.
    fn brings_config(&self, tree: &Path) -> bool {
        let config = &self.config;
        let is_config = |path: &&PathBuf| {
            path.file_name()
                .is_some_and(|it| config_files::is_any_config_name(&it.to_string_lossy().to_lowercase()))
        };
        let inside = |path: &PathBuf| forms(tree).iter().any(|it| path.starts_with(it));
        let named = || config.names.iter().any(|it| config_files::is_any_config_name(it));
        config.anywhere
            || !config.patterns.is_empty()
            || named()
            || config.paths.iter().filter(is_config).any(inside)
    }

    /// Whether a program in this directory may find different configuration afterwards.
    pub(super) fn configures(&self, kind: ConfigDependence, dir: &Path, place: &CommandContext<'_>) -> bool {
        let config = &self.config;
        if config.anywhere || self.leads_elsewhere(dir, false, place) {
            return true;
        }
        let dirs = forms(dir);
        let is_found = |path: &PathBuf| {
            let Some(name) = path.file_name().map(|it| it.to_string_lossy().to_lowercase()) else {
                return false;
            };
            // A nested repository may be one that the outer one reads.
            let inner = matches!(kind, ConfigDependence::Git | ConfigDependence::GitIndex) && name == ".git";
            let above = || path.parent().is_some_and(|parent| dirs.iter().any(|it| it.starts_with(parent)));
            inner || config_files::is_config_name(kind, &name) && above()
        };
        let fits = |pattern: &PathBuf| {
            let Some(last) = pattern.file_name().and_then(|it| it.to_str()) else { return true };
            let pattern = FileNamePattern::new(last);
            config_files::config_names(kind).iter().any(|name| pattern.matches(name))
        };
        config.names.iter().any(|name| config_files::is_config_name(kind, name))
            || config.paths.iter().any(is_found)
            || config.patterns.iter().any(fits)
            || config.index
                && (kind == ConfigDependence::GitIndex
                    || kind == ConfigDependence::Git && config_files::holds_repository(dir))
    }
}

/// Files that a part certainly writes or deletes.
fn written(part: &AnalyzedCommand) -> ChangedConfig {
    let mut config = ChangedConfig::default();
    writes(part).for_each(|effect| config.add(&effect.target));
    config
}

/// Whether every operand of a known command is one path.
fn is_known(part: &AnalyzedCommand) -> bool {
    part.effects.iter().all(|it| matches!(it.target, EffectTarget::Path(_)))
}

impl ChangedConfig {
    fn is_changed(&self) -> bool {
        let lists = [self.paths.is_empty(), self.patterns.is_empty(), self.names.is_empty()];
        self.anywhere || self.index || lists.contains(&false)
    }

    fn add(&mut self, target: &EffectTarget) {
        match target {
            EffectTarget::Path(path) => self.paths.extend(forms(path)),
            EffectTarget::Pattern(pattern) => {
                self.paths.extend(expand(pattern).found.iter().flat_map(|it| forms(it)));
                self.patterns.push(pattern.clone());
            }
            EffectTarget::Unknown(_) => self.anywhere = true,
        }
    }
}

fn writes(part: &AnalyzedCommand) -> impl Iterator<Item = &CommandEffect> {
    part.effects.iter().filter(|it| {
        it.origin != EffectOrigin::Mention && matches!(it.access, EffectAccess::Write | EffectAccess::Delete)
    })
}

/// Trees that `cp` and `mv` read.
fn copied(part: &AnalyzedCommand) -> Vec<PathBuf> {
    let sources =
        part.effects.iter().filter(|it| it.access == EffectAccess::Read && it.reach != EffectScope::Itself);
    sources.filter_map(path_of).map(Path::to_owned).collect()
}

fn written_paths(part: &AnalyzedCommand) -> impl Iterator<Item = &Path> {
    part.effects
        .iter()
        .filter(|it| it.access == EffectAccess::Write && it.origin == EffectOrigin::Operand)
        .filter_map(path_of)
}

fn path_of(effect: &CommandEffect) -> Option<&Path> {
    match &effect.target {
        EffectTarget::Path(path) => Some(path),
        EffectTarget::Pattern(_) | EffectTarget::Unknown(_) => None,
    }
}

/// Destinations of `cp` and `mv`. An existing directory that no other part touches only gains entries.
fn arrivals(at: usize, part: &AnalyzedCommand, parts: &[AnalyzedCommand]) -> Vec<PathBuf> {
    let all: Vec<&Path> = written_paths(part).collect();
    let others = || parts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, part)| part);
    let is_settled = |dir: &Path| {
        let meta = dir.symlink_metadata();
        meta.is_ok_and(|it| it.is_dir())
            && all.iter().any(|it| *it != dir && it.starts_with(dir))
            && others().all(|other| {
                movers::mover(other).is_none()
                    && writes(other).all(|it| path_of(it).is_some_and(|it| !dir.starts_with(it)))
            })
    };
    all.iter().filter(|it| !is_settled(it)).map(|it| it.to_path_buf()).collect()
}

/// Whether another part of the line creates a missing path.
fn is_created(path: &Path, at: usize, parts: &[AnalyzedCommand]) -> bool {
    let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
    let mut written = others.flat_map(|(_, part)| writes(part)).filter_map(path_of);
    written.any(|it| it.starts_with(path) || path.starts_with(it))
}

/// A path as written and its real path.
fn forms(path: &Path) -> Vec<PathBuf> {
    let lexical = haft_paths::lexical(path);
    match haft_paths::real(path) {
        Ok(real) if real != lexical => vec![lexical, real],
        _ => vec![lexical],
    }
}

/// All paths that the kernel traverses to a path: `a/../b` traverses `a`, and so does a symlink to
/// `a/../b`.
fn passed(path: &Path) -> Vec<PathBuf> {
    let mut out = vec![haft_paths::lexical(path)];
    let mut at = PathBuf::from("/");
    let mut steps: VecDeque<OsString> = path.iter().skip(1).map(OsString::from).collect();
    let mut links = 0;
    while let Some(step) = steps.pop_front() {
        if step == ".." {
            at.pop();
            continue;
        }
        at.push(&step);
        out.push(at.clone());
        let Ok(target) = std::fs::read_link(&at) else { continue };
        links += 1;
        if MAX_LINKS < links {
            break;
        }
        at.pop();
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        let front = target.iter().filter(|it| *it != "/");
        front.collect::<Vec<_>>().into_iter().rev().for_each(|it| steps.push_front(it.to_owned()));
    }
    out
}

/// The kernel's limit for symlinks in one path.
const MAX_LINKS: usize = 40;
