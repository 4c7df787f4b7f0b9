//! Static analysis of bash command lines.
//!
//! [`analyse`] returns facts about the text of a command line: the simple commands it contains, the
//! directory each would run in, the files each would touch, and what is uncertain. It makes no
//! permission decision.
//!
//! **Does not know** tools, rules, modes, agents or settings, nor how commands are run. It does not read the disk: it is a pure function of the text and the environment it would run in.
//!
//! **Invariant:** whatever cannot be determined with certainty is reported as a [`Risk`]; a command line without risks runs no program that is not one of its parts.
//!
//! **Invariant:** time and stack are bounded for input of any length and nesting.

mod analysis;
mod analyzed_command;
mod arithmetic;
mod brace;
mod branch_states;
mod changed_variables;
mod critical_paths;
mod cross_check;
mod evaluate;
mod exit_status;
mod expansion;
mod fallback_scan;
mod join_words;
mod mentioned_paths;
mod nested_commands;
mod piped_names;
mod possible_commands;
mod programs;
mod raw_checks;
mod risk;
mod safe_variables;
mod shell_pattern;
mod shell_state;
mod shown_files;
mod simple_command;
mod subcommands;
mod suggest_rule;
mod syntax;
mod wrapper_commands;

pub use analysis::{
    AnalysisContext, AnalyzedCommand, CommandClass, CommandEffect, CommandForm, CommandForms, Confidence,
    ConfigDependence, EditKind, EffectAccess, EffectOrigin, EffectScope, EffectTarget, FormCoverage,
    LineAnalysis, OutputRestriction, Word, WorkingDir,
};
pub use analyzed_command::SharedAnalysis;
pub use critical_paths::{fits, is_critical, refused_removal, removes_unknown};
pub use exit_status::{ExitMeaning, exit_meaning, exit_meaning_of};
pub use raw_checks::MAX_CHARS;
pub use risk::{Risk, RiskLevel};
pub use shell_pattern::FileNamePattern;
pub use shown_files::{views, views_of};
pub use suggest_rule::propose;

use std::sync::atomic::{AtomicUsize, Ordering};

use evaluate::Evaluator;
use shell_state::ShellState;
use syntax::SyntaxNote;

/// Maximum bytes parsed; longer texts are only scanned for guesses.
const MAX_PARSED: usize = 1024 * 1024;

/// Number of analyses so far, for tests that bound it. Counted only in builds with debug assertions.
static ANALYSED: AtomicUsize = AtomicUsize::new(0);

/// Returns [`ANALYSED`].
#[doc(hidden)]
pub fn analysed() -> usize {
    ANALYSED.load(Ordering::Relaxed)
}

/// Analyses a command line without running anything.
pub fn analyse(source: &str, place: AnalysisContext<'_>) -> LineAnalysis {
    if cfg!(debug_assertions) {
        ANALYSED.fetch_add(1, Ordering::Relaxed);
    }
    let mut doubts = raw_checks::screen(source);
    let parsed = if source.len() <= MAX_PARSED {
        syntax::parse(source)
    } else {
        Err(syntax::SyntaxStop { at: 0, why: "too long" })
    };
    let script = match parsed {
        Ok(script) => script,
        Err(stop) => {
            doubts.push(Risk::Unparsed { at: stop.at, why: stop.why });
            return guess(source, place, doubts);
        }
    };
    // Cross-checking costs time and matters only if there is no risk yet.
    if doubts.is_empty() && !cross_check::agrees(source, &script) {
        doubts.push(Risk::Disagreement);
    }
    doubts.extend(script.notes.iter().map(|note| match note {
        SyntaxNote::EscapedBackquote => Risk::EscapedBackquote,
        SyntaxNote::Coprocess => Risk::Coprocess,
    }));
    let mut walker = Evaluator::new(source, place);
    let end = walker.list(&script.list, ShellState::new(place)).directory().clone();
    let Evaluator { mut parts, doubts: mut found, interleaves, .. } = walker;
    doubts.append(&mut found);
    doubts.dedup();
    parts.sort_by_key(|part| part.span.start);
    LineAnalysis { parts, doubts, end, is_sequential: !interleaves }
}

/// Analysis of a text that could not be parsed.
fn guess(source: &str, place: AnalysisContext<'_>, doubts: Vec<Risk>) -> LineAnalysis {
    let mut guesses = fallback_scan::guesses(source);
    guesses.sort_unstable();
    guesses.dedup();
    let parts = guesses.iter().map(|words| simple_command::guess(words, source, place)).collect();
    LineAnalysis { parts, doubts, end: WorkingDir::Unknown, is_sequential: false }
}
