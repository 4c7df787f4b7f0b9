//! Parts whose evaluation is outdated when they run, because another part of the line or a running
//! command changes what they access.

use haft_bash_analysis::{
    AnalyzedCommand, CommandEffect, ConfigDependence, EffectAccess, EffectOrigin, EffectTarget, LineAnalysis,
};

use super::{
    changes::{PartChange, changes},
    movers,
};
use crate::{
    AlwaysAskReason, CommandContext, CommandNature, CommandPart, FileMention, FileTarget, FileUse,
    FileUseKind, FileUseScope,
};

/// A running line and its environment.
pub(super) struct RunningLine<'a> {
    pub(super) analysis: &'a LineAnalysis,
    pub(super) text: &'a str,
    pub(super) place: CommandContext<'a>,
}

/// Makes every part ask whose evaluation may be outdated. `made` and `found` have the same order.
pub(super) fn mark(
    made: &mut [CommandPart],
    found: &LineAnalysis,
    place: &CommandContext<'_>,
    running: &[RunningLine<'_>],
) {
    let own = changes(&found.parts, found.is_sequential, place);
    for change in &own {
        for (at, (part, made)) in found.parts.iter().zip(made.iter_mut()).enumerate() {
            if change.part < at || !found.is_sequential && change.part != at {
                outdate(made, part, change, place);
            }
        }
    }
    for line in running {
        for change in &changes(&line.analysis.parts, false, &line.place) {
            for (part, made) in found.parts.iter().zip(made.iter_mut()) {
                outdate(made, part, change, place);
            }
        }
        for change in &own {
            let mut parts = line.analysis.parts.iter();
            if parts.any(|part| depends_on(part, change, &line.place)) {
                made[change.part].concern.get_or_insert_with(|| disturbs(line.text));
            }
        }
    }
}

/// Message about a change that a running command does not expect.
fn disturbs(line: &str) -> AlwaysAskReason {
    AlwaysAskReason::Ask(format!(
        "a command that is still running may then use other files than it was allowed to: `{line}`"
    ))
}

/// Makes a part ask if a change invalidates its evaluation.
fn outdate(made: &mut CommandPart, part: &AnalyzedCommand, change: &PartChange, place: &CommandContext<'_>) {
    for effect in &part.effects {
        match effect.access {
            EffectAccess::Obey(kind) => {
                if is_reconfigured(effect, kind, change, place) {
                    made.nature = CommandNature::Other;
                }
            }
            EffectAccess::Connect => (),
            _ if !counts(effect, part) || !change.redirects(effect, place) => (),
            EffectAccess::Read | EffectAccess::List | EffectAccess::Enter => {
                made.files.push(unknown(effect, FileUseKind::Read));
                if effect.origin == EffectOrigin::Mention {
                    made.concern.get_or_insert_with(|| misleads(change));
                }
            }
            EffectAccess::Write | EffectAccess::Delete => {
                made.files.push(unknown(effect, FileUseKind::Write));
                made.concern.get_or_insert_with(|| misleads(change));
            }
        }
    }
}

/// Whether a running part was allowed because of something that changes.
fn depends_on(part: &AnalyzedCommand, change: &PartChange, place: &CommandContext<'_>) -> bool {
    part.effects.iter().any(|effect| match effect.access {
        EffectAccess::Obey(kind) => is_reconfigured(effect, kind, change, place),
        EffectAccess::Connect => false,
        _ => counts(effect, part) && change.redirects(effect, place),
    })
}

/// Mentions in an unknown command count if it is known to write files.
fn counts(effect: &CommandEffect, part: &AnalyzedCommand) -> bool {
    effect.origin != EffectOrigin::Mention || movers::mover(part).is_some()
}

fn is_reconfigured(
    effect: &CommandEffect,
    kind: ConfigDependence,
    change: &PartChange,
    place: &CommandContext<'_>,
) -> bool {
    match &effect.target {
        EffectTarget::Path(dir) => change.configures(kind, dir, place),
        EffectTarget::Pattern(_) | EffectTarget::Unknown(_) => true,
    }
}

fn misleads(change: &PartChange) -> AlwaysAskReason {
    AlwaysAskReason::Ask(format!("`{}` may change which file it uses", change.text))
}

/// Treats the file of an effect as known only at run time.
fn unknown(effect: &CommandEffect, kind: FileUseKind) -> FileUse {
    let text = match &effect.target {
        EffectTarget::Path(path) | EffectTarget::Pattern(path) => path.display().to_string(),
        EffectTarget::Unknown(word) => word.clone(),
    };
    let through = match effect.origin {
        EffectOrigin::Redirection => FileMention::Redirection,
        EffectOrigin::Operand | EffectOrigin::Mention => FileMention::Operand,
    };
    FileUse { target: FileTarget::Unknown(text), kind, through, reach: FileUseScope::Itself }
}
