//! Ranks answers to "where is this defined, used, or mentioned".

mod definitions;
mod name_score;
mod occurrences;
mod passages;
mod path_score;
mod rank_query;

use std::sync::atomic::{AtomicUsize, Ordering};

pub use rank_query::RankQuery;

use crate::{
    CharsetGuess, SearchRoot, SearchStop, SearchStopReason, SymbolKind, TreeIndex, WalkLimits,
    index::fingerprint,
};

/// Searches an index and the files behind it.
pub struct Finder<'a> {
    /// An index that was just refreshed.
    pub index: &'a TreeIndex,
    /// Root of the indexed tree.
    pub root: &'a SearchRoot,
    /// What to find.
    pub ask: &'a RankQuery,
    /// Limits of the answer.
    pub limits: AnswerLimits,
    /// Number of threads.
    pub walk: WalkLimits,
    /// Whether a file may be shown, by its path below the root.
    pub may_show: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// Encoding detection; the same as for the index.
    pub guess: CharsetGuess,
    /// Cancellation and deadline.
    pub stop: &'a SearchStop,
}

/// Maximum sizes of an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimits {
    /// Maximum number of definitions.
    pub definitions: usize,
    /// Maximum number of usage lines.
    pub usages: usize,
    /// Maximum number of text lines.
    pub passages: usize,
}

/// A ranked answer.
#[derive(Debug, Default)]
pub struct RankedAnswer {
    /// Definitions, best first.
    pub definitions: Vec<RankedDefinition>,
    /// Total number of definitions that match about as well.
    pub total_definitions: usize,
    /// The name whose usages are listed, if not the requested one.
    pub instead: Option<String>,
    /// Usages in code, best file first.
    pub usages: Vec<RankedLine>,
    /// Total number of usages.
    pub total_usages: u64,
    /// Number of files with usages.
    pub usage_files: usize,
    /// Lines in comments, strings and documents, best first.
    pub passages: Vec<RankedLine>,
    /// Total number of such lines.
    pub total_passages: u64,
    /// Why the answer is incomplete, if it is.
    pub stopped: Option<SearchStopReason>,
}

/// A definition, or a file whose name matches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RankedDefinition {
    /// Path of the file below the root.
    pub rel: Vec<u8>,
    /// Line number, from 1.
    pub line: u32,
    /// The defined name.
    pub name: String,
    /// Kind; `None` for a file.
    pub kind: Option<SymbolKind>,
    /// Enclosing type or module.
    pub container: Option<String>,
    /// Text of the line, formatted safely.
    pub text: String,
    pub(crate) score: i32,
}

/// A line in a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RankedLine {
    /// Path of the file below the root.
    pub rel: Vec<u8>,
    /// Line number, from 1.
    pub line: u32,
    /// Text of the line, formatted safely.
    pub text: String,
}

impl Finder<'_> {
    /// Searches until the answer is full, everything was searched, or the search is stopped. Blocks.
    pub fn run(&self) -> RankedAnswer {
        let weights = self.weights();
        let mut answer = RankedAnswer::default();
        let found = self.definitions(&weights);
        answer.total_definitions = found.len();
        let best = found.first().cloned();
        answer.definitions = found.into_iter().take(self.limits.definitions).collect();
        self.show_definitions(&mut answer.definitions);
        if let Some(name) = &self.ask.name {
            self.look_for_name(&name.text, best.as_ref(), &mut answer);
        } else {
            self.passages(&weights, &mut answer);
        }
        answer.stopped = self.stop.reason();
        answer
    }

    /// Finds usages and mentions of the name; if there are none, of the best matching name.
    fn look_for_name(&self, name: &str, best: Option<&RankedDefinition>, answer: &mut RankedAnswer) {
        let own = best.filter(|best| best.name == name);
        self.occurrences(name, own.or(best), answer);
        let is_nowhere = own.is_none() && answer.total_usages == 0 && answer.total_passages == 0;
        if let Some(best) = best
            && is_nowhere
            && best.kind.is_some()
        {
            answer.instead = Some(best.name.clone());
            self.occurrences(&best.name, Some(best), answer);
        }
    }

    /// Weight of each word: rare words count more.
    fn weights(&self) -> Vec<f64> {
        let total = self.index.len().max(1);
        let weight = |term: &String| {
            let hash = fingerprint(term.as_bytes());
            let files = self.index.files().filter(|(_, file)| file.words.may_hold(hash)).count();
            #[expect(clippy::cast_precision_loss, reason = "a weight")]
            let ratio = (total + 1) as f64 / (files + 1) as f64;
            (1.0 + ratio).ln()
        };
        self.ask.terms.iter().map(weight).collect()
    }

    /// Maps items on a few threads; keeps their order.
    fn each<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let run = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return done };
                if self.stop.is_over() {
                    return done;
                }
                done.extend(work(item).map(|result| (index, result)));
            }
        };
        let threads = self.walk.threads.get().min(items.len().div_ceil(8)).max(1);
        let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
            let mut results = run();
            for other in others {
                results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            results
        });
        results.sort_unstable_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Current text of a file.
    fn text_of(&self, rel: &[u8]) -> Option<Vec<u8>> {
        /// Maximum bytes of a file that is read.
        const MAX: u64 = 16 << 20;
        let (file, _) = self.root.open_file(rel).ok()?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX), &mut bytes).ok()?;
        match crate::grep::to_text(&bytes, self.guess)? {
            std::borrow::Cow::Owned(text) => Some(text),
            std::borrow::Cow::Borrowed(text) if text.len() == bytes.len() => Some(bytes),
            std::borrow::Cow::Borrowed(text) => Some(text.to_vec()),
        }
    }
}
