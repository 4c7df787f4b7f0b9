//! `awk`: its programs can write files, run commands and connect.

use super::{ProgramAnalysis, awk_program, files};
use crate::{
    analysis::{EffectAccess, EffectScope},
    expansion::Field,
};

/// Options end at the program text; later words are files even if they start with `-`.
pub(super) fn classify(args: &[Field]) -> Option<ProgramAnalysis> {
    if let [only] = args
        && only.literal() == Some("--version")
    {
        return Some(ProgramAnalysis::harmless());
    }
    let mut at = 0;
    while let Some(text) = args.get(at)?.literal().filter(|text| text.len() > 1 && text.starts_with('-')) {
        at += 1;
        let next = |at: &mut usize| {
            let value = args.get(*at)?.literal()?;
            *at += 1;
            Some(value)
        };
        let assigned = match text {
            "--" => break,
            "-F" => {
                next(&mut at)?;
                continue;
            }
            "-v" => next(&mut at)?,
            _ if text.starts_with("-F") || text.starts_with("--field-separator=") => continue,
            _ => text.strip_prefix("--assign=").or_else(|| text.strip_prefix("-v"))?,
        };
        let (name, _) = assigned.split_once('=')?;
        awk_program::is_plain_variable(name).then_some(())?;
    }
    let (program, operands) = args.get(at..)?.split_first()?;
    awk_program::is_harmless(program.literal()?).then_some(())?;
    // An operand with `=` assigns a variable, and a computed one may be anything.
    let assigns = |field: &Field| match field {
        Field::Literal(text) => text.contains('='),
        Field::Glob(text) | Field::Match(text) => text.starts_with(['*', '?', '[']) || text.contains('='),
        Field::Number | Field::Stream => false,
        Field::One(_) | Field::Many(_) => true,
    };
    (!operands.iter().any(assigns))
        .then(|| ProgramAnalysis::reads(files(operands, EffectAccess::Read, EffectScope::Itself)))
}
