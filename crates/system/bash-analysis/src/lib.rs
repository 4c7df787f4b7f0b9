//! What a command line would do, found out without running anything.
//!
//! [`analyse`] turns the text of a bash command line into facts: which simple
//! commands it contains, in which directory each would run, which files each
//! would touch, and whether any of that is uncertain. It decides nothing.
//!
//! **Does not know** tools, rules, modes, agents or settings, nor how commands
//! are run. It does not even look at the disk: it is a pure function of the text
//! and of where it would run.
//!
//! **Invariant:** whatever cannot be read with certainty carries a doubt; a
//! command line without doubts runs no program that is not one of its parts.
//!
//! **Invariant:** time and stack are bounded for input of any length and
//! nesting.

mod arithmetic;
mod brace;
mod branch_states;
mod critical;
mod doubt;
mod exit;
mod facts;
mod field;
mod glob;
mod inner;
mod known;
mod mention;
mod names;
mod part;
mod pipe;
mod propose;
mod reading;
mod scan;
mod screen;
mod state;
mod subcommands;
mod suspect;
mod syntax;
mod text;
mod variables;
mod views;
mod walk;
mod witness;
mod wrapper;

pub use critical::{fits, is_critical, refused_removal, removes_unknown};
pub use doubt::{Risk, RiskLevel};
pub use exit::{ExitMeaning, exit_meaning, exit_meaning_of};
pub use facts::{
    AnalysisContext, AnalyzedCommand, CommandClass, CommandEffect, CommandForm, CommandForms, Confidence,
    ConfigDependence, EditKind, EffectAccess, EffectOrigin, EffectScope, EffectTarget, FormCoverage,
    LineAnalysis, OutputRestriction, Word, WorkingDir,
};
pub use glob::FileNamePattern;
pub use propose::propose;
pub use reading::SharedAnalysis;
pub use screen::MAX_CHARS;
pub use views::{views, views_of};

use std::sync::atomic::{AtomicUsize, Ordering};

use state::ShellState;
use syntax::SyntaxNote;
use walk::Evaluator;

/// Longer texts are not even parsed.
const MAX_PARSED: usize = 1024 * 1024;

/// How many command lines were analysed, for tests that bound it. Only builds
/// with debug assertions count.
static ANALYSED: AtomicUsize = AtomicUsize::new(0);

/// See [`ANALYSED`].
#[doc(hidden)]
pub fn analysed() -> usize {
    ANALYSED.load(Ordering::Relaxed)
}

/// Finds out what a command line would do, without running anything.
pub fn analyse(source: &str, place: AnalysisContext<'_>) -> LineAnalysis {
    if cfg!(debug_assertions) {
        ANALYSED.fetch_add(1, Ordering::Relaxed);
    }
    let mut doubts = screen::screen(source);
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
    // A second opinion is only worth its time when it can matter.
    if doubts.is_empty() && !witness::agrees(source, &script) {
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

/// What could be in a text that was not understood.
fn guess(source: &str, place: AnalysisContext<'_>, doubts: Vec<Risk>) -> LineAnalysis {
    let mut guesses = scan::guesses(source);
    guesses.sort_unstable();
    guesses.dedup();
    let parts = guesses.iter().map(|words| part::guess(words, source, place)).collect();
    LineAnalysis { parts, doubts, end: WorkingDir::Unknown, is_sequential: false }
}
